"""The batch of a reply's tool calls, as it stands in the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, cast

from langchain_core.messages import ToolCall, ToolMessage
from typing_extensions import TypedDict


class BatchCall(TypedDict):
    """One call of a batch. What stands behind `done` is written by the task that ran it."""

    id: str
    name: str
    args: dict[str, Any]
    wave: int
    """Calls of a wave run side by side; a wave starts when the one before it is done."""
    asks: bool
    """Whether the call interrupts the graph to ask the user."""
    done: bool
    terminate: NotRequired[bool]
    checkpoint: NotRequired[str | None]
    sources: NotRequired[list[Any]]
    directives: NotRequired[list[str]]
    asked: NotRequired[bool]
    """The question ends the turn, since there is no checkpointer to pause with."""


class Batch(TypedDict):
    """The batch channel."""

    id: str
    """Id of the assistant message whose calls these are."""
    calls: dict[str, BatchCall]
    joined: bool
    """Whether the join has taken in the results."""
    folded: bool
    """Whether a checkpoint among the results was folded."""


@dataclass(frozen=True)
class PlannedBatch:
    """What became of a reply's calls before any of them ran.

    Attributes:
        calls: All of them, as the stored message holds them.
        batch: Those that run.
        refusals: Results of those that do not.
        turn: Fields of the `turn` channel that change.
    """

    calls: list[ToolCall]
    batch: Batch
    refusals: list[ToolMessage]
    turn: dict[str, Any]


NO_BATCH: Batch = {"id": "", "calls": {}, "joined": True, "folded": True}


def batch_of(state: Any) -> Batch:
    """The state's batch."""
    return cast("Batch", state.get("batch") or NO_BATCH)


def next_wave(batch: Batch) -> Sequence[BatchCall]:
    """The calls that may run now: the lowest wave that is not done."""
    waiting = [call for call in batch["calls"].values() if not call["done"]]
    first = min((call["wave"] for call in waiting), default=0)
    return [call for call in waiting if call["wave"] == first]


def checkpoints(batch: Batch) -> list[str]:
    """Checkpoint summaries among the results, in the model's order."""
    return [text for call in batch["calls"].values() if (text := call.get("checkpoint"))]


def needs_fold(batch: Batch) -> bool:
    """Whether the results hold a checkpoint that was not folded yet."""
    return not batch["folded"] and bool(checkpoints(batch))
