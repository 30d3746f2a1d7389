"""Ids of tool calls as the pickiest provider takes them: nine letters and digits."""

from __future__ import annotations

import hashlib
import re
import string
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

_LENGTH = 9
_SHORT = re.compile(f"[a-zA-Z0-9]{{{_LENGTH}}}")
_SIGNS = string.digits + string.ascii_letters


def with_short_ids(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages whose calls have ids of nine letters and digits, each its own, and whose results have theirs.

    The first call with an id that fits keeps it; the others' are made of what they were, so that they are
    the same in the next request. A result has the id of the last call before it that had its id.
    """
    ids = _Ids(messages)
    return [_rewritten(message, ids) for message in messages]


class _Ids:
    """The new ids, handed out in the order of the messages."""

    def __init__(self, messages: Iterable[BaseMessage]) -> None:
        self._kept = {call_id for call_id in _all_ids(messages) if _SHORT.fullmatch(call_id)}
        self._given: set[str] = set()
        self._made: Counter[str] = Counter()
        self._waiting: dict[str, deque[str]] = {}

    def of_calls(self, call_ids: Sequence[str]) -> list[str]:
        """The ids of one message's calls."""
        new = [self._of_call(call_id) for call_id in call_ids]
        for call_id in call_ids:
            self._waiting[call_id] = deque()
        for call_id, given in zip(call_ids, new, strict=True):
            self._waiting[call_id].append(given)
        return new

    def of_result(self, call_id: str) -> str:
        """The id of a result: that of its call, of several under one id each in turn."""
        waiting = self._waiting.get(call_id)
        if waiting is None:
            given = call_id if call_id in self._kept else self._make(call_id)
            self._waiting[call_id] = deque([given])
            return given
        return waiting.popleft() if len(waiting) > 1 else waiting[0]

    def _of_call(self, call_id: str) -> str:
        given = call_id
        if call_id not in self._kept or call_id in self._given:
            given = self._make(call_id)
        self._given.add(given)
        return given

    def _make(self, call_id: str) -> str:
        while True:
            made = _digest(f"{self._made[call_id]} {call_id}")
            self._made[call_id] += 1
            if made not in self._kept and made not in self._given:
                self._given.add(made)
                return made


def _digest(text: str) -> str:
    """Nine letters and digits that stand for a text."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    signs = []
    for _ in range(_LENGTH):
        number, sign = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[sign])
    return "".join(signs)


def _rewritten(message: BaseMessage, ids: _Ids) -> BaseMessage:
    if isinstance(message, ToolMessage):
        new = ids.of_result(message.tool_call_id)
        return message if new == message.tool_call_id else message.model_copy(update={"tool_call_id": new})
    if not isinstance(message, AIMessage):
        return message
    old = list(_call_ids(message))
    given = ids.of_calls(old)
    if given == [call["id"] for call in _calls(message)]:
        return message
    calls = [{**call, "id": new} for call, new in zip(_calls(message), given, strict=True)]
    count = len(message.tool_calls)
    return message.model_copy(update={"tool_calls": calls[:count], "invalid_tool_calls": calls[count:]})


def _all_ids(messages: Iterable[BaseMessage]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ToolMessage):
            yield message.tool_call_id
        elif isinstance(message, AIMessage):
            yield from _call_ids(message)


def _call_ids(message: AIMessage) -> Iterator[str]:
    return (call["id"] or "" for call in _calls(message))


def _calls(message: AIMessage) -> list[Any]:
    """All calls that are sent back: those that could be read, and those that could not."""
    return [*message.tool_calls, *message.invalid_tool_calls]
