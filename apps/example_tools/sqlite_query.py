"""Questions to an SQLite database, and, where a call was allowed to, statements that change it."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.tools import BaseTool, tool

from turnflow.apps.example_tools.sqlite_guard import SqliteGuard
from turnflow.graph.permissions import Default, ToolRisk, current_permission
from turnflow.graph.tool_policy import ToolPolicy

MAX_ROWS = 500
MAX_COLUMNS = 100
MAX_CELL_CHARS = 200

_SECONDS_TO_LOOK = 0.5
"""For a look at a statement that is not run."""

_NOBODY_SAID_SO = {Default.name, ToolRisk.name}
"""Policies that allow a call because nothing speaks against it (docs/permissions.md): not enough to write."""

_READING = "Ask the SQLite database with one reading statement; answers with a table in plain text."
_WRITING = (
    "Run one statement on the SQLite database; answers with a table in plain text, or with the number of "
    "rows that were changed. What changes the database is run only after it was approved."
)


def sqlite_query_tool(path: Path | str, *, seconds: float = 5, writable: bool = False) -> BaseTool:
    """The tool `sqlite_query`, which reads one database, and may change it where a call was approved.

    Args:
        path: The database's file. It is opened anew for each statement, read-only but for one that writes.
        seconds: How long a statement may take.
        writable: Whether a statement that writes is run once somebody allowed the call: a person, a grant of
            the session, an allow list or a rule of the host's own (docs/permissions.md). Put
            `sqlite_policy(path)` beside the tool, or nobody is asked and nothing is ever written.

    Raises:
        ValueError: There is no such file.
    """
    file = _database(path)

    @tool(description=_WRITING if writable else _READING)
    def sqlite_query(
        sql: Annotated[str, "One SQL statement; PRAGMA table_info(name) and sqlite_master tell the schema"],
        limit: Annotated[int, f"Number of rows to show, at most {MAX_ROWS}"] = 50,
    ) -> str:
        if limit < 1:
            raise ValueError(f"limit {limit}: give a limit of 1 or more")
        shown = min(limit, MAX_ROWS)
        if writable and _was_allowed() and statement_writes(file, sql):
            with closing(_connect(file, "rw", seconds)) as connection:
                return _changed(connection, sql, shown, seconds)
        with closing(_connect(file, "ro", seconds)) as connection:
            return _read(connection, sql, shown, seconds)

    return sqlite_query


def sqlite_policy(path: Path | str) -> ToolPolicy:
    """The policy for a writable `sqlite_query`: a person approves each statement that is not plainly reading.

    Args:
        path: The database's file, whose schema tells what a statement does.

    Raises:
        ValueError: There is no such file.
    """
    file = _database(path)

    def needs_approval(args: dict[str, Any]) -> bool:
        return statement_writes(file, str(args.get("sql", "")))

    return ToolPolicy(needs_approval=needs_approval, parallel_safe=False)


def statement_writes(path: Path | str, sql: str) -> bool:
    """Whether a statement does more than read the database, or cannot be understood at all.

    SQLite compiles it on a read-only connection and says what it would do; it is not run.
    """
    try:
        with closing(_connect(Path(path), "ro", _SECONDS_TO_LOOK)) as connection:
            SqliteGuard(_SECONDS_TO_LOOK).watch(connection)
            connection(sql)
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        return True
    return False


def _database(path: Path | str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{str(path)!r} is not a file; give an SQLite database that exists")
    return file.resolve()


def _was_allowed() -> bool:
    """Whether somebody allowed the running call, rather than nothing speaking against it."""
    permission = current_permission()
    if permission is None or permission.verdict != "allow":
        return False
    return permission.policy not in _NOBODY_SAID_SO


def _connect(file: Path, mode: str, seconds: float) -> sqlite3.Connection:
    uri = f"{file.as_uri()}?mode={mode}"
    # Without an isolation level Python begins no transaction of its own.
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _read(connection: sqlite3.Connection, sql: str, limit: int, seconds: float) -> str:
    """The table of a statement's rows.

    Raises:
        PermissionError: The statement does more than read this database.
        ValueError: SQLite does not accept it, it takes too long, or it gives nothing to show.
    """
    with _guarded(connection, seconds, may_write=False):
        cursor = connection.execute(sql)
        if cursor.description is None:
            raise ValueError("there is no statement in it that gives rows; give one SELECT statement")
        return _table(cursor, limit)


def _changed(connection: sqlite3.Connection, sql: str, limit: int, seconds: float) -> str:
    """What a statement changed, all of it or nothing, and the rows that it gives.

    Raises:
        PermissionError: The statement does more than change this database.
        ValueError: SQLite does not accept it, or it takes too long; nothing has changed.
    """
    try:
        connection.execute("PRAGMA foreign_keys = ON")  # references are kept, whoever writes
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise ValueError(f"SQLite cannot write now: {error}") from None
    try:
        with _guarded(connection, seconds, may_write=True):
            cursor = connection.execute(sql)
            table = "" if cursor.description is None else _table(cursor, limit)
            for _ in cursor:  # what is beyond the limit belongs to the statement all the same
                pass
        _commit(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    done = f"(done; {connection.total_changes} rows changed)"
    return f"{table}\n{done}" if table else done


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:  # a constraint that is checked last, or a full disk
        raise ValueError(f"SQLite refuses the change: {error}") from None


@contextmanager
def _guarded(connection: sqlite3.Connection, seconds: float, *, may_write: bool) -> Iterator[None]:
    """Watch a statement, and tell its failure in words for the model; nothing is watched afterwards."""
    guard = SqliteGuard(seconds, may_write=may_write)
    guard.watch(connection)
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        if guard.refused:
            raise PermissionError(guard.refused) from None
        if guard.late:
            raise ValueError(f"the query took longer than {seconds:g} s; ask for less") from None
        raise ValueError(f"SQLite refuses the statement: {error}") from None
    finally:
        connection.set_authorizer(None)
        connection.set_progress_handler(None, 0)


def _table(cursor: sqlite3.Cursor, limit: int) -> str:
    names = [column[0] for column in cursor.description]
    if len(names) > MAX_COLUMNS:
        raise ValueError(f"{len(names)} columns are more than {MAX_COLUMNS}; name those that you need")
    # One by one: a row of large values is never kept as it is.
    rows = [tuple(map(_cell, row)) for row in itertools.islice(cursor, limit + 1)]
    lines = [_line(names), _line("---" for _ in names)]
    lines += [_line(row) for row in rows[:limit]]
    if not rows:
        lines.append("(no rows)")
    elif len(rows) > limit:
        lines.append(f"(the first {limit} rows; there are more)")
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return " | ".join(cells)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = str(value)
    more = len(text) - MAX_CELL_CHARS
    shown = text[:MAX_CELL_CHARS].replace("\n", "\\n").replace("\r", "\\r")
    return f"{shown}… ({more} more characters)" if more > 0 else shown
