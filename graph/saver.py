"""The saver: checkpoints in one SQLite file, for sync and async callers alike (docs/storage.md)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from langgraph.checkpoint.sqlite.utils import search_where

from turnflow.graph.saver_boundary import Boundary, HeldCheckpoint, HeldWrites
from turnflow.graph.saver_collect import Upkeep
from turnflow.graph.saver_connection import SaverConnection, SaverError, Synchronous
from turnflow.graph.saver_edits import EditStore
from turnflow.graph.saver_effects import EffectStore
from turnflow.graph.saver_inbox import InboxStore
from turnflow.graph.saver_prune import FULL_TURNS, KEEP_TURNS
from turnflow.graph.saver_record import RecordStore
from turnflow.graph.saver_results import ResultStore
from turnflow.graph.saver_rows import checkpoint_rows, insert, write_rows

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

__all__ = ["SaverContext", "SaverError", "Synchronous", "TurnSaver", "open_saver"]

_PAGE = 16
"""Checkpoints that `alist` fetches per thread hop: few enough to hold decoded, whatever they carry."""


class TurnSaver(EditStore, EffectStore, InboxStore, RecordStore, ResultStore, Upkeep):
    """A checkpoint saver on one SQLite file, for `invoke` and `ainvoke`, any thread, any event loop.

    Tables and statements are those of LangGraph's `SqliteSaver`, so each reads the other's files.
    What differs is how they are run: in transactions that are rolled back on errors, and never
    across a pause of the caller. Async methods run their sync twin in the saver's own thread.

    Most callers want `open_saver`, which closes what it opened. Where a `with` block does not fit, as
    in a notebook, make a `TurnSaver` and call `close`.

    Copies share the connection, its lock and its end: LangGraph copies a saver to attach the list
    of types that a graph may read back (strict msgpack mode).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "NORMAL",
        serde: SerializerProtocol | None = None,
        keep_turns: int | None = KEEP_TURNS,
        full_turns: int = FULL_TURNS,
    ) -> None:
        """Open the file; the arguments and errors are those of `open_saver`."""
        self._set_kept(keep_turns, full_turns)
        self._connection = SaverConnection(path, synchronous)
        self._boundary = Boundary()
        super().__init__(self._connection.sqlite, serde=serde)
        self.lock = self._connection.lock  # type: ignore[assignment]  # nested use needs a re-entrant one
        self.is_setup = True

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[Self]:
        """Open a saver with default settings, under the name that LangGraph's savers use."""
        saver = cls(conn_string)
        try:
            yield saver
        finally:
            saver.close()

    def close(self) -> None:
        """Wait for what was already asked for, store what is held, then close the file.

        Closing twice is fine.
        """
        self._connection.close(before=self._store)

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:  # noqa: FBT001, FBT002
        """Give a cursor in a transaction: a writing one, or with `transaction=False` one that reads.

        All reads and writes of this class go through here. A reading transaction shows one state of
        the file, even if other processes write in the meantime.

        Raises:
            SaverError: The saver was closed, or was opened before this process was forked.
        """
        with self._connection.transaction(writing=transaction) as cursor:
            yield cursor

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Take in a checkpoint; it is stored at once unless it can be made again for nothing."""
        self._connection.check()
        is_branch = self._may_branch(config, checkpoint, metadata)
        branch = self._branch_of(config, checkpoint, metadata) if is_branch else None
        held, must_store = self._hold_checkpoint(config, checkpoint, metadata, branch)
        if metadata.get("source") == "update":
            self._store_edit(config, checkpoint, new_versions)
        elif must_store:
            self._store(held.thread_id)
        return _config_of(held)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Take in what a task wrote; it is stored at once unless it can be made again for nothing."""
        held, must_store = self._hold_writes(config, writes, task_id, task_path)
        if must_store:
            self._store(held.thread_id)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Give a checkpoint and what was written after it: the one named, else the thread's newest."""
        self._store(str(config["configurable"]["thread_id"]))
        return super().get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Give the matching checkpoints, newest first.

        Which ones is settled by the first step; each is read when its turn comes. So nothing is
        held while the caller pauses, and a long history is never in memory as a whole. What was
        deleted in between is left out.

        Args:
            config: The thread, and if given the namespace and the checkpoint; None for all threads.
            filter: Metadata values that must be equal.
            before: Only checkpoints older than the one in this config.
            limit: How many at most.

        Yields:
            One tuple per checkpoint.
        """
        self._store(str(config["configurable"]["thread_id"]) if config else None)
        where, values = search_where(config, filter, before)
        query = (
            f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints {where} "  # noqa: S608 (placeholders)
            "ORDER BY checkpoint_id DESC LIMIT ?"
        )
        with self.cursor(transaction=False) as cursor:
            # SQLite reads a negative limit as none.
            keys = cursor.execute(query, (*values, -1 if limit is None else limit)).fetchall()
        for thread_id, namespace, checkpoint_id in keys:
            saved = self.get_tuple(
                {
                    "configurable": {
                        "thread_id": thread_id,
                        "checkpoint_ns": namespace,
                        "checkpoint_id": checkpoint_id,
                    }
                }
            )
            if saved is not None:
                yield saved

    def thread_ids(self, *, limit: int | None = None) -> Sequence[str]:
        """Give the ids of all threads, the one that was active last first.

        Args:
            limit: How many at most.
        """
        query = (
            "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' "
            "GROUP BY thread_id ORDER BY MAX(checkpoint_id) DESC LIMIT ?"
        )
        self._store()
        with self.cursor(transaction=False) as cursor:
            # SQLite reads a negative limit as none.
            return [row[0] for row in cursor.execute(query, (-1 if limit is None else limit,))]

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Give what each delta channel was made of: its last stored value and the writes since.

        Args:
            config: The checkpoint to go back from; without an id, the thread's newest.
            channels: Names of delta channels.

        Returns:
            Per channel `writes`, oldest first, and `seed` if a value was stored at all.
        """
        self._store(str(config["configurable"]["thread_id"]))
        # One transaction for both of the parent's queries, so that they see one state of the file.
        with self.cursor(transaction=False):
            return super().get_delta_channel_history(config=config, channels=channels)

    def _hold_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        branch: HeldWrites | None,
    ) -> tuple[HeldCheckpoint, bool]:
        held = checkpoint_rows(config, checkpoint, metadata, self.serde)
        values, source = checkpoint["channel_values"], metadata.get("source")
        must_store = self._boundary.add_checkpoint(held, values, source)
        if branch is not None:
            self._boundary.add_writes(branch, ())
        return held, must_store

    def _hold_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[HeldWrites, bool]:
        self._connection.check()
        held = write_rows(config, writes, task_id, task_path, self.serde)
        return held, self._boundary.add_writes(held, writes)

    def _store(self, thread_id: str | None = None) -> None:
        """Store what is held for a thread, or (None) for all, in one transaction."""
        with self.lock:
            if self._connection.is_reading or not self._boundary.has(thread_id):
                return  # another call has stored it with its own, or the reader began before it came
            with self.cursor() as cursor:
                taken, kept = self._boundary.take(thread_id)
                self._connection.on_rollback(lambda: self._boundary.put_back(taken))
                for held in kept:
                    insert(cursor, held)
                    self._settle(cursor, held)
                self._enter_turns(cursor, kept)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async twin of `get_tuple`."""
        return await self._connection.run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async twin of `list`, which fetches a page of checkpoints per thread hop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        full = True
        while full:
            page = await self._connection.run(lambda: tuple(islice(found, _PAGE)))
            full = len(page) == _PAGE
            for saved in page:
                yield saved

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async twin of `put`."""
        self._connection.check()
        branch = None
        if self._may_branch(config, checkpoint, metadata):
            branch = await self._connection.run(self._branch_of, config, checkpoint, metadata)
        held, must_store = self._hold_checkpoint(config, checkpoint, metadata, branch)
        if metadata.get("source") == "update":
            await self._connection.run(self._store_edit, config, checkpoint, new_versions)
        elif must_store:
            await self._connection.run(self._store, held.thread_id)
        return _config_of(held)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Async twin of `put_writes`."""
        held, must_store = self._hold_writes(config, writes, task_id, task_path)
        if must_store:
            await self._connection.run(self._store, held.thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Async twin of `get_delta_channel_history`."""
        return await self._connection.run(self.get_delta_channel_history, config=config, channels=channels)


def _config_of(held: HeldCheckpoint) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": held.thread_id,
            "checkpoint_ns": held.namespace,
            "checkpoint_id": held.id,
        }
    }


class SaverContext:
    """What `open_saver` gives: opens a saver on entering and closes it on leaving, sync or async."""

    def __init__(self, make: Callable[[], TurnSaver]) -> None:
        self._make = make
        self._entered: list[TurnSaver] = []

    def __enter__(self) -> TurnSaver:
        saver = self._make()
        self._entered.append(saver)
        return saver

    def __exit__(self, *exc_info: object) -> None:
        self._entered.pop().close()

    async def __aenter__(self) -> TurnSaver:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.__exit__)


def open_saver(
    path: str | os.PathLike[str],
    *,
    synchronous: Synchronous = "NORMAL",
    serde: SerializerProtocol | None = None,
    keep_turns: int | None = KEEP_TURNS,
    full_turns: int = FULL_TURNS,
) -> SaverContext:
    """Open a SQLite file that keeps the graph's threads, for `with` and for `async with`.

    The file and its tables are made if missing. The saver inside the block serves sync and async
    runs at once; several processes may open the same file.

    Args:
        path: The database file, or ":memory:" for one that ends with the block.
        synchronous: "NORMAL" survives the death of the process; "FULL" also a power cut, at the
            price of one disk flush per commit (docs/storage.md).
        serde: How values become bytes, if not LangGraph's default; encryption is one use.
        keep_turns: Of so many turns the input and the final checkpoint are kept when a new turn begins, of
            older ones nothing; what was said is in the archive. None keeps every checkpoint.
        full_turns: Of so many turns every superstep is kept, the current one included.

    Returns:
        A context manager that gives a `TurnSaver`.

    Raises:
        SaverError: On entering, if the file cannot be opened, read or written.
        ValueError: On entering, if `synchronous` is neither "NORMAL" nor "FULL", or a number is less than 1.
    """
    options: dict[str, Any] = {"keep_turns": keep_turns, "full_turns": full_turns}
    return SaverContext(lambda: TurnSaver(path, synchronous=synchronous, serde=serde, **options))
