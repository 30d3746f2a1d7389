"""What the archive says of a turn: its key, its text for searches, what a reader sees (docs/archive.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from turnflow.graph.content import iter_text
from turnflow.graph.text import canonical, storable

TEXT_LIMIT = 4_000
"""Characters of a turn that searches look at."""

_DIGEST_BYTES = 8


def turn_key(turn_id: str, messages: Iterable[BaseMessage]) -> str:
    """The key of a turn: its id and a digest of its messages.

    The digest is over ids, types, contents, calls and what results belong to. It is the same before the
    messages were stored and after they were read back.
    """
    told = canonical([_told(message) for message in messages])
    return f"{storable(turn_id)}~{blake2b(told.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def search_text(messages: Iterable[BaseMessage]) -> str:
    """The user's texts and the replies, without the results of tools; at most `TEXT_LIMIT` characters.

    Where they are longer, each gives up as much as it has more than its share.
    """
    texts = [text for message in messages if (text := _said(message))]
    room, left = TEXT_LIMIT - len(texts), len(texts)
    for index, text in sorted(enumerate(texts), key=lambda item: len(item[1])):
        texts[index] = text[: max(room // left, 0)]
        room, left = room - len(texts[index]), left - 1
    return "\n".join(texts)[:TEXT_LIMIT]


def count_visible(messages: Iterable[BaseMessage]) -> int:
    """How many messages a reader of the conversation sees: the user's, and replies without calls."""
    return sum(
        isinstance(message, HumanMessage) or (isinstance(message, AIMessage) and not message.tool_calls)
        for message in messages
    )


def _said(message: BaseMessage) -> str:
    if not isinstance(message, HumanMessage | AIMessage):
        return ""
    return " ".join(iter_text(message.content)).strip()


def _told(message: BaseMessage) -> list[Any]:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [
        message.type,
        _plain(message.id),
        _plain(message.content),
        [[_plain(call["id"]), _plain(call["name"]), _plain(call["args"])] for call in calls],
        _plain(message.tool_call_id) if isinstance(message, ToolMessage) else None,
    ]


def _plain(value: Any) -> Any:
    """A value as JSON that is the same after it was stored; what JSON does not know counts as one thing."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(item) for item in value]
    return "?"
