"""Opening a saver's SQLite file, and the one connection behind it: who may use it, and when."""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeAlias, TypeVar, get_args

from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.effects_journal import Effect
from turnflow.graph.saver_tables import can_index, make_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Synchronous: TypeAlias = Literal["NORMAL", "FULL"]
"""How much of a commit must be on the disk before it counts (docs/storage.md)."""

MEMORY = ":memory:"
"""The path of a database that lives in memory and ends with its saver."""

BUSY_TIMEOUT = 30.0
"""Seconds to wait for another process's transaction, or for it to finish setting up the file."""

_CAUSES = {
    sqlite3.SQLITE_BUSY: "is kept locked by another process; wait for it or end it, then try again",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; make the file and its directory readable and writable",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a copy or give another path",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database; give the path of a database or of a new file",
    sqlite3.SQLITE_READONLY: "cannot be written; make the file and its directory writable",
}
"""What is wrong with a file and how to mend it, by SQLite's primary result code."""

_COLUMNS = {
    "checkpoints": {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "metadata"},
    "writes": {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "value"},
}
"""Columns by which LangGraph's tables are told from somebody else's tables of the same name."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class SaverError(OSError):
    """A saver's file cannot be opened, or the saver is no longer usable.

    The text is one line: the path, what is wrong, and how to mend it.
    """


class SaverConnection:
    """One SQLite connection, the lock that guards it, and the thread its async callers use.

    A saver and its copies share one of these.

    Attributes:
        path: The file as given, or ":memory:".
        sqlite: The connection, in autocommit mode: transactions are begun by `transaction` alone.
        lock: Held for as long as a transaction lasts, so a thread may take it again.
        effects: The calls that this process entered as started and whose end it has not stored, by the task
            that runs each. Guarded by the lock.
        turns: The turn that was stored last, by thread and namespace. Guarded by the lock.
        has_index: Whether this Python's SQLite has full-text search.
    """

    def __init__(self, path: str | os.PathLike[str], synchronous: Synchronous) -> None:
        """Open the file, creating it and its tables as needed.

        Raises:
            SaverError: The file cannot be opened, read or written.
            ValueError: `synchronous` is none of the allowed values.
        """
        self.path = os.fspath(path)
        self.sqlite = _open(self.path, synchronous)
        self.lock = threading.RLock()
        self.effects: dict[str, Effect] = {}
        self.turns: dict[tuple[str, str], str] = {}
        self.has_index = can_index(self.sqlite)
        self._closed = False
        self._is_reading = False
        self._undo: list[Callable[[], None]] = []
        self._process = os.getpid()
        # A thread of our own: the event loop's default threads may all be busy with slow tools.
        # One is enough, as the lock lets one operation in at a time.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turnflow-saver")

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[sqlite3.Cursor]:
        """Run the block in a transaction: committed at its end, rolled back if anything is raised.

        Inside another transaction of the same thread the block becomes a part of that one, which
        then must have been begun for writing if any part of it writes.

        Raises:
            SaverError: The saver was closed, or was opened before this process was forked.
        """
        with self.lock, closing(self._cursor()) as cursor:
            if self.sqlite.in_transaction:
                yield cursor
                return
            try:
                # A writer that began by reading could not wait for another one to finish.
                cursor.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
                self._is_reading = not writing
                yield cursor
                self.sqlite.commit()
            except BaseException:
                self.sqlite.rollback()
                for undo in reversed(self._undo):
                    undo()
                raise
            finally:
                self._is_reading = False
                self._undo.clear()

    @property
    def is_reading(self) -> bool:
        """Whether a transaction is open that only reads. The caller holds the lock."""
        return self._is_reading

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Have something undone if the open transaction is rolled back. The caller is inside of it."""
        self._undo.append(undo)

    def check(self) -> None:
        """Refuse to be used after the end, and in a forked child.

        Raises:
            SaverError: The saver was closed, or was opened before this process was forked.
        """
        self._check_process()
        if self._closed:
            raise self._closed_error()

    def _cursor(self) -> sqlite3.Cursor:
        self.check()
        return self.sqlite.cursor()

    async def run(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function that uses the connection in the saver's thread, in the order of asking.

        Cancelling the caller takes back a call that still waits its turn. One that has begun goes on
        to its end in the thread, so its transaction is committed or rolled back and the lock is freed.

        Raises:
            SaverError: The saver was closed, or was opened before this process was forked.
        """
        self._check_process()
        context = contextvars.copy_context()
        try:
            future = self._executor.submit(lambda: context.run(function, *args, **kwargs))
        except RuntimeError as error:
            raise self._closed_error() from error
        return await asyncio.wrap_future(future)

    def close(self, *, before: Callable[[], None]) -> None:
        """Let the calls that were already asked for finish, then close. Closing twice is fine.

        Args:
            before: What to do at last while the file is still open.
        """
        if os.getpid() != self._process:
            return  # a forked child has no thread to wait for, and the connection is its parent's
        self._executor.shutdown()
        with self.lock:
            if self._closed:
                return
            try:
                before()
            finally:
                self._closed = True
                self.sqlite.close()

    def _check_process(self) -> None:
        """Refuse a forked child: two processes on one SQLite connection damage the file."""
        if os.getpid() != self._process:
            raise SaverError(
                f"{self.path}: this saver was opened before the process was forked; "
                "open one in each process, after the fork"
            )

    def _closed_error(self) -> SaverError:
        return SaverError(f"{self.path}: this saver is closed; use it inside its `with open_saver()` block")


def _open(path: str, synchronous: Synchronous) -> sqlite3.Connection:
    allowed = get_args(Synchronous)
    if synchronous not in allowed:
        raise ValueError(f"synchronous={synchronous!r} is not known; allowed are {' and '.join(allowed)}")
    _check_path(path)
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(connection, path, synchronous)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise SaverError(f"{path} {_CAUSES.get(_primary_code(error), f'cannot be used: {error}')}") from error
    return connection


def _check_path(path: str) -> None:
    """Find what SQLite would only call "unable to open database file"."""
    if path == MEMORY:
        return
    if not path:
        raise SaverError(f'the path is empty; give the path of a file, or "{MEMORY}"')
    if Path(path).is_dir():
        raise SaverError(f"{path} is a directory; give the path of a file in it")
    folder = Path(path).parent
    if not folder.is_dir():
        raise SaverError(f"{path}: there is no directory {folder}; create it first")


def _prepare(connection: sqlite3.Connection, path: str, synchronous: Synchronous) -> None:
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a fresh file; of another one it stays as it is
    mode = _switch_to_wal(connection)
    if mode != "wal" and path != MEMORY:
        raise SaverError(
            f"{path}: the file system does not carry SQLite's write-ahead log; keep the file on a local disk"
        )
    connection.execute(f"PRAGMA synchronous={synchronous}")
    for table, needed in _COLUMNS.items():
        present = {column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")}
        if present and not needed <= present:
            raise SaverError(f"{path} holds another program's table {table!r}; give a file of its own")
    SqliteSaver(connection).setup()
    make_tables(connection)
    # A file that was set up before passes all of the above even if it cannot be written: ask for a
    # write that changes nothing (BEGIN IMMEDIATE alone succeeds on a read-only file).
    connection.execute("DELETE FROM writes WHERE 0")


def _switch_to_wal(connection: sqlite3.Connection) -> str:
    """Switch on the write-ahead log and give the mode that the file is in afterwards.

    A switch needs the file for itself and fails at once if several processes open a fresh file at the
    same time: SQLite's busy timeout does not cover it. The loser tries again and finds it switched.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 (spreads the processes, keeps no secret)


def _primary_code(error: sqlite3.Error) -> int:
    """Give SQLite's result code without its extension; SQLITE_OK if the error is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF
