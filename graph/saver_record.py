"""Reading the record, the facts of a thread, from the saver's file (docs/storage.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.saver_connection import SaverConnection
from turnflow.graph.saver_packs import StoredFact, packed_facts
from turnflow.graph.saver_values import unpacked

_PAGE = 200
"""Facts per transaction."""

_READ = """SELECT seq, type, value FROM turnflow_record
WHERE thread_id = ? AND seq > ? AND seq < ? ORDER BY seq LIMIT ?"""

_END = 2**63 - 1
"""The largest number that a row can have."""


class RecordStore(SqliteSaver):
    """The part of the saver that reads the record."""

    _connection: SaverConnection

    if TYPE_CHECKING:

        def _store(self, thread_id: str | None = None) -> None: ...

    def read_record(self, thread_id: str, *, after: int = 0) -> Iterator[dict[str, Any]]:
        """Give the facts of a thread, oldest first; nothing is held open while the caller pauses.

        Args:
            thread_id: The thread.
            after: Only facts with a larger `seq`.

        Yields:
            Dicts with `type`, `turn_id`, `round`, `time` (seconds since the epoch), `seq` (the order within
            the file) and what the type brings along (docs/storage.md).
        """
        self._store(thread_id)
        while after < _END:
            page, after = self._page(thread_id, after)
            for seq, kind, value in page:
                yield {**unpacked(self.serde, kind, value), "seq": seq}

    def _page(self, thread_id: str, after: int) -> tuple[list[StoredFact], int]:
        """Facts behind a `seq`, packed or not, and up to which one these are all.

        Each page is one picture of the file: facts that were rows when a reader began may be packed by now.
        """
        with self.cursor(transaction=False) as cursor:
            found, end = packed_facts(cursor, thread_id, after, _PAGE)
            end = _END if end is None else end
            rows = cursor.execute(_READ, (thread_id, after, end, _PAGE)).fetchall()
        if len(rows) == _PAGE:
            end = rows[-1][0] + 1
        found += [StoredFact(*row) for row in rows]
        return sorted(fact for fact in found if fact.seq < end), end - 1 if end < _END else _END

    async def aread_record(self, thread_id: str, *, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """Async twin of `read_record`, with one thread hop per page."""
        facts = self.read_record(thread_id, after=after)
        full = True
        while full:
            page = await self._connection.run(lambda: tuple(islice(facts, _PAGE)))
            full = len(page) == _PAGE
            for fact in page:
                yield fact
