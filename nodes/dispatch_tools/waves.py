"""In which order the calls of a batch run: its waves (docs/tools.md). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class WaveCall:
    """What the order depends on."""

    id: str
    is_alone: bool = False
    """Whether it may not run beside others."""
    asks: bool = False
    """Whether it interrupts the graph to ask the user."""
    needs_approval: bool = False


def plan_waves(calls: Sequence[WaveCall]) -> tuple[dict[str, int], int | None]:
    """The wave of each call, by id, and the one in which a person is asked; None where nobody is.

    Whatever interrupts the graph stands alone in its superstep, so that everything else is saved before it:
    calls up to the first that needs approval, then the approval, then this call and all behind it, at last a
    question.

    Args:
        calls: In the model's order.
    """
    tools = [call for call in calls if not call.asks]
    first = next((at for at, call in enumerate(tools) if call.needs_approval), len(tools))
    waves = in_waves(tools[:first], 0)
    approval = None
    if first < len(tools):
        approval = _behind(waves)
        waves |= in_waves(tools[first:], approval + 1)
    for question in (call for call in calls if call.asks):
        waves[question.id] = _behind(waves)
    return waves, approval


def in_waves(calls: Sequence[WaveCall], first: int) -> dict[str, int]:
    """Waves from `first` on: neighbours that may run side by side share one, any other call has its own."""
    waves: dict[str, int] = {}
    wave, is_shared = first - 1, False
    for call in calls:
        may_share = not (call.is_alone or call.asks)
        if not (may_share and is_shared):
            wave += 1
        waves[call.id] = wave
        is_shared = may_share
    return waves


def _behind(waves: dict[str, int]) -> int:
    """The wave behind all of these."""
    return max(waves.values(), default=-1) + 1
