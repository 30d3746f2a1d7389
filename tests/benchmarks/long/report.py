"""The courses of conversations as tables, which are Markdown too, and as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table

from tests.benchmarks.long.database import DatabaseSize
from tests.benchmarks.long.runner import Course, Mark

MB = 1_000_000

MOST_TIME = 1.3
"""Aim for the time of a turn at the last mark over that at the first."""
MOST_SIZE = 2.0
"""Aim for the database over the text of the conversation."""


def json_lines(courses: Iterable[Course]) -> list[str]:
    """One line of JSON per variant and mark."""
    return [
        json.dumps(
            {
                "variant": course.variant,
                **asdict(mark),
                "size_ratio": mark.size_ratio,
                "is_cut": course.is_cut,
                "reopened": course.reopened,
            }
        )
        for course in courses
        for mark in course.marks
    ]


def print_report(console: Console, courses: Sequence[Course]) -> None:
    """Print what the variants cost at each mark, next to each other, then what grows in each."""
    _print(console, "ms per turn", _by_turn(courses, lambda mark: f"{mark.milliseconds:.1f}"))
    _print(
        console,
        "ms of processor time per turn",
        _by_turn(courses, lambda mark: f"{mark.cpu_milliseconds:.1f}"),
    )
    _print(console, "database, MB", _by_turn(courses, lambda mark: f"{mark.database.file_bytes / MB:.2f}"))
    _print(console, "database ÷ text", _by_turn(courses, lambda mark: f"{mark.size_ratio:.2f}"))
    _print(
        console,
        "last request of the turn, messages / thousand characters",
        _by_turn(courses, lambda mark: f"{mark.request[0]} / {mark.request[1] / 1000:.1f}"),
    )
    for course in courses:
        for line in remarks(course):
            console.print(f"- {line}", soft_wrap=True)
    console.print()
    for course in courses:
        _print(console, f"{course.variant}: rows / KiB of each table", _tables(course.marks))
        _print(console, f"{course.variant}: KiB of each channel of the state", _channels(course.marks))


def remarks(course: Course) -> list[str]:
    """What there is to say about a course: how the aims were met, and what the tables do not show."""
    name, first, last = course.variant, course.marks[0], course.marks[-1]
    ratio = last.milliseconds / first.milliseconds
    cpu_ratio = last.cpu_milliseconds / first.cpu_milliseconds
    lines = []
    if len(course.marks) > 1:
        time = (
            f"time of turn {last.turn} ÷ turn {first.turn} = {ratio:.2f}, in processor time {cpu_ratio:.2f} "
            f"(aim: at most {MOST_TIME})"
        )
        size = f"database ÷ text at turn {last.turn} = {last.size_ratio:.2f} (aim: at most {MOST_SIZE})"
        lines = [f"{name}: {time}; {size}"]
    if course.is_cut:
        lines.append(f"{name}: stopped after turn {course.turns}, for its time was up")
    if last.summaries:
        lines.append(f"{name}: summed up {last.summaries} times")
    if course.reopened:
        times = ", ".join(f"{ms:.0f} ms at {turn}" for turn, ms in course.reopened.items())
        lines.append(f"{name}: opening the file and the next turn together: {times}")
    return lines


def _by_turn(courses: Sequence[Course], show: Callable[[Mark], str]) -> Table:
    """One line per variant, one column per mark."""
    table = Table("variant", box=box.MARKDOWN)
    turns = sorted({mark.turn for course in courses for mark in course.marks})
    for turn in turns:
        table.add_column(f"turn {turn:,}", justify="right")
    for course in courses:
        cells = {mark.turn: show(mark) for mark in course.marks}
        table.add_row(course.variant, *(cells.get(turn, "–") for turn in turns))
    return table


def _tables(marks: Sequence[Mark]) -> Table:
    """One line per table of the last mark's file, the largest first, and one for free pages."""
    rows = {name: [_table_cell(mark.database, name) for mark in marks] for name in marks[-1].database.tables}
    rows["free pages"] = [f"{mark.database.free_bytes / 1024:,.0f}" for mark in marks]
    return _grid("table", marks, rows)


def _table_cell(database: DatabaseSize, name: str) -> str:
    size = database.tables.get(name)
    return f"{size.rows:,} / {size.stored_bytes / 1024:,.0f}" if size else "–"


def _channels(marks: Sequence[Mark]) -> Table:
    rows = {
        channel: [f"{mark.state.get(channel, 0) / 1024:,.1f}" for mark in marks]
        for channel in dict.fromkeys(channel for mark in marks for channel in mark.state)
    }
    return _grid("channel", marks, rows)


def _grid(head: str, marks: Sequence[Mark], rows: dict[str, list[str]]) -> Table:
    table = Table(head, box=box.MARKDOWN)
    for mark in marks:
        table.add_column(f"turn {mark.turn:,}", justify="right")
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _print(console: Console, title: str, table: Table) -> None:
    """Print a heading and a table, without the blank cells around it that Markdown has no use for."""
    with console.capture() as captured:
        console.print(table)
    console.print(f"**{title}**\n\n{captured.get().strip()}\n", soft_wrap=True)
