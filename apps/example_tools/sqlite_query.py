"""Questions to an SQLite database that can only be read."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from langchain_core.tools import BaseTool, tool

MAX_ROWS = 500
MAX_COLUMNS = 100
MAX_CELL_CHARS = 200

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
"""Of a value (bytes), a statement, a pattern and other databases: one step of SQLite cannot be stopped."""

_INSTRUCTIONS_BETWEEN_LOOKS = 1000

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_DECLARING = (sqlite3.SQLITE_UPDATE, "sqlite_master")
"""Asked when a virtual table is read (full text, `json_each`); SQLite itself refuses to change that table."""

_FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
_PRAGMAS_OF_A_TABLE = {
    "table_info",
    "table_xinfo",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
}
_PRAGMAS_OF_THE_DATABASE = {"table_list", "user_version", "schema_version", "data_version", "encoding"}


def sqlite_query_tool(path: Path | str, *, seconds: float = 5) -> BaseTool:
    """The tool `sqlite_query`, which reads one database.

    Args:
        path: The database's file. It is opened anew for each query, read-only.
        seconds: How long a query may take.

    Raises:
        ValueError: There is no such file.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{str(path)!r} is not a file; give an SQLite database that exists")
    uri = f"{file.resolve().as_uri()}?mode=ro"

    @tool
    def sqlite_query(
        sql: Annotated[
            str, "One SELECT statement; PRAGMA table_info(name) and sqlite_master tell the schema"
        ],
        limit: Annotated[int, f"Number of rows to show, at most {MAX_ROWS}"] = 50,
    ) -> str:
        """Ask the SQLite database with one reading statement; answers with a table in plain text."""
        if limit < 1:
            raise ValueError(f"limit {limit}: give a limit of 1 or more")
        with closing(sqlite3.connect(uri, uri=True, timeout=seconds)) as connection:
            return _answer(connection, sql, min(limit, MAX_ROWS), seconds)

    return sqlite_query


def _answer(connection: sqlite3.Connection, sql: str, limit: int, seconds: float) -> str:
    """The table of a statement's rows.

    Raises:
        PermissionError: The statement does more than read this database.
        ValueError: SQLite does not accept it, it takes too long, or it gives nothing to show.
    """
    guard = _Guard(seconds)
    for limited, most in _LIMITS.items():
        connection.setlimit(limited, most)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.set_authorizer(guard.authorize)
    connection.set_progress_handler(guard.is_late, _INSTRUCTIONS_BETWEEN_LOOKS)
    try:
        cursor = connection.execute(sql)
        if cursor.description is None:
            raise ValueError("there is no statement in it that gives rows; give one SELECT statement")
        names = [column[0] for column in cursor.description]
        if len(names) > MAX_COLUMNS:
            raise ValueError(f"{len(names)} columns are more than {MAX_COLUMNS}; name those that you need")
        rows = _fetch(cursor, limit + 1)
    except (sqlite3.Error, sqlite3.Warning) as error:
        if guard.refused:
            raise PermissionError(guard.refused) from None
        if guard.late:
            raise ValueError(f"the query took longer than {seconds:g} s; ask for less") from None
        raise ValueError(f"SQLite refuses the statement: {error}") from None
    return _table(names, rows, limit)


def _fetch(cursor: sqlite3.Cursor, most: int) -> list[tuple[str, ...]]:
    """Rows as text, one by one: a row of large values is never kept as it is."""
    return [tuple(map(_cell, row)) for row in itertools.islice(cursor, most)]


class _Guard:
    """What SQLite asks before and while it runs a statement; remembers why it said no."""

    def __init__(self, seconds: float) -> None:
        self.refused = ""
        self.late = False
        self._deadline = time.monotonic() + seconds

    def is_late(self) -> int:
        """Whether the statement must stop."""
        self.late = time.monotonic() > self._deadline
        return int(self.late)

    def authorize(
        self, action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None
    ) -> int:
        """Allow what reads this database. The meaning of `first` and `second` depends on the action."""
        match action:
            case sqlite3.SQLITE_FUNCTION:
                refused = f"the function {second} is not available" if second in _FORBIDDEN_FUNCTIONS else ""
            case sqlite3.SQLITE_PRAGMA:
                refused = "" if _reads(first, second) else f"PRAGMA {first} is not available"
            case sqlite3.SQLITE_ATTACH | sqlite3.SQLITE_DETACH:
                refused = "other databases and files are not available"
            case _ if action in _READING or (action, first) == _DECLARING:
                refused = ""
            case _:
                refused = "only reading is possible: writing needs approval and is not available here"
        self.refused = self.refused or refused
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


def _reads(pragma: str | None, value: str | None) -> bool:
    name = (pragma or "").lower()
    return name in _PRAGMAS_OF_A_TABLE or (name in _PRAGMAS_OF_THE_DATABASE and value is None)


def _table(names: list[str], rows: list[tuple[str, ...]], limit: int) -> str:
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
