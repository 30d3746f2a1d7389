"""Input that is waiting as a table of the saver: it outlives the process (docs/inbox.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.inbox import InboxMessage, as_ids, as_item, checked_id
from turnflow.graph.message_form import dump_message, load_message
from turnflow.graph.saver_values import packed, unpacked
from turnflow.graph.text import storable

_PUT = "INSERT OR IGNORE INTO turnflow_inbox (thread_id, id, type, value) VALUES (?, ?, ?, ?)"

_PENDING = "SELECT type, value FROM turnflow_inbox WHERE thread_id = ? ORDER BY seq"

_ACKNOWLEDGE = "DELETE FROM turnflow_inbox WHERE thread_id = ? AND id = ?"

_COUNT = "SELECT count(*) FROM turnflow_inbox WHERE thread_id = ?"


class SaverInbox:
    """An inbox in a saver's file, for one thread: what another process puts in is seen too.

    Made by `TurnSaver.inbox`. Its methods may be called from any thread, and are those of `Inbox`. Each is a
    transaction of its own; what was put in is in the file when `put` returns.
    """

    def __init__(self, saver: SqliteSaver, thread_id: str) -> None:
        self._saver = saver
        self.thread_id = thread_id

    def put(self, message: InboxMessage, *, id: str | None = None) -> str:  # noqa: A002 - LangChain's name
        """Put an item in, behind the others; one whose id is in already is put in once.

        Args:
            message: A text, a user message or its content blocks.
            id: The id; None takes the message's own, else a new one.

        Returns:
            The id.

        Raises:
            ValueError: It is empty, or no user message, or the id is no text that can be stored.
            SaverError: The saver is closed, or its file cannot be written.
        """
        item = as_item(message, id)
        row = packed(self._saver.serde, dump_message(item))
        with self._saver.cursor() as cursor:
            cursor.execute(_PUT, (self.thread_id, item.id, *row))
        return str(item.id)

    def pending(self) -> list[HumanMessage]:
        """What was put in and not acknowledged yet, in order, each with its id."""
        with self._saver.cursor(transaction=False) as cursor:
            rows = cursor.execute(_PENDING, (self.thread_id,)).fetchall()
        forms = (unpacked(self._saver.serde, *row) for row in rows)
        return [cast("HumanMessage", load_message(form)) for form in forms]

    def acknowledge(self, ids: Iterable[str] | str) -> None:
        """Take out the items with these ids; unknown ids are passed over.

        Args:
            ids: The ids; a text is one of them.

        Raises:
            ValueError: They are no ids; the text names the value.
            SaverError: The saver is closed, or its file cannot be written.
        """
        gone = [(self.thread_id, each) for each in as_ids(ids) if storable(each) == each]
        with self._saver.cursor() as cursor:
            cursor.executemany(_ACKNOWLEDGE, gone)

    def __len__(self) -> int:
        with self._saver.cursor(transaction=False) as cursor:
            return int(cursor.execute(_COUNT, (self.thread_id,)).fetchone()[0])

    def __bool__(self) -> bool:
        """An inbox is one, also an empty one."""
        return True


class InboxStore(SqliteSaver):
    """The part of the saver that keeps input that is waiting."""

    def inbox(self, thread_id: str) -> SaverInbox:
        """The inbox of a thread, which need not exist yet; it goes with the thread.

        Args:
            thread_id: The thread.

        Raises:
            ValueError: The thread's id is no text that can be stored, or blank.
        """
        return SaverInbox(self, checked_id(thread_id, "a thread's id"))
