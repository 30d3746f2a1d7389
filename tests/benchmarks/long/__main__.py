"""`python -m tests.benchmarks.long` (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console

from tests.benchmarks.long.report import json_lines, print_report
from tests.benchmarks.long.runner import Course, hold
from tests.benchmarks.long.variants import variants
from tests.benchmarks.report import versions_line

MARKS = (10, 100, 200, 1000)

_TURNS = 1000
_QUICK_TURNS = 30
_SECONDS = 300.0
"""Time for the turns of one variant."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Hold one long conversation with each variant and print what its turns and its file cost."""
    options = _parser().parse_args(arguments)
    courses = list(_courses(options))
    if options.json:
        for line in json_lines(courses):
            print(line)  # noqa: T201
        return
    console = Console(width=160, highlight=False)
    console.print(versions_line() + "\n", soft_wrap=True)
    print_report(console, courses)


def _courses(options: argparse.Namespace) -> Iterator[Course]:
    turns = _QUICK_TURNS if options.quick else options.turns
    known = variants(options.memory)
    progress = Console(file=sys.stderr)
    for name in options.variants or known:
        if progress.is_terminal:
            progress.print(known[name].name)
        yield hold(known[name], turns, MARKS, options.seconds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.long", description=main.__doc__)
    option = parser.add_argument
    option("--turns", type=_positive, default=_TURNS, help="turns per variant (default: %(default)s)")
    option("--quick", action="store_true", help=f"{_QUICK_TURNS} turns per variant")
    option("--memory", choices=("window", "summary", "hybrid"), help="turnflow's memory (default: its own)")
    option("--variants", nargs="+", choices=list(variants()), metavar="NAME", help=", ".join(variants()))
    option(
        "--seconds", type=float, default=_SECONDS, help="time for a variant's turns (default: %(default)s)"
    )
    option("--json", action="store_true", help="JSON lines instead of tables")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    main()
