"""`Inbox`: input that comes while a turn runs (docs/inbox.md)."""

from __future__ import annotations

import inspect
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from langchain_core.messages import HumanMessage

from turnflow.graph.content import clean_content
from turnflow.graph.text import storable
from turnflow.graph.transcript import steering

InboxMessage = str | HumanMessage | Sequence[str | dict[str, Any]]
"""What is put in: a text, a message, or content blocks."""


@runtime_checkable
class InputSource(Protocol):
    """What a turn needs of an inbox: write these two for one of your own, as plain functions.

    They may be called from any thread and must not block for long. In an async run they are called in a
    worker thread. What they raise is logged, and the turn goes on.
    """

    def pending(self) -> list[HumanMessage]:
        """What was put in and not acknowledged yet, in order, each under an id that stays the same."""

    def acknowledge(self, ids: Iterable[str]) -> None:
        """Take out the items with these ids; unknown ids are passed over."""


class Inbox:
    """Input for one conversation, in memory: put in from any thread or task, taken by its turns.

    An item stays until it is acknowledged, which a turn does once a stored checkpoint holds it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[str, HumanMessage] = {}

    def put(self, message: InboxMessage, *, id: str | None = None) -> str:  # noqa: A002 - LangChain's name
        """Put an item in, behind the others; one whose id is in already is put in once.

        Args:
            message: A text, a user message or its content blocks.
            id: The id; None takes the message's own, else a new one.

        Returns:
            The id.

        Raises:
            ValueError: It is empty, or no user message, or the id is no text that can be stored.
        """
        item = as_item(message, id)
        with self._lock:
            self._items.setdefault(str(item.id), item)
        return str(item.id)

    def pending(self) -> list[HumanMessage]:
        """What was put in and not acknowledged yet, in order, each with its id."""
        with self._lock:
            return list(self._items.values())

    def acknowledge(self, ids: Iterable[str] | str) -> None:
        """Take out the items with these ids; unknown ids are passed over.

        Args:
            ids: The ids; a text is one of them.

        Raises:
            ValueError: They are no ids; the text names the value.
        """
        gone = as_ids(ids)
        with self._lock:
            for each in gone:
                self._items.pop(each, None)

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)

    def __bool__(self) -> bool:
        """An inbox is one, also an empty one."""
        return True


def as_item(message: InboxMessage, item_id: str | None = None) -> HumanMessage:
    """The user message that stands in an inbox for what was put in.

    Args:
        message: A text, a user message or its content blocks.
        item_id: The id; None takes the message's own, else a new one.

    Raises:
        ValueError: It is empty, or no user message, or the id is no text that can be stored.
    """
    if item_id is not None:
        checked_id(item_id, "an item's id")
    if isinstance(message, str):
        item = HumanMessage(content=storable(message))
    elif isinstance(message, HumanMessage):
        item = steering(message, on=False)
    elif isinstance(message, list | tuple) and all(isinstance(block, str | dict) for block in message):
        item = HumanMessage(content=list(message))
    else:
        raise ValueError(f"an inbox takes a text, a HumanMessage or content blocks, not {message!r:.80}")
    if not clean_content(item.content):
        raise ValueError("the message is empty; it needs some text, an image or another block")
    own = checked_id(item_id or item.id or str(uuid.uuid4()), "an item's id")
    return item if item.id == own else item.model_copy(update={"id": own})


def as_ids(given: object) -> list[str]:
    """Ids of items from what a caller gives: a list of them, or one alone.

    Raises:
        ValueError: It is neither; the text names the value.
    """
    if isinstance(given, str):
        return [given]
    ids = list(given) if isinstance(given, Iterable) and not isinstance(given, bytes | Mapping) else None
    if ids is None:
        raise ValueError(f"ids is a list of items' ids, not {given!r:.80}")
    for each in ids:
        if not isinstance(each, str):
            raise ValueError(f"ids holds {each!r:.80}, which is no item's id; ids are texts")
    return ids


def checked_id(given: object, what: str) -> str:
    """An id that can be stored.

    Args:
        given: What was given.
        what: What an error calls it.

    Raises:
        ValueError: It is no text, or blank, or holds half of a surrogate pair; the text names the value.
    """
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{what} is a text that is not blank, not {given!r:.80}")
    if storable(given) != given:
        raise ValueError(f"{what} is a text that can be stored; {given!r:.80} holds half of a surrogate pair")
    return given


def check_inbox(given: object, argument: str) -> None:
    """Refuse what is no inbox.

    Args:
        given: What was given; None is none.
        argument: What an error calls it.

    Raises:
        ValueError: The text names the argument and what it takes.
    """
    if given is None:
        return
    if isinstance(given, type) or not isinstance(given, InputSource):
        told = "is an Inbox, or another object with `pending` and `acknowledge`"
        raise ValueError(f"{argument} {told}, not {given!r:.80}")
    for name in ("pending", "acknowledge"):
        if not callable(getattr(given, name)) or inspect.iscoroutinefunction(getattr(given, name)):
            raise ValueError(f"{argument}: `{name}` is a plain function, no coroutine function")
