"""Whole threads and runs of a saver's file: deleting, pruning, copying (docs/archive.md)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from turnflow.graph.saver_archive import ArchiveStore
from turnflow.graph.saver_boundary import Boundary
from turnflow.graph.saver_chains import Link, needed
from turnflow.graph.saver_packs import copy_record
from turnflow.graph.saver_prune import TurnPruner, keep_only, remove_effects
from turnflow.graph.saver_tables import TABLES

_KEEP_LATEST, _DELETE = "keep_latest", "delete"

_COPIED = {
    "checkpoints": "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
    "writes": "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value",
    "turnflow_effects": "checkpoint_ns, batch_id, call_id, key, name, state, task_id, checkpoint_id, started",
    "turnflow_results": "handle, type, value",
    "turnflow_turns": "graph, checkpoint_ns, turn_id, step, first, is_whole, seq",
}
"""Columns but the thread's, by table; archive and record are copied by themselves."""

_ORDERED = " ORDER BY rowid"
"""Keeps the order of checkpoints as they came."""

_UNORDERED = frozenset({"turnflow_effects", "turnflow_turns"})
"""Tables without row ids."""

_OF_RUNS = """SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints
WHERE instr(CAST(metadata AS TEXT), ?) AND json_valid(CAST(metadata AS TEXT))
AND json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"""

_ALL_LINKS = """SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"""

_FORGET_TURNS = """DELETE FROM turnflow_turns WHERE thread_id = ?1 AND checkpoint_ns = ?2
AND first < (SELECT max(first) FROM turnflow_turns WHERE thread_id = ?1 AND checkpoint_ns = ?2)"""


class ThreadKeeper(ArchiveStore, TurnPruner):
    """The part of the saver that deletes, prunes and copies whole threads."""

    _boundary: Boundary

    if TYPE_CHECKING:

        def _store(self, thread_id: str | None = None) -> None: ...

        def _forget_effects(self, thread_id: str) -> None: ...

    def delete_thread(self, thread_id: str) -> None:
        """Remove all that belongs to a thread."""
        with self.lock:
            self._boundary.forget(thread_id)
            with self.cursor() as cursor:
                self._forget_archive(cursor, thread_id)
                for table in ("checkpoints", "writes", *TABLES):
                    cursor.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))  # noqa: S608 (our names)
            self._forget_effects(thread_id)
            for place in [place for place in self._connection.turns if place[0] == thread_id]:
                del self._connection.turns[place]

    def prune(self, thread_ids: Sequence[str], *, strategy: str = _KEEP_LATEST) -> None:
        """Remove checkpoints of threads, in one transaction for each.

        Args:
            thread_ids: The threads; unknown ones are passed over.
            strategy: `keep_latest` leaves the newest checkpoint of each namespace, and what its delta
                channels are read from; record, archive and results stay. `delete` removes the threads.

        Raises:
            ValueError: The strategy is neither, or the threads are a single text.
        """
        _check_list(thread_ids, "thread_ids")
        if strategy not in {_KEEP_LATEST, _DELETE}:
            raise ValueError(
                f'strategy={strategy!r} is not known; allowed are "{_KEEP_LATEST}" and "{_DELETE}"'
            )
        for thread_id in thread_ids:
            if strategy == _DELETE:
                self.delete_thread(thread_id)
                continue
            self._store(thread_id)
            with self.cursor() as cursor:
                for namespace in _namespaces(cursor, thread_id):
                    _keep_latest(cursor, thread_id, namespace)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread, its record, archive, results and journal too, in one transaction.

        Args:
            source_thread_id: The thread; nothing happens if it is unknown.
            target_thread_id: The new one.

        Raises:
            ValueError: There is a thread of the new name.
        """
        self._store(source_thread_id)
        self._store(target_thread_id)
        with self.cursor() as cursor:
            for table in ("checkpoints", "writes", *TABLES):
                query = f"SELECT 1 FROM {table} WHERE thread_id = ? LIMIT 1"  # noqa: S608 (our names)
                if cursor.execute(query, (target_thread_id,)).fetchone():
                    raise ValueError(f"there is a thread {target_thread_id!r} already; copy to a new one")
            for table, columns in _COPIED.items():
                cursor.execute(
                    f"INSERT INTO {table} (thread_id, {columns}) "  # noqa: S608 (our names)
                    f"SELECT ?, {columns} FROM {table} WHERE thread_id = ?"
                    f"{'' if table in _UNORDERED else _ORDERED}",
                    (target_thread_id, source_thread_id),
                )
            copy_record(cursor, source_thread_id, target_thread_id)
            self._copy_archive(cursor, source_thread_id, target_thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that runs have made, but for those that other runs' are read from.

        Record, archive and journal stay: what was done is not undone.

        Args:
            run_ids: The runs, as `run_id` in the metadata names them; unknown ones are passed over.

        Raises:
            ValueError: The runs are a single text.
        """
        _check_list(run_ids, "run_ids")
        self._store()
        with self.cursor() as cursor:
            doomed: dict[tuple[str, str], set[str]] = {}
            for run_id in run_ids:
                quoted = json.dumps(str(run_id), ensure_ascii=False)
                for thread_id, namespace, found in cursor.execute(_OF_RUNS, (quoted, str(run_id))):
                    doomed.setdefault((thread_id, namespace), set()).add(found)
            for place, ids in doomed.items():
                links = _links(cursor, *place)
                kept = needed(cursor, *place, (link for link in links.values() if link.id not in ids), links)
                keep_only(cursor, place, links.keys() - ids | kept, links)

    async def adelete_thread(self, thread_id: str) -> None:
        """Async twin of `delete_thread`."""
        await self._connection.run(self.delete_thread, thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = _KEEP_LATEST) -> None:
        """Async twin of `prune`."""
        await self._connection.run(self.prune, thread_ids, strategy=strategy)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Async twin of `copy_thread`."""
        await self._connection.run(self.copy_thread, source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Async twin of `delete_for_runs`."""
        await self._connection.run(self.delete_for_runs, run_ids)


def _check_list(given: object, argument: str) -> None:
    """Refuse a text where a list belongs: each of its letters would be taken for an id."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"{argument} is a list of ids, not {given!r:.80}; give [{given!r:.80}]")


def _namespaces(cursor: sqlite3.Cursor, thread_id: str) -> list[str]:
    query = "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = ?"
    return [row[0] for row in cursor.execute(query, (thread_id,)).fetchall()]


def _links(cursor: sqlite3.Cursor, thread_id: str, namespace: str) -> dict[str, Link]:
    """All checkpoints of a namespace, oldest first."""
    return {row[0]: Link(*row) for row in cursor.execute(_ALL_LINKS, (thread_id, namespace)).fetchall()}


def _keep_latest(cursor: sqlite3.Cursor, thread_id: str, namespace: str) -> None:
    links = _links(cursor, thread_id, namespace)
    latest = next(reversed(links.values()))
    kept = {latest.id} | needed(cursor, thread_id, namespace, [latest], links)
    keep_only(cursor, (thread_id, namespace), kept, links)
    remove_effects(cursor, thread_id, namespace, min(kept))
    cursor.execute(_FORGET_TURNS, (thread_id, namespace))
