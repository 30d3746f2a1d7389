"""`python -m tests.benchmarks` (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from rich.console import Console

from tests.benchmarks.cases import CASES, MODES, STORES, Group
from tests.benchmarks.report import json_line, print_summary, print_tables, versions_line
from tests.benchmarks.runner import Row, measure

T = TypeVar("T")

_REPS = 30
_QUICK_REPS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the options say and print it."""
    options = _parser().parse_args(arguments)
    rows = list(_rows(options))
    if options.json:
        for row in rows:
            print(json_line(row))  # noqa: T201
        return
    console = Console(width=140, highlight=False)
    console.print(versions_line() + "\n", soft_wrap=True)
    show = print_summary if options.summary else print_tables
    show(console, rows)


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    modes = [options.only] if options.only else MODES
    groups = [
        Group(mode, case, store) for mode in modes for store in options.savers for case in options.cases
    ]
    progress = Console(file=sys.stderr)
    for number, group in enumerate(groups, start=1):
        if progress.is_terminal:
            progress.print(f"{number}/{len(groups)}", end="\r")
        yield from measure(group, _QUICK_REPS if options.quick else options.reps)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=main.__doc__)
    option = parser.add_argument
    option("--reps", type=_positive, default=_REPS, help="turns per variant (default: %(default)s)")
    option("--quick", action="store_true", help=f"{_QUICK_REPS} turns per variant")
    option("--cases", type=_chooser(CASES), default=[*CASES.values()], help=_names(CASES))
    option("--savers", type=_chooser(STORES), default=[*STORES.values()], help=_names(STORES))
    option("--only", choices=MODES, help="one way of calling (default: both)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--summary", action="store_true", help="medians and ratios, one line per variant")
    output.add_argument("--json", action="store_true", help="JSON lines instead of tables")
    return parser


def _names(things: Mapping[str, object]) -> str:
    return f"some of {','.join(things)} (default: all)"


def _chooser(things: Mapping[str, T]) -> Callable[[str], list[T]]:
    def choose(text: str) -> list[T]:
        names = text.split(",")
        unknown = [name for name in names if name not in things]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(things)}")
        return [things[name] for name in names]

    return choose


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    main()
