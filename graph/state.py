"""The state that flows through a turn: plain JSON values and messages (docs/state.md)."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from typing_extensions import TypedDict

from turnflow.graph.transcript import merge_messages

LAYOUT = "turnflow/1"
"""What the channels hold, and how; in `turn`, so that a checkpoint can be told from another graph's."""

TRANSCRIPT = "messages"
"""The delta channel."""

BATCH = "batch"
"""The channel of a reply's calls."""

RECORD = "turnflow_record"
"""The channel whose writes the saver moves to the record; no other graph has one of this name."""

SNAPSHOT_EVERY = 50
"""Updates of the transcript after which the delta channel stores it whole."""


def is_turn(value: object) -> bool:
    """Whether this is the `turn` channel of a turn graph, in the layout of today."""
    return isinstance(value, dict) and value.get("layout") == LAYOUT


def merge_batch(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Merge what tasks report into the batch, call by call; a batch with another id replaces the old one."""
    if not old or not new or old.get("id") != new.get("id"):
        return new or {}
    calls = dict(old["calls"])
    for call_id, fields in new.get("calls", {}).items():
        calls[call_id] = {**calls.get(call_id, {}), **fields}
    return {**old, **new, "calls": calls}


def merge_session(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Merge a change into what is kept with the thread, key by key in each section.

    None takes a key out, or all of a section. In the sections `vars` and `meta` an entry that is a dict, as a
    namespace of variables is, is merged key by key in turn; the key `CLEARED` in such a change takes out what
    stood there before.
    """
    merged = dict(old or {})
    for section, changes in (new or {}).items():
        known, changed = merged.get(section, {}), changes or {}
        if section in _NESTED_SECTIONS:
            changed = {key: _merged_entry(known.get(key), change) for key, change in changed.items()}
        entries = {} if changes is None else {**known, **changed}
        merged[section] = {key: value for key, value in entries.items() if value is not None}
    return merged


CLEARED = ""
"""Key that stands for all that was in a namespace; no variable has it."""

_NESTED_SECTIONS = frozenset({"vars", "meta"})


def _merged_entry(old: Any, change: Any) -> Any:
    """An entry with a change in it; None where nothing is left."""
    if not isinstance(change, dict):
        return change
    known = old if isinstance(old, dict) and CLEARED not in change else {}
    merged = {**known, **change}
    return {key: value for key, value in merged.items() if value is not None and key != CLEARED} or None


Messages = Annotated[list[AnyMessage], DeltaChannel(merge_messages, snapshot_frequency=SNAPSHOT_EVERY)]


class TurnInput(TypedDict):
    """The graph's input: messages that end with the user's."""

    messages: Messages


class TurnOutput(TypedDict, total=False):
    """The graph's output: the transcript, the new messages included, the answer and the outcome."""

    messages: Messages
    answer: str
    outcome: dict[str, Any]


class TurnState(TypedDict, total=False):
    """All channels. Their shapes are in docs/state.md."""

    messages: Messages
    summary: dict[str, Any]
    turn: dict[str, Any]
    step: dict[str, Any]
    decision: dict[str, Any]
    batch: Annotated[dict[str, Any], merge_batch]
    view: Annotated[dict[str, Any], UntrackedValue(dict, guard=False)]
    gathered: Annotated[dict[str, Any], UntrackedValue(dict, guard=False)]
    turnflow_record: Annotated[list[dict[str, Any]], EphemeralValue(list, guard=False)]
    session: Annotated[dict[str, Any], merge_session]
    answer: str
    outcome: dict[str, Any]
