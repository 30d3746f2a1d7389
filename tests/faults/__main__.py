"""`make faults`: plays all faults and prints what each came to (docs/faults.md)."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.faults.cases import Fault, all_faults
from tests.faults.playing import Report, play_fault
from tests.turns.stage import Mode, SaverKind

_MODES: tuple[Mode, ...] = ("sync", "async")
_AT_ONCE = 2 * (os.cpu_count() or 1)
_LONGEST_REASON = 300


@dataclass(frozen=True)
class _Run:
    fault: Fault
    mode: Mode
    report: Report | None
    problem: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the faults; 1 if one does not end as it has to, 2 if none has the words."""
    options = _parser().parse_args(arguments)
    faults = [
        fault
        for fault in all_faults()
        if all(word in f"{fault.file} {fault.name} {fault.fault}" for word in options.words)
    ]
    if not faults:
        sys.stderr.write(f"no fault has all of these words: {' '.join(options.words)}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        runs = list(
            pool.map(
                lambda job: _run(job[0], job[1], options.saver, Path(folder)),
                [(fault, mode) for fault in faults for mode in _MODES],
            )
        )
    _print(console, runs)
    failed = [run for run in runs if run.report is None]
    for run in failed:
        console.print(f"[red]{run.fault.name}[/] ({run.mode}): {escape(run.problem)}", soft_wrap=True)
    seconds = time.monotonic() - begun
    console.print(
        f"{len(faults)} faults, {len(runs)} runs, {len(failed)} not as they should be, {seconds:.0f} s",
        soft_wrap=True,
    )
    return 1 if failed else 0


def _run(fault: Fault, mode: Mode, saver: SaverKind, folder: Path) -> _Run:
    own = folder / f"{fault.name}-{mode}"
    own.mkdir()
    try:
        return _Run(fault, mode, play_fault(fault, mode, saver, own))
    except Exception as error:  # noqa: BLE001 - each fault is reported, whatever it raised
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split()) or f"{place.line} ({Path(place.filename).name}:{place.lineno})"
        return _Run(fault, mode, None, f"{type(error).__name__}: {text[:_LONGEST_REASON]}")


def _print(console: Console, runs: Sequence[_Run]) -> None:
    for file, group in groupby(runs, key=lambda run: run.fault.file):
        table = Table(title=file.replace("_", " "), title_justify="left", title_style="bold", expand=True)
        table.add_column("fault", ratio=1)
        table.add_column("status", width=18)
        table.add_column("requests", justify="right", width=8)
        for mode in _MODES:
            table.add_column(mode, justify="right", width=8)
        for _, pair in groupby(group, key=lambda run: run.fault.name):
            table.add_row(*_row(list(pair)))
        console.print(table)


def _row(runs: Sequence[_Run]) -> list[str]:
    first = next((run.report for run in runs if run.report), None)
    times = [f"{run.report.seconds:.2f} s" if run.report else "[red]FAILED[/]" for run in runs]
    status, requests = (first.status, str(first.requests)) if first else ("-", "-")
    return [escape(runs[0].fault.fault), status, requests, *times]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="only faults whose file, name or text has all of these words"
    )
    parser.add_argument(
        "--saver", choices=("memory", "sqlite"), default="sqlite", help="default: %(default)s"
    )
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help="faults at once (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
