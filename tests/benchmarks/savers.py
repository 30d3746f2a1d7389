"""Savers on SQLite files with equal pragmas, and what a turn leaves in such a file."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.benchmarks.cases import Group
from turnflow import open_saver


class Savers:
    """Opens the savers of one group, each on a file of its own, and closes them."""

    def __init__(self, group: Group, folder: Path, loop: asyncio.Runner) -> None:
        self._group = group
        self._folder = folder
        self._loop = loop
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._opened.close()

    def path(self, name: str) -> Path | None:
        """The file of a variant, None in a group without savers."""
        return None if self._group.store.synchronous is None else self._folder / f"{name}.sqlite"

    def turnflow(self, name: str) -> BaseCheckpointSaver[Any] | None:
        """The saver of turnflow."""
        path, synchronous = self.path(name), self._group.store.synchronous
        if path is None or synchronous is None:
            return None
        return self._opened.enter_context(open_saver(path, synchronous=synchronous))

    def stock(self, name: str) -> BaseCheckpointSaver[Any] | None:
        """LangGraph's own saver, with the pragmas that turnflow's sets (it turns the log on by itself)."""
        path, pragma = self.path(name), f"PRAGMA synchronous={self._group.store.synchronous}"
        if path is None:
            return None
        if self._group.mode == "async":
            return self._loop.run(self._open_async(path, pragma))
        saver = self._opened.enter_context(SqliteSaver.from_conn_string(str(path)))
        saver.setup()
        saver.conn.execute(pragma)
        return saver

    async def _open_async(self, path: Path, pragma: str) -> AsyncSqliteSaver:
        context = AsyncSqliteSaver.from_conn_string(str(path))
        saver = await context.__aenter__()
        self._opened.callback(lambda: self._loop.run(context.__aexit__(None, None, None)))
        await saver.setup()
        await saver.conn.execute(pragma)
        return saver


@dataclass(frozen=True)
class Footprint:
    """What one turn stored.

    Attributes:
        supersteps: Supersteps that the graph took, the input not counted.
        checkpoints: Rows of the table `checkpoints`.
        writes: Rows of the table `writes`.
        stored_bytes: Length of the values in both, in bytes.
    """

    supersteps: int
    checkpoints: int
    writes: int
    stored_bytes: int


def footprint(path: Path, thread_id: str) -> Footprint:
    """Count what a thread of one turn has in the file."""
    with closing(sqlite3.connect(path)) as file:
        last_step, checkpoints, checkpoint_bytes = file.execute(
            "SELECT max(json_extract(CAST(metadata AS TEXT), '$.step')), count(*), sum(length(checkpoint)) "
            "FROM checkpoints WHERE thread_id = ?",
            (thread_id,),
        ).fetchone()
        writes, write_bytes = file.execute(
            "SELECT count(*), coalesce(sum(length(value)), 0) FROM writes WHERE thread_id = ?", (thread_id,)
        ).fetchone()
    return Footprint(last_step, checkpoints, writes, checkpoint_bytes + write_bytes)
