"""What a SQLite file holds: its size, and rows and bytes of each table."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_BUSY_SECONDS = 1.0
"""How long another connection's transaction is waited for."""


@dataclass(frozen=True)
class TableSize:
    """What one table takes."""

    rows: int
    stored_bytes: int
    """Pages of the table and its indexes; without SQLite's `dbstat`, the length of all values."""


@dataclass(frozen=True)
class DatabaseSize:
    """What a file takes."""

    file_bytes: int
    """Length of the file once SQLite has moved its log into it, pages that are free again included."""
    free_bytes: int
    """Length of the pages that are free."""
    tables: dict[str, TableSize]
    """Its tables, the largest first."""


def database_size(path: Path) -> DatabaseSize:
    """Move the log into the file, which no transaction may hold back, and look at what is there.

    Raises:
        ValueError: A transaction is open.
    """
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as file:
        is_busy = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if is_busy:
            raise ValueError(f"a transaction on {path} is open")
        page_bytes = file.execute("PRAGMA page_size").fetchone()[0]
        free_bytes = page_bytes * file.execute("PRAGMA freelist_count").fetchone()[0]
        sizes = _tables(file)
    ordered = sorted(sizes.items(), key=lambda item: -item[1].stored_bytes)
    return DatabaseSize(path.stat().st_size, free_bytes, dict(ordered))


def _tables(file: sqlite3.Connection) -> dict[str, TableSize]:
    # Virtual tables have no pages: what they keep is in tables of its own.
    names = file.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite!_%' "
        "ESCAPE '!'"
    ).fetchall()
    in_pages = _page_bytes(file)
    return {
        name: TableSize(
            file.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0],  # noqa: S608 (a name of the schema)
            _value_bytes(file, name) if in_pages is None else in_pages.get(name, 0),
        )
        for (name,) in names
    }


def _page_bytes(file: sqlite3.Connection) -> dict[str, int] | None:
    """Bytes of pages by table; None where SQLite was built without `dbstat`."""
    query = "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) GROUP BY tbl_name"
    try:
        return dict(file.execute(query).fetchall())
    except sqlite3.OperationalError:
        return None


def _value_bytes(file: sqlite3.Connection, name: str) -> int:
    columns = [row[1] for row in file.execute(f'PRAGMA table_info("{name}")')]
    total = " + ".join(f'coalesce(sum(length("{column}")), 0)' for column in columns)
    return int(file.execute(f'SELECT {total} FROM "{name}"').fetchone()[0])  # noqa: S608
