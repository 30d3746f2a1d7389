"""How much of a conversation stays when it is summed up, and what a summary must save. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnflow.graph.budget import budget_of

AT_ONCE = 5
"""So many turns, or rounds, are summed up together at least: one by one each would cost a request."""
_LEAST_PART, _LARGE_PART = 10, 2
_LEAST_TOKENS = 64


@dataclass(frozen=True, slots=True)
class FoldRoom:
    """What a conversation may take in a request, in tokens.

    Attributes:
        free: What prompt, tools and the reply leave of the window.
        tail: What of it stays as it is after a fold: half of what there is when folding begins.
    """

    free: int
    tail: int

    def is_worth(self, tokens: int, count: int, *, is_first: bool) -> bool:
        """Whether a summary saves enough for what it costs.

        Args:
            tokens: What it would stand for.
            count: So many turns or rounds of it are in no summary yet.
            is_first: Whether there is no summary yet that it would take in. The first need not wait for
                more where one turn or round takes half of what is free.
        """
        if tokens < max(_LEAST_TOKENS, self.free // _LEAST_PART):
            return False
        return count >= AT_ONCE or (is_first and tokens >= self.free // _LARGE_PART)

    def without(self, tokens: int) -> FoldRoom:
        """What is left for the rest, where so many tokens stay in any case."""
        return FoldRoom(self.free, max(0, self.tail - tokens // 2))


def fold_room(
    manifest: Mapping[str, Any], *, window: int, requested: int | None, fold_at: float | None
) -> FoldRoom:
    """The room in a window, from what a plan says about prompt and tools.

    Args:
        manifest: Of the last plan; may be empty.
        window: Tokens of request and reply together.
        requested: Output that is asked for; None where no limit is sent.
        fold_at: How full a request may be before it is folded; None: full.
    """
    segments: Mapping[str, int] = manifest.get("segments") or {}
    given = sum(each["tokens"] for each in manifest.get("contributions") or ())
    # Those in the system prompt give way, as all contributions do.
    in_system = max(0, given - segments.get("contributions", 0))
    system = max(0, segments.get("system", 0) - in_system)
    fixed = segments.get("tools", 0) + system + segments.get("directives", 0)
    room = budget_of(window, requested, 0).room or 0
    full = int(room * (1.0 if fold_at is None else fold_at)) - fixed
    return FoldRoom(max(0, room - fixed), max(0, full // 2))
