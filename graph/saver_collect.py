"""Cleaning up a saver's file: what belongs to nothing, idle threads, free pages (docs/archive.md)."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from turnflow.graph.langgraph_access import checkpoint_time
from turnflow.graph.saver_prune import remove_checkpoints, remove_effects
from turnflow.graph.saver_rows import BEHIND_ALL, HAS_CHECKPOINT
from turnflow.graph.saver_tables import TABLES
from turnflow.graph.saver_upkeep import ThreadKeeper

GRACE = 3600.0
"""Seconds within which what seems to belong to nothing may still be on its way."""

_NEWEST = """SELECT thread_id, checkpoint_ns, checkpoint_id, metadata FROM checkpoints AS one
WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints AS other
    WHERE other.thread_id = one.thread_id AND other.checkpoint_ns = one.checkpoint_ns)"""

_HANGING = """SELECT DISTINCT thread_id, checkpoint_ns, checkpoint_id FROM writes
WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.thread_id = writes.thread_id
    AND checkpoints.checkpoint_ns = writes.checkpoint_ns
    AND checkpoints.checkpoint_id = writes.checkpoint_id)"""


class Upkeep(ThreadKeeper):
    """The part of the saver that cleans up its file."""

    def collect(self, *, older_than: float | None = None, vacuum: bool = True) -> dict[str, int]:
        """Remove what belongs to nothing any more, and give free space back to the file system.

        That is: checkpoints of subgraphs whose parent's checkpoint is gone, writes without a checkpoint, and
        whatever is left of threads without checkpoints. What may still be on its way, because it is less
        than an hour old, stays.

        Args:
            older_than: Also delete threads that were not active for so many seconds.
            vacuum: Whether to make the file smaller. On a file that was made before turnflow kept track of
                free pages, the first time rewrites it as a whole.

        Returns:
            How many were removed: `threads` (idle ones), `remains` (of threads that were gone), `namespaces`,
            `checkpoints`, `writes`, and by how many `bytes` the file became smaller.

        Raises:
            ValueError: `older_than` is no number, or negative.
        """
        if older_than is not None:
            _check_seconds(older_than)
        self._store()
        counts = dict.fromkeys(("threads", "remains", "namespaces", "checkpoints", "writes", "bytes"), 0)
        before = self._size()
        if older_than is not None:
            for thread_id in self._idle_threads(time.time() - older_than):
                self.delete_thread(thread_id)
                counts["threads"] += 1
        for thread_id in self._gone_threads():
            self.delete_thread(thread_id)
            counts["remains"] += 1
        with self.cursor() as cursor:
            _remove_orphans(cursor, counts)
            _remove_hanging(cursor, counts)
        if vacuum:
            self._vacuum()
            # Another process may make it larger meanwhile.
            counts["bytes"] = max(0, before - self._size())
        return counts

    async def acollect(self, *, older_than: float | None = None, vacuum: bool = True) -> dict[str, int]:
        """Async twin of `collect`."""
        return await self._connection.run(self.collect, older_than=older_than, vacuum=vacuum)

    def _idle_threads(self, since: float) -> list[str]:
        """Threads of which nothing is newer than a time; not those of which that is not known.

        Nor those whose inbox holds something: it waits for an answer.
        """
        with self.cursor(transaction=False) as cursor:
            waiting = _waiting_threads(cursor)
            newest = "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY thread_id"
            found = cursor.execute(newest).fetchall()
            archived = dict(
                cursor.execute(
                    "SELECT thread_id, max(time) FROM turnflow_archive GROUP BY thread_id"
                ).fetchall()
            )
        times = ((thread_id, checkpoint_time(checkpoint_id)) for thread_id, checkpoint_id in found)
        return [
            thread_id
            for thread_id, when in times
            if when is not None
            and max(when, archived.get(thread_id, 0.0)) < since
            and thread_id not in waiting
        ]

    def _gone_threads(self) -> list[str]:
        """Threads that have rows, but no checkpoints; not those that have just begun, or wait to."""
        recent = time.time() - GRACE
        gone: set[str] = set()
        with self.cursor(transaction=False) as cursor:
            for table in TABLES:
                query = (
                    f"SELECT DISTINCT thread_id FROM {table} "  # noqa: S608 (our names)
                    "WHERE thread_id NOT IN (SELECT thread_id FROM checkpoints)"
                )
                gone.update(row[0] for row in cursor.execute(query))
            for query in (
                "SELECT thread_id FROM turnflow_archive WHERE time > ?",
                "SELECT thread_id FROM turnflow_effects WHERE started > ?",
            ):
                gone.difference_update(row[0] for row in cursor.execute(query, (recent,)))
            gone.difference_update(_waiting_threads(cursor))
        return [thread_id for thread_id in sorted(gone) if not self._boundary.has(thread_id)]

    def _size(self) -> int:
        pages, size = (
            self.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        return int(pages * size)

    def _vacuum(self) -> None:
        with self.lock:
            if self.conn.in_transaction:
                return
            if self.conn.execute("PRAGMA auto_vacuum").fetchone()[0]:
                self.conn.executescript("PRAGMA incremental_vacuum")  # `execute` frees a single page
            else:
                self.conn.execute("PRAGMA auto_vacuum=INCREMENTAL")
                self.conn.execute("VACUUM")
            self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _waiting_threads(cursor: sqlite3.Cursor) -> set[str]:
    """Threads whose inbox holds something."""
    return {row[0] for row in cursor.execute("SELECT DISTINCT thread_id FROM turnflow_inbox")}


def _check_seconds(given: object) -> None:
    if not isinstance(given, int | float) or isinstance(given, bool) or math.isnan(given):
        raise ValueError(f"older_than={given!r:.80} is no number; give seconds")
    if given < 0:
        raise ValueError(f"older_than={given} is negative; give seconds")


def _is_old(checkpoint_id: str) -> bool:
    when = checkpoint_time(checkpoint_id)
    return when is not None and when < time.time() - GRACE


def _remove_orphans(cursor: sqlite3.Cursor, counts: dict[str, int]) -> None:
    for thread_id, namespace, newest, metadata in cursor.execute(_NEWEST).fetchall():
        if not _is_old(newest) or all(
            cursor.execute(HAS_CHECKPOINT, (thread_id, *parent)).fetchone()
            for parent in _parents(namespace, metadata)
        ):
            continue
        query = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
        ids = [row[0] for row in cursor.execute(query, (thread_id, namespace))]
        counts["namespaces"] += 1
        counts["checkpoints"] += len(ids)
        counts["writes"] += remove_checkpoints(cursor, thread_id, namespace, ids)
        remove_effects(cursor, thread_id, namespace, BEHIND_ALL)
        cursor.execute(
            "DELETE FROM turnflow_turns WHERE thread_id = ? AND checkpoint_ns = ?", (thread_id, namespace)
        )


def _remove_hanging(cursor: sqlite3.Cursor, counts: dict[str, int]) -> None:
    for thread_id, namespace, checkpoint_id in cursor.execute(_HANGING).fetchall():
        if _is_old(checkpoint_id):
            counts["writes"] += remove_checkpoints(cursor, thread_id, namespace, [checkpoint_id])


def _parents(namespace: str, metadata: bytes | str | None) -> Iterator[tuple[str, str]]:
    """Namespace and id of the parent's checkpoint that a subgraph's last task of its own hangs on."""
    parts = namespace.split("|")
    fresh = [index for index, part in enumerate(parts) if ":" in part]
    if not fresh:
        return
    parent = "|".join(parts[: fresh[-1]])
    described: Any = json.loads(metadata) if metadata else {}
    parents = described.get("parents") if isinstance(described, dict) else None
    if isinstance(parents, dict) and isinstance(known := parents.get(parent), str):
        yield parent, known
