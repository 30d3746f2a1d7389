"""Long tool results as a table of the saver: whole texts, kept by handle (docs/storage.md)."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.saver_connection import SaverConnection
from turnflow.graph.saver_values import packed, unpacked

_KEEP = "INSERT OR REPLACE INTO turnflow_results (thread_id, handle, type, value) VALUES (?, ?, ?, ?)"

_FIND = "SELECT type, value FROM turnflow_results WHERE thread_id = ? AND handle = ?"


class ResultStore(SqliteSaver):
    """The part of the saver that keeps long results."""

    _connection: SaverConnection

    def keep_result(self, thread_id: str, handle: str, value: Any) -> None:
        """Keep a result until its thread is deleted, in a transaction of its own.

        Args:
            thread_id: The thread.
            handle: What it is found by; an older result of the same handle is replaced.
            value: The result, usually a text; the saver's serializer must know its type.
        """
        row = packed(self.serde, value)
        with self.cursor() as cursor:
            cursor.execute(_KEEP, (thread_id, handle, *row))

    async def akeep_result(self, thread_id: str, handle: str, value: Any) -> None:
        """Async twin of `keep_result`."""
        await self._connection.run(self.keep_result, thread_id, handle, value)

    def find_result(self, thread_id: str, handle: str) -> Any:
        """Give the result that is kept under a handle of a thread, None if there is none."""
        with self.cursor(transaction=False) as cursor:
            row = cursor.execute(_FIND, (thread_id, handle)).fetchone()
        return None if row is None else unpacked(self.serde, *row)

    async def afind_result(self, thread_id: str, handle: str) -> Any:
        """Async twin of `find_result`."""
        return await self._connection.run(self.find_result, thread_id, handle)
