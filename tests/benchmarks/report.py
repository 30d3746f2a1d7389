"""Rows as tables, which are Markdown too, and as JSON lines."""

from __future__ import annotations

import json
import platform
import sqlite3
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table

from tests.benchmarks.runner import Row
from tests.benchmarks.savers import Footprint

_LIBRARIES = (
    *("turnflow", "langgraph", "langchain", "langchain-core", "langgraph-checkpoint-sqlite"),
    *("pydantic-ai-slim", "openai-agents", "pydantic"),
)
_COLUMNS = ("median ms", "p10", "p90", "ratio", "supersteps", "checkpoints", "writes", "KiB")


def versions() -> dict[str, str]:
    """Versions of all that takes part."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in _LIBRARIES},
    }


def versions_line() -> str:
    """The versions in one line."""
    return ", ".join(f"{name} {number}" for name, number in versions().items())


def json_line(row: Row) -> str:
    """A row as one line of JSON."""
    group, stored = row.group, row.footprint
    return json.dumps(
        {
            "mode": group.mode,
            "case": group.case.name,
            "synchronous": group.store.synchronous,
            "durability": group.store.durability,
            "variant": row.variant,
            "reps": row.reps,
            "median_ms": row.median,
            "p10_ms": row.p10,
            "p90_ms": row.p90,
            "ratio": row.ratio,
            "supersteps": stored and stored.supersteps,
            "checkpoints": stored and stored.checkpoints,
            "writes": stored and stored.writes,
            "stored_bytes": stored and stored.stored_bytes,
        }
    )


def print_summary(console: Console, rows: Sequence[Row]) -> None:
    """Print medians and ratios, one line per variant, then what a turn stores; all modes and stores."""
    parts = tables(rows)
    for part in parts:
        table = _by_case(part, lambda row: f"{row.median:.1f} ({row.ratio:.2f})")
        _print(console, _title(part), table)
    stored = next((part for part in parts if part[0].footprint), [])
    if stored:
        table = _by_case(stored, lambda row: " / ".join(_stored_cells(row.footprint)))
        _print(console, "supersteps / checkpoints / writes / KiB per turn", table)


def print_tables(console: Console, rows: Sequence[Row]) -> None:
    """Print all there is to each row; all modes and stores."""
    for part in tables(rows):
        columns = _COLUMNS if part[0].footprint else _COLUMNS[:4]
        table = Table("case", "variant", box=box.MARKDOWN)
        for column in columns:
            table.add_column(column, justify="right")
        for row in part:
            times = (row.median, row.p10, row.p90, row.ratio)
            cells = (*(f"{number:.2f}" for number in times), *_stored_cells(row.footprint))
            table.add_row(row.group.case.name, row.variant, *cells)
        _print(console, _title(part), table)


def tables(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows by mode and store."""
    return [list(part) for _, part in groupby(rows, key=lambda row: (row.group.mode, row.group.store))]


def _by_case(rows: Sequence[Row], show: Callable[[Row], str]) -> Table:
    """One line per variant, one column per case."""
    table = Table("variant", box=box.MARKDOWN)
    for case in dict.fromkeys(row.group.case.name for row in rows):
        table.add_column(case, justify="right")
    for variant in dict.fromkeys(row.variant for row in rows):
        table.add_row(variant, *(show(row) for row in rows if row.variant == variant))
    return table


def _stored_cells(stored: Footprint | None) -> list[str]:
    if stored is None:
        return []
    counts = (stored.supersteps, stored.checkpoints, stored.writes)
    return [*map(str, counts), f"{stored.stored_bytes / 1024:.1f}"]


def _title(rows: Sequence[Row]) -> str:
    group = rows[0].group
    return f"{group.mode}, {group.store.title}"


def _print(console: Console, title: str, table: Table) -> None:
    """Print a heading and a table, without the blank cells around it that Markdown has no use for."""
    with console.capture() as captured:
        console.print(table)
    console.print(f"**{title}**\n\n{captured.get().strip()}\n", soft_wrap=True)
