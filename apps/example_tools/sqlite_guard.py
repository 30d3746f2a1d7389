"""What SQLite may do for one statement: asked by SQLite itself before and while the statement runs."""

from __future__ import annotations

import sqlite3
import time

LIMITS = {
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
_RENAMING = (sqlite3.SQLITE_UPDATE, "sqlite_temp_master")
"""Asked when a table is renamed, for temporary triggers may name it; likewise."""

_WRITING = {
    *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
    *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_ALTER_TABLE),
    *(sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_REINDEX),
    *(sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_VIEW),
    *(sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER),
    *(sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE, sqlite3.SQLITE_ANALYZE),
}
"""Not among them: transactions and savepoints, which are the tool's own, and temporary things, which would be
gone with the connection."""

_MODULES = {"fts5", "rtree"}
"""Of new virtual tables; others may read files."""
_RAW_TABLES = {"sqlite_dbpage"}
"""Pages of the file itself."""

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


class SqliteGuard:
    """Allows a connection to read its database, and where it may, to write it; remembers why it said no.

    Other databases and files, pragmas that change anything, and functions that reach out of the database are
    never allowed.

    Args:
        seconds: How long statements may take, counted from now.
        may_write: Whether statements may change the database.
    """

    def __init__(self, seconds: float, *, may_write: bool = False) -> None:
        self.refused = ""
        self.late = False
        self._deadline = time.monotonic() + seconds
        self._may_write = may_write

    def watch(self, connection: sqlite3.Connection) -> None:
        """Ask this guard about all that the connection does from now on."""
        for limited, most in LIMITS.items():
            connection.setlimit(limited, most)
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._is_late, _INSTRUCTIONS_BETWEEN_LOOKS)

    def _is_late(self) -> int:
        self.late = time.monotonic() > self._deadline
        return int(self.late)

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, _trigger: str | None
    ) -> int:
        """Asked by SQLite; the meaning of `first` and `second` depends on the action."""
        refused = self._reason(action, first, second, database)
        self.refused = self.refused or refused
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    def _reason(self, action: int, first: str | None, second: str | None, database: str | None) -> str:
        """Why the action is not allowed; '' if it is."""
        match action:
            case sqlite3.SQLITE_FUNCTION:
                name = (second or "").lower()
                return f"the function {second} is not available" if name in _FORBIDDEN_FUNCTIONS else ""
            case sqlite3.SQLITE_PRAGMA:
                return "" if _reads(first, second) else f"PRAGMA {first} is not available"
            case sqlite3.SQLITE_ATTACH | sqlite3.SQLITE_DETACH:
                return "other databases and files are not available"
            case _ if action in _READING or (action, first) == _DECLARING:
                return ""
            case _ if not self._may_write:
                return "only reading is possible: writing needs approval and is not available here"
        return self._write_reason(action, first, second, database)

    def _write_reason(self, action: int, first: str | None, second: str | None, database: str | None) -> str:
        if (action, first) == _RENAMING:
            return ""
        # An ALTER TABLE has its database in the first place.
        where = first if action == sqlite3.SQLITE_ALTER_TABLE else database
        if action not in _WRITING or where != "main":
            return "give one statement that changes the database; transactions and temporary things are not"
        if action == sqlite3.SQLITE_CREATE_VTABLE and (second or "").lower() not in _MODULES:
            return f"virtual tables of the module {second} are not available"
        if (first or "").lower() in _RAW_TABLES:
            return f"the table {first} is not available"
        return ""


def _reads(pragma: str | None, value: str | None) -> bool:
    name = (pragma or "").lower()
    return name in _PRAGMAS_OF_A_TABLE or (name in _PRAGMAS_OF_THE_DATABASE and value is None)
