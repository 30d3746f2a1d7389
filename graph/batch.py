"""The batch of a reply's tool calls, as it stands in the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, cast

from langchain_core.messages import ToolCall, ToolMessage
from typing_extensions import TypedDict

from turnflow.graph.permissions import Permission


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
    key: NotRequired[str]
    """What the loop guard knows the call by (`graph/loop_guard.py`)."""
    approval: NotRequired[Literal["asked", "approved"]]
    """Whether a person is to be asked before it runs, or has been."""
    tool: NotRequired[str]
    """Fingerprint of the tool that a person is asked about."""
    reason: NotRequired[str]
    """Why a person is asked about it, if the permission policy says so."""
    policy: NotRequired[str]
    """Name of the permission policy that allowed it; left out where that is the default."""
    edited: NotRequired[bool]
    """Whether that person changed the call: `name` and `args` are not the model's."""
    terminate: NotRequired[bool]
    checkpoint: NotRequired[str | None]
    sources: NotRequired[list[Any]]
    directives: NotRequired[list[str]]
    load: NotRequired[list[str]]
    unload: NotRequired[list[str]]
    instructions: NotRequired[str | dict[str, str] | None]
    variables: NotRequired[dict[str, Any]]
    """What the call sets of the session's variables (docs/sessions.md)."""
    handle: NotRequired[str]
    """Under which the whole result is kept, where it was too long (docs/results.md)."""
    unasked: NotRequired[list[str]]
    """The prompts of a question that was not asked, since an earlier call was rejected."""
    uncertain: NotRequired[bool]
    """The call was broken off, and was not run again (docs/effects.md)."""
    asked: NotRequired[bool]
    """The question ends the turn, since there is no checkpointer to pause with."""


class Approval(TypedDict):
    """The question to a person about all calls of a batch that need approval."""

    wave: int
    """It stands alone in this wave: calls of lower ones run before it, calls of higher ones after it."""
    done: bool


class Batch(TypedDict):
    """The batch channel."""

    id: str
    """Id of the assistant message whose calls these are."""
    calls: dict[str, BatchCall]
    joined: bool
    """Whether the join has taken in the results."""
    folded: bool
    """Whether a checkpoint among the results was folded."""
    approval: NotRequired[Approval]
    refused: NotRequired[list[list[str]]]
    """Key and result of the calls that are answered without having run, for the loop guard."""


@dataclass(frozen=True)
class PlannedBatch:
    """What became of a reply's calls before any of them ran.

    Attributes:
        calls: All of them, as the stored message holds them.
        batch: Those that run.
        refusals: Results of those that do not.
        turn: Fields of the `turn` channel that change.
        permissions: What the permission policies said, by call id.
    """

    calls: list[ToolCall]
    batch: Batch
    refusals: list[ToolMessage]
    turn: dict[str, Any]
    permissions: dict[str, Permission] = field(default_factory=dict)


NO_BATCH: Batch = {"id": "", "calls": {}, "joined": True, "folded": True}


def batch_of(state: Any) -> Batch:
    """The state's batch."""
    return cast("Batch", state.get("batch") or NO_BATCH)


def next_wave(batch: Batch) -> Sequence[BatchCall]:
    """What comes next: the calls of the lowest wave that is not done, or those that a person must approve."""
    if asked := awaiting_approval(batch):
        return asked
    waiting = waiting_calls(batch)
    first = min((call["wave"] for call in waiting), default=0)
    return [call for call in waiting if call["wave"] == first]


def waiting_calls(batch: Batch) -> list[BatchCall]:
    """The calls that are not done, in the model's order."""
    return [call for call in batch["calls"].values() if not call["done"]]


def calls_ahead(batch: Batch) -> list[str]:
    """Ids of the calls that did not begin: those behind the next wave; all, where a person is asked first."""
    begun = [] if awaiting_approval(batch) else [call["id"] for call in next_wave(batch)]
    return [call["id"] for call in waiting_calls(batch) if call["id"] not in begun]


def awaiting_approval(batch: Batch) -> Sequence[BatchCall]:
    """The calls that a person must approve now, as all before them are done; empty where nobody is asked."""
    approval = batch.get("approval")
    if approval is None or approval["done"]:
        return []
    waiting = waiting_calls(batch)
    if any(call["wave"] < approval["wave"] for call in waiting):
        return []
    return [call for call in waiting if call.get("approval") == "asked"]


def checkpoints(batch: Batch) -> list[str]:
    """Checkpoint summaries among the results, in the model's order."""
    return [text for call in batch["calls"].values() if (text := call.get("checkpoint"))]


def needs_fold(batch: Batch) -> bool:
    """Whether the results hold a checkpoint that was not folded yet."""
    return not batch["folded"] and bool(checkpoints(batch))
