"""The transcript: how messages merge, and which calls in it are still open."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.utils import message_chunk_to_message
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from turnflow.graph.text import storable

_ID_NAMESPACE = uuid.UUID("6f0d8a52-5f0e-4b83-9d0a-1f6a3d1c7b11")
_MARK = "@"


def merge_messages(state: Sequence[Any], writes: Sequence[Any]) -> list[AnyMessage]:
    """Merge batches of messages into the transcript; the reducer of the `messages` channel.

    By id: a message with a known id replaces the old one. A tool message goes behind its call, in the
    order of the calls, and the first result of a call wins, so that late results land before a newer
    user message. Deterministic, and the same however the writes are batched, as a delta channel needs.

    Args:
        state: The transcript.
        writes: Each a message or a list of messages, in any form that LangChain takes.
    """
    # What the reducer gave before is typed already; only raw input is not.
    typed = bool(state) and isinstance(state[0], BaseMessage)
    transcript = _Transcript(cast("list[AnyMessage]", state if typed else convert_to_messages(state)))
    for write in writes:
        items = write if isinstance(write, list) else [write]
        for message in convert_to_messages(items):
            transcript.add(message)
    return transcript.messages


@dataclass
class _Results:
    """The results that stand behind one assistant message."""

    called: int
    """Index of that message."""
    order: dict[str, int]
    """Places of the message's calls."""
    answered: set[str]
    end: int
    """Index behind the last of them."""
    last: float
    """The largest place among them; infinite where one belongs to no call of the message."""


class _Transcript:
    """Merges message by message; where it knows the place of an id it need not look for it."""

    def __init__(self, messages: list[AnyMessage]) -> None:
        self.messages = list(messages)
        self._by_id: dict[str | None, int] = {}
        self._by_call: dict[str, int] = {}
        self._answered: set[str] = set()
        self._behind: _Results | None = None  # of the message whose results came last
        self._index_all()

    def add(self, message: BaseMessage) -> None:
        if isinstance(message, RemoveMessage):
            self._remove(message.id)
            return
        if isinstance(message, BaseMessageChunk):
            message = message_chunk_to_message(message)
        if isinstance(message.content, str) and (text := storable(message.content)) != message.content:
            message = message.model_copy(update={"content": text})
        if message.id is None:
            message = message.model_copy(update={"id": self._stable_id(message)})
        if isinstance(message, ToolMessage):
            self._add_result(message)
        else:
            self._put(message)

    def _index_all(self) -> None:
        self._by_id.clear()
        self._by_call.clear()
        self._answered.clear()
        self._behind = None
        for index in range(len(self.messages)):
            self._index(index)

    def _index(self, index: int) -> None:
        message = self.messages[index]
        self._by_id[message.id] = index
        if isinstance(message, ToolMessage):
            self._answered.add(message.tool_call_id)
        else:
            self._by_call.update(dict.fromkeys(call_order(message), index))

    def _remove(self, message_id: str | None) -> None:
        if message_id == REMOVE_ALL_MESSAGES:
            self.messages = []
        elif message_id in self._by_id:
            self.messages = [m for m in self.messages if m.id != message_id]
        else:
            return
        self._index_all()

    def _put(self, message: BaseMessage) -> None:
        known = self._by_id.get(message.id)
        self._behind = None  # it may stand among them
        if known is None:
            self.messages.append(cast("AnyMessage", message))
            self._index(len(self.messages) - 1)
        else:
            if is_steering(self.messages[known]) and isinstance(message, HumanMessage):
                message = steering(message)  # it came while a turn ran, and begins none
            self.messages[known] = cast("AnyMessage", message)
            self._index_all()

    def _add_result(self, result: ToolMessage) -> None:
        called = self._by_call.get(result.tool_call_id)
        if result.id in self._by_id:  # another message has it already
            fresh = uuid.uuid5(_ID_NAMESPACE, f"{result.id}:{result.tool_call_id}")
            result = result.model_copy(update={"id": str(fresh)})
        if called is not None:
            self._insert_behind(called, result)
        elif result.tool_call_id not in self._answered:
            self._put(result)

    def _insert_behind(self, called: int, result: ToolMessage) -> None:
        known = self._behind
        if known is None or known.called != called:
            known = self._behind = self._results_behind(called)
        if result.tool_call_id in known.answered:
            return  # the first result wins
        place = known.order[result.tool_call_id]
        at = known.end
        if known.last > place:
            places = (self._place(known, index) for index in range(called + 1, known.end))
            at = called + 1 + next(i for i, other in enumerate(places) if other > place)
        self.messages.insert(at, result)
        if at < len(self.messages) - 1:
            self._index_all()
            return
        # At the end nothing else moves: a reply of thousands of calls costs no more than its length.
        self._index(at)
        known.answered.add(result.tool_call_id)
        known.end, known.last = at + 1, place

    def _results_behind(self, called: int) -> _Results:
        end = called + 1
        while end < len(self.messages) and isinstance(self.messages[end], ToolMessage):
            end += 1
        results = cast("list[ToolMessage]", self.messages[called + 1 : end])
        answered = {result.tool_call_id for result in results}
        known = _Results(called, call_order(self.messages[called]), answered, end, -1)
        known.last = max((self._place(known, index) for index in range(called + 1, end)), default=-1)
        return known

    def _place(self, known: _Results, index: int) -> float:
        return known.order.get(cast("ToolMessage", self.messages[index]).tool_call_id, math.inf)

    def _stable_id(self, message: BaseMessage) -> str:
        """An id for a message that came without one as a string or a tuple: the same on every replay."""
        return str(uuid.uuid5(_ID_NAMESPACE, f"{len(self.messages)}:{message.type}:{message.content}"))


def call_order(message: BaseMessage) -> dict[str, int]:
    """The call ids of an assistant message with their places; empty for any other message."""
    if not isinstance(message, AIMessage):
        return {}
    return {call["id"]: i for i, call in enumerate(message.tool_calls) if call["id"]}


def open_calls(messages: Iterable[BaseMessage]) -> list[tuple[str | None, ToolCall]]:
    """The calls that have no result yet, in order, each with the id of the message that made it."""
    waiting: dict[str, tuple[str | None, ToolCall]] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            waiting.update({call["id"]: (message.id, call) for call in message.tool_calls if call["id"]})
        elif isinstance(message, ToolMessage):
            waiting.pop(message.tool_call_id, None)
    return list(waiting.values())


def own_fields(message: BaseMessage) -> dict[str, Any]:
    """What turnflow keeps beside a message's content; foreign messages may hold anything there."""
    own = message.additional_kwargs.get("turnflow")
    return own if isinstance(own, dict) else {}


def has_handles(messages: Iterable[BaseMessage]) -> bool:
    """Whether a result was too long to be shown, so that there is more to read of it."""
    return any(isinstance(m, ToolMessage) and bool(own_fields(m).get("handle")) for m in messages)


def results_by_call(messages: Sequence[BaseMessage], message_id: str) -> dict[str, ToolMessage]:
    """The results behind an assistant message, by call id."""
    results: dict[str, ToolMessage] = {}
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
        elif message.id == message_id:
            return results
        else:
            results = {}
    return {}


def is_steering(message: BaseMessage) -> bool:
    """Whether this is a user message that came while a turn ran, and was taken into that turn."""
    return isinstance(message, HumanMessage) and own_fields(message).get("steering") is True


def is_input(message: BaseMessage) -> bool:
    """Whether this is a user message that begins a turn."""
    return isinstance(message, HumanMessage) and not is_steering(message)


def steering(message: HumanMessage, *, on: bool = True) -> HumanMessage:
    """The message with the mark of one that was taken into a running turn, or (`on=False`) without it."""
    if is_steering(message) == on:
        return message
    own = {**own_fields(message), "steering": True}
    if not on:
        del own["steering"]
    rest = {key: value for key, value in message.additional_kwargs.items() if key != "turnflow"}
    return message.model_copy(update={"additional_kwargs": {**rest, **({"turnflow": own} if own else {})}})


def marked_id(message_id: str, mark: str) -> str:
    """The id of a parent graph's user message in the turn that answers it."""
    return f"{message_id}{_MARK}{mark}"


def unmarked_id(message_id: str) -> str:
    """The id that `marked_id` was given."""
    return message_id.rpartition(_MARK)[0] or message_id


def last_user_message(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """The newest user message that begins a turn, or None."""
    return next((m for m in reversed(messages) if isinstance(m, HumanMessage) and is_input(m)), None)


def turn_messages(messages: Sequence[AnyMessage], input_id: str | None) -> list[AnyMessage]:
    """What stands behind the turn's input message: the turn's own replies and results."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == input_id:
            return list(messages[index + 1 :])
    return []


def message_of(messages: Sequence[AnyMessage], message_id: str | None) -> AIMessage | None:
    """The assistant message with this id, searched from the end, or None."""
    return next((m for m in reversed(messages) if m.id == message_id and isinstance(m, AIMessage)), None)


def result_message(turn_id: str, call_id: str, name: str, content: Any, *, ok: bool = False) -> ToolMessage:
    """A tool message whose id is the same whenever the same call of the same turn is answered."""
    return ToolMessage(
        content=content,
        tool_call_id=call_id,
        name=name,
        status="success" if ok else "error",
        id=str(uuid.uuid5(_ID_NAMESPACE, f"{turn_id}:{call_id}")),
    )
