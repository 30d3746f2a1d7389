"""What became of the effects of turns that were killed: each effect is judged, and a table counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table

from turnflow.prompts import Prompts

Fate = Literal["once", "unrun", "happened", "again", "doubled", "lost", "unasked"]

INDETERMINATE = Prompts("en").text("result", "indeterminate")
NO_EFFECT = Prompts("en").text("result", "not_started")

_COLUMNS: dict[str, Fate] = {
    "exactly once": "once",
    "not run, and said": "unrun",
    "indeterminate, happened": "happened",
    "run again": "again",
    "doubled": "doubled",
    "lost": "lost",
}


def true_result(call: str) -> str:
    """What the tool gives for a call that had its effect."""
    return f"did {call}"


@dataclass(frozen=True)
class Seen:
    """What is known of a turn that was killed, once all is over.

    Attributes:
        texts: The results in the transcript, by call.
        statuses: The status of each `tool.result` in the record, by call.
        happened: How often each effect is in the effects' own file.
        begun: Calls whose start was asked for in a process that was killed.
        kept: Calls whose true result the saver had taken in a process that was killed.
        journal: What the journal said of each call after the last kill.
        may_repeat: Whether the tool is idempotent.
        is_cut: Whether the turn was not gone on with: the user had sent something else.
    """

    texts: Mapping[str, str]
    statuses: Mapping[str, Sequence[str]]
    happened: Counter[str]
    begun: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    journal: Mapping[str, str] = field(default_factory=dict)
    may_repeat: bool = False
    is_cut: bool = False

    @property
    def indeterminate(self) -> set[str]:
        """The calls of which the model is told that nobody knows."""
        return {call for call, text in self.texts.items() if text == INDETERMINATE}


def fate_of(call: str, seen: Seen) -> Fate:
    """What became of an effect, and whether that was said.

    Returns:
        `once`: it happened, and its true result is known. `unrun`: it did not, and the transcript and the
        record say so or leave it open. `happened`: it did, and they leave it open. `again`: it happened more
        than once, as an idempotent one may. `unasked`: the reply that asks for it went with the process. And
        what must never be: `doubled`; `lost`: what is said of it is not true.
    """
    times, text = seen.happened[call], seen.texts.get(call)
    is_true = text == true_result(call)
    if times > 1:
        return "again" if seen.may_repeat and is_true else "doubled"
    if is_true:
        return "once" if times else "lost"
    if text == INDETERMINATE and list(seen.statuses.get(call, [])) == ["indeterminate"]:
        return "happened" if times else "unrun"
    if seen.is_cut and not times and text in {NO_EFFECT, None}:
        return "unasked" if text is None else "unrun"
    return "lost"


def faults_of(calls: Iterable[str], seen: Seen) -> list[str]:
    """What is wrong with how a turn was gone on with, but for effects that are doubled or lost."""
    unknown = seen.indeterminate
    faults = []
    if unknown & seen.kept:
        faults.append(f"{sorted(unknown & seen.kept)} had their results stored, and are called indeterminate")
    if unknown - seen.begun:
        faults.append(f"{sorted(unknown - seen.begun)} had not begun, and are called indeterminate")
    if unknown and seen.may_repeat:
        faults.append(f"{sorted(unknown)} are idempotent, and were not run again")
    open_starts = {call for call, state in seen.journal.items() if state == "started"}
    if not seen.may_repeat and unknown != open_starts:
        faults.append(f"the journal left open {sorted(open_starts)}, indeterminate are {sorted(unknown)}")
    if gone := [call for call in sorted(seen.kept) if seen.texts.get(call) != true_result(call)]:
        faults.append(f"the results of {gone} were stored, and are not in the transcript")
    return [*faults, *_record_faults(calls, seen)]


def _record_faults(calls: Iterable[str], seen: Seen) -> list[str]:
    faults = []
    for call in calls:
        told = list(seen.statuses.get(call, []))
        if seen.texts.get(call) == true_result(call):
            expected = ["ok"]
        elif call in seen.texts and seen.texts[call] != NO_EFFECT:
            expected = ["indeterminate"]
        else:
            expected = told if told == ["cancelled"] else []
        if told != expected:
            faults.append(f"the record says {told} of {call}, and not {expected}")
    return faults


@dataclass
class Tally:
    """The fates of all effects of one variant."""

    variant: str
    points: int = 0
    twice: int = 0
    """How many of the turns were killed a second time while they were gone on with."""
    fates: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, report: Mapping[str, Any]) -> None:
        """Count one turn's report."""
        kills = len(report["kills"])
        self.points += kills > 0
        self.twice += kills > 1
        self.fates.update(report["fates"].values())
        where = f"{self.variant}, {report['number']}: killed {' and '.join(report['kills']) or 'nowhere'}"
        wrong = {call: fate for call, fate in report["fates"].items() if fate in {"doubled", "lost"}}
        self.faults += [f"{where}: {call} is {fate}" for call, fate in wrong.items()]
        self.faults += [f"{where}: {fault}" for fault in report["faults"]]


def print_tallies(console: Console, tallies: Sequence[Tally]) -> None:
    """Print the table, and below it all that went wrong.

    Only the effects of idempotent tools may have been `run again`.
    """
    table = Table(box=box.MARKDOWN)
    table.add_column("variant", no_wrap=True)
    for name in ("points", "killed twice", *_COLUMNS, "seconds"):
        table.add_column(name, justify="right")
    for tally in tallies:
        numbers = (tally.points, tally.twice, *(tally.fates[fate] for fate in _COLUMNS.values()))
        table.add_row(tally.variant, *(f"{number:,}" for number in numbers), f"{tally.seconds:.1f}")
    console.print(table)
    for tally in tallies:
        for fault in tally.faults:
            console.print(fault, markup=False, soft_wrap=True)
