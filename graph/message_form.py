"""Messages as plain data: the form in which the record holds them (docs/record.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage, BaseMessageChunk, messages_from_dict
from langchain_core.messages.utils import message_chunk_to_message

from turnflow.graph.transcript import own_fields

_RAW = {"artifact"}
"""Fields that stay what they are: only the one who made them knows their form."""


def dump_message(message: BaseMessage) -> dict[str, Any]:
    """The message as a dict: its `type`, and its fields without those that say nothing.

    It reads back equal whichever types a saver may read: no message is named in it.
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    fields = message.model_dump(exclude_defaults=True, exclude={"type", *_RAW}, warnings=False)
    raw = {name: value for name in _RAW if (value := getattr(message, name, None)) is not None}
    return {"type": message.type, **fields, **raw}


def load_message(form: Mapping[str, Any]) -> AnyMessage:
    """The message of a dict that `dump_message` made.

    Raises:
        ValueError: It is of a type that LangChain does not know.
    """
    fields = {name: value for name, value in form.items() if name != "type"}
    return cast("AnyMessage", messages_from_dict([{"type": form["type"], "data": fields}])[0])


def dump_messages(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """The messages as dicts."""
    return [dump_message(message) for message in messages]


def beginning_of(messages: Sequence[BaseMessage]) -> str:
    """The id of the message with which a transcript begins; '' where there is none.

    What is pinned of turns that are in the archive alone may stand before it.
    """
    first = next((message for message in messages if not own_fields(message).get("pinned")), None)
    return str((first or messages[0]).id) if messages else ""


def load_messages(forms: Iterable[Mapping[str, Any]]) -> list[AnyMessage]:
    """The messages of dicts."""
    return [load_message(form) for form in forms]
