"""The transcript: how messages merge, and which calls in it are still open."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
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

_ID_NAMESPACE = uuid.UUID("6f0d8a52-5f0e-4b83-9d0a-1f6a3d1c7b11")


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


class _Transcript:
    def __init__(self, messages: list[AnyMessage]) -> None:
        self.messages = list(messages)

    def add(self, message: BaseMessage) -> None:
        if isinstance(message, RemoveMessage):
            self._remove(message.id)
            return
        if isinstance(message, BaseMessageChunk):
            message = message_chunk_to_message(message)
        if message.id is None:
            message = message.model_copy(update={"id": self._stable_id(message)})
        if isinstance(message, ToolMessage):
            self._add_result(message)
        else:
            self._put(message)

    def _remove(self, message_id: str | None) -> None:
        if message_id == REMOVE_ALL_MESSAGES:
            self.messages = []
        else:
            self.messages = [m for m in self.messages if m.id != message_id]

    def _put(self, message: BaseMessage) -> None:
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].id == message.id:
                self.messages[index] = cast("AnyMessage", message)
                return
        self.messages.append(cast("AnyMessage", message))

    def _add_result(self, result: ToolMessage) -> None:
        for index in range(len(self.messages) - 1, -1, -1):
            order = call_order(self.messages[index])
            if result.tool_call_id in order:
                self._insert_behind(index, order, result)
                return
        if not any(
            isinstance(m, ToolMessage) and m.tool_call_id == result.tool_call_id for m in self.messages
        ):
            self._put(result)

    def _insert_behind(self, index: int, order: dict[str, int], result: ToolMessage) -> None:
        place = order[result.tool_call_id]
        at = index + 1
        while at < len(self.messages):
            other = self.messages[at]
            if not isinstance(other, ToolMessage) or order.get(other.tool_call_id, place + 1) > place:
                break
            if other.tool_call_id == result.tool_call_id:
                return  # the first result wins
            at += 1
        self.messages.insert(at, result)

    def _stable_id(self, message: BaseMessage) -> str:
        """An id for a message that came without one as a string or a tuple: the same on every replay."""
        return str(uuid.uuid5(_ID_NAMESPACE, f"{len(self.messages)}:{message.type}:{message.content}"))


def call_order(message: BaseMessage) -> dict[str, int]:
    """The call ids of an assistant message with their places; empty for any other message."""
    if not isinstance(message, AIMessage):
        return {}
    return {call["id"]: i for i, call in enumerate(message.tool_calls) if call["id"]}


def open_calls(messages: Iterable[BaseMessage]) -> list[ToolCall]:
    """The calls that have no result yet, in order."""
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            waiting.update({call["id"]: call for call in message.tool_calls if call["id"]})
        elif isinstance(message, ToolMessage):
            waiting.pop(message.tool_call_id, None)
    return list(waiting.values())


def last_user_message(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """The newest user message, or None."""
    return next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)


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


def iter_text(content: str | list[Any]) -> Iterator[str]:
    """The text pieces of a message's content, blocks of other kinds passed over."""
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if isinstance(block, str):
            yield block
        elif block.get("type") == "text":
            yield block.get("text", "")
