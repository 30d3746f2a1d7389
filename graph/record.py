"""The record of a conversation: reading it, and making the state of it again (docs/record.md)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel import Pregel
from typing_extensions import TypedDict

from turnflow.graph.langgraph_access import checkpoint_time
from turnflow.graph.message_form import beginning_of, load_messages
from turnflow.graph.saver import TurnSaver, open_saver
from turnflow.graph.saver_edits import edited_fact, transcript_at
from turnflow.graph.state import RECORD, merge_session
from turnflow.graph.transcript import call_order, merge_messages

Source = BaseCheckpointSaver[Any] | Pregel[Any, Any, Any, Any] | str | os.PathLike[str]
"""Where a record is: a saver, a compiled graph that has one, or the path of a SQLite file."""


def read_record(source: Source, thread_id: str) -> list[dict[str, Any]]:
    """The facts of a thread, oldest first.

    On a saver of another kind than our own, the facts of those checkpoints that lead to the newest one, as
    far back as it has them.

    Args:
        source: A saver, a graph that was built with one, or the path of a file of `open_saver`.
        thread_id: The thread.

    Returns:
        Dicts of plain data with `type`, `session_id`, `turn_id`, `round`, `seq` (counts up), `time` (seconds
        since the epoch) and what the type brings along; `graph` too where the turn graph was embedded.

    Raises:
        ValueError: There is no such file, or the graph has no saver.
        SaverError: The file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        if not Path(source).exists():
            raise ValueError(f"there is no file {os.fspath(source)}")
        with open_saver(source) as saver:
            return read_record(saver, thread_id)
    if isinstance(source, Pregel):
        if not isinstance(source.checkpointer, BaseCheckpointSaver):
            raise ValueError("the graph keeps no record: build it with a checkpointer")
        source = source.checkpointer
    if isinstance(source, TurnSaver):
        return _in_order([{**fact, "session_id": thread_id} for fact in source.read_record(thread_id)])
    return [
        {**fact, "session_id": thread_id, "seq": seq}
        for seq, fact in enumerate(_facts_along(source, thread_id), start=1)
    ]


def _in_order(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The facts in the order in which things happened.

    LangGraph may hand over what a node wrote before what the node before it wrote, and before the checkpoint
    that it came after.
    """
    numbers = [fact["seq"] for fact in facts]
    happened = sorted(facts, key=lambda fact: float(fact["time"]))
    return [{**fact, "seq": seq} for fact, seq in zip(happened, numbers, strict=True)]


def _facts_along(saver: BaseCheckpointSaver[Any], thread_id: str) -> Iterator[dict[str, Any]]:
    """The facts in the table of writes, along the checkpoints that lead to the newest."""
    chain: list[CheckpointTuple] = []
    config: RunnableConfig | None = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    while config is not None and (saved := saver.get_tuple(config)) is not None:
        chain.append(saved)
        config = saved.parent_config
    before: CheckpointTuple | None = None
    for saved in reversed(chain):
        if before is not None and saved.metadata.get("source") == "update":
            changed = _changed(before, saved)
            old = transcript_at(saver, before.config, before.checkpoint["channel_values"])
            fact = edited_fact(saver, saved.config, saved.checkpoint, "edited", changed, old)
            yield from [fact] if fact else []
        yield from _facts_of(saved)
        before = saved


def _facts_of(saved: CheckpointTuple) -> list[dict[str, Any]]:
    """The facts of the tasks that came after a checkpoint, in the order in which the tasks ended."""
    tasks = [value for _, channel, value in saved.pending_writes or () if channel == RECORD and value]
    return [fact for facts in sorted(tasks, key=lambda facts: float(facts[-1]["time"])) for fact in facts]


def _changed(before: CheckpointTuple, after: CheckpointTuple) -> set[str]:
    """The channels that have another version."""
    old = before.checkpoint["channel_versions"]
    new = after.checkpoint["channel_versions"]
    return {channel for channel, version in new.items() if old.get(channel) != version}


def line_of(facts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The facts that lead to the newest state: without those of branches that were left.

    Args:
        facts: The facts of a thread, oldest first.
    """
    line: list[Mapping[str, Any]] = []
    begun = [(-math.inf, line)]
    for fact in facts:
        if fact["type"] == "fork":
            since = checkpoint_time(fact["from_checkpoint"]) or fact["time"]
            active = next(known for start, known in reversed(begun) if start <= since)
            line = [known for known in active if known["time"] < since]
            begun.append((fact["time"], line))
        line.append(fact)
    return line


class Rebuilt(TypedDict):
    """What the record says of the state."""

    messages: list[AnyMessage]
    """The transcript, from the conversation's first turn on."""
    answer: str
    outcome: dict[str, Any]
    session: dict[str, Any]
    summary: dict[str, Any]


def rebuild(facts: Iterable[Mapping[str, Any]], graph: str = "") -> Rebuilt:
    """The state that the facts lead to. Pure.

    Of the channel `messages`, a state that is trimmed has the last turns only (docs/archive.md). Branches
    that were left count for nothing.

    Args:
        facts: The facts of a thread, oldest first.
        graph: Where the turn graph stands in its parents; '' for one that is not embedded.
    """
    transcript = _Transcript()
    rebuilt: Rebuilt = {"messages": [], "answer": "", "outcome": {}, "session": {}, "summary": {}}
    for fact in line_of(facts):
        if fact.get("graph", "") != graph or fact.get("raised"):
            continue
        if fact["type"] in {"messages", "edited", "fork"} and "messages" in fact:
            messages, after = load_messages(fact["messages"]), fact.get("after", _AFTER.get(fact["type"]))
            if after == "" and "from" in fact:
                transcript.restate(messages, fact["from"])
            else:
                transcript.take(messages, after)
        _take_channels(rebuilt, fact)
    rebuilt["messages"] = transcript.whole()
    return rebuilt


_AFTER = {"edited": "", "fork": ""}
"""What the messages of a fact stand behind that says nothing of it: an edit has the transcript whole."""

_GIVES: dict[str, tuple[Literal["answer", "outcome", "session", "summary"], ...]] = {
    "edited": ("answer", "outcome", "session", "summary"),
    "fork": ("answer", "outcome", "session", "summary"),
    "summary": ("summary",),
    "answer": ("answer", "outcome"),
    "turn.ended": ("answer", "outcome"),
}
"""The channels that a fact has the new values of, by type."""


def _take_channels(rebuilt: Rebuilt, fact: Mapping[str, Any]) -> None:
    """Take in what a fact says of the other channels."""
    if fact["type"] == "session":
        before = {} if fact.get("whole") else rebuilt["session"]
        rebuilt["session"] = merge_session(before, fact["session"])
    elif fact["type"] == "turn.started":
        rebuilt["answer"], rebuilt["outcome"] = "", {}
    for channel in _GIVES.get(fact["type"], ()):
        if channel in fact:
            rebuilt[channel] = fact[channel]


class _Transcript:
    """The transcript as it grows: turns that are over are put aside, so that time grows with its length."""

    def __init__(self) -> None:
        self._over: list[AnyMessage] = []
        self._over_ids: set[str | None] = set()
        self._open: list[AnyMessage] = []
        self._calls: set[str] = set()

    def take(self, messages: Sequence[AnyMessage], after: str | None) -> None:
        """Merge messages in; where a message is named, they stand for all that is behind it."""
        if after is not None:
            self._cut(after)
        if not all(self._is_ours(message) for message in messages):
            self._open, self._over, self._over_ids = self.whole(), [], set()
        self._open = merge_messages(self._open, [list(messages)])
        for message in messages:
            self._calls.update(call_order(message))

    def restate(self, messages: Sequence[AnyMessage], first: str) -> None:
        """Take messages for all that is behind what stands before the message of an id.

        What is pinned of the turns before it may be among them, and stays where it is.
        """
        whole = self.whole()
        places = {message.id: index for index, message in enumerate(whole)}
        begin = places.get(first)
        if begin is None:
            begin = places.get(beginning_of([message for message in messages if message.id in places]), 0)
        front, rest = whole[:begin], []
        for message in messages:
            place = places.get(message.id, begin)
            if place < begin:
                front[place] = message
            else:
                rest.append(message)
        self._over, self._over_ids, self._open = [], set(), [*front, *rest]
        self._calls = {call for message in self._open for call in call_order(message)}

    def whole(self) -> list[AnyMessage]:
        """The whole transcript."""
        return [*self._over, *self._open]

    def _cut(self, after: str) -> None:
        last = (self._open or self._over)[-1:]
        if not (last and last[0].id == after):
            whole = self.whole()
            places = [index for index, message in enumerate(whole) if message.id == after]
            self._over, self._over_ids = [], set()
            self._open = whole[: places[-1] + 1] if places else ([] if after == "" else whole)
        self._over += self._open
        self._over_ids.update(message.id for message in self._open)
        self._open, self._calls = [], set()

    def _is_ours(self, message: BaseMessage) -> bool:
        """Whether merging it concerns nothing that is put aside."""
        if isinstance(message, RemoveMessage) or message.id in self._over_ids:
            return False
        if isinstance(message, AIMessage):
            self._calls.update(call_order(message))
        return not isinstance(message, ToolMessage) or message.tool_call_id in self._calls
