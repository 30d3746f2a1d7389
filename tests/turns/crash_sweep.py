"""Turns with effects that are killed at each of their points: `python -m tests.turns.crash_sweep`.

A turn of three rounds with two effects each runs in a child of a warmed-up process and kills itself: before
or after each call of the saver and of the journal, in each transaction, after each row, at each request to
the model, and on the way into and out of each tool. Then others go on with it, or the user sends something
else. An effect is a line in a file of its own, so that it is known whether it happened, whatever is said.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from rich.console import Console

from tests.turns.crash_report import INDETERMINATE, NO_EFFECT, Seen, Tally, fate_of, faults_of, print_tallies
from tests.turns.crash_turn import (
    ANSWER,
    ASIDE,
    CALLS,
    CONFIG,
    CONTROL,
    SECOND,
    VARIANTS,
    EffectFuse,
    EffectTurn,
    Variant,
)
from tests.turns.killed import THREAD, Log, fork, fork_all, scratch_folder
from tests.turns.stage import check_transcript
from turnflow import open_saver
from turnflow.graph.saver import TurnSaver

EVERY_SECOND_KILL = 7
"""One in so many turns is killed again while it is gone on with."""

SECOND_POINTS = 30
"""About how many points there are on the way to a short answer."""

PATIENCE = 60
"""Seconds after which a process counts as hanging."""

_TOGETHER = 10
"""Turns that are gone on with in one process: the first few steps of a forked one copy its memory."""


@dataclass(frozen=True)
class Undisturbed:
    """The turn that nobody killed."""

    points: int
    transcript: list[dict[str, Any]]


class Life:
    """One turn that is killed, in processes of its own, then gone on with in this one, and judged."""

    def __init__(self, turn: EffectTurn, folder: Path, number: int, undisturbed: Undisturbed | None) -> None:
        self._turn = turn
        self._number = number
        self._undisturbed = undisturbed
        self._db, self._effects, self._report = (
            folder / f"{number}.{ending}" for ending in ("sqlite", "effects", "json")
        )
        self._log = Log(folder / f"{number}.log")
        self._faults: list[str] = []

    def live(self) -> None:
        """Kill the turn and bring it to its end; leaves a report."""
        signal.alarm(2 * PATIENCE)
        self._effects.touch()
        self._turn.effects = self._effects
        self._die_at(self._number, self._turn.begin)
        if self._undisturbed and self._number % EVERY_SECOND_KILL == 0:
            self._die_at(self._second_point(self._undisturbed), self._go_on_for_a_while)
        self._report.write_text(json.dumps(self._judged(), default=str))

    def report(self) -> dict[str, Any]:
        """What was left by `live`."""
        if self._report.exists():
            return dict(json.loads(self._report.read_text()))
        faults = ["it did not come to its end"]
        return {"number": self._number, "kills": [], "points": [], "fates": {}, "faults": faults}

    def _go_on(self, saver: TurnSaver) -> None:
        self._turn.go_on(saver, plainly=self._is_odd, is_cut=self._turn.variant.is_cut)

    def _go_on_for_a_while(self, saver: TurnSaver) -> None:
        """What the second process does; some users send something else only after that one."""
        self._turn.go_on(saver, plainly=self._is_odd, is_cut=self._turn.variant.is_cut and self._is_odd)

    @property
    def _is_odd(self) -> bool:
        return bool(self._number % 2)

    def _second_point(self, undisturbed: Undisturbed) -> int:
        """A point on what is left of the way, another for each turn."""
        left = undisturbed.points - self._number
        if self._turn.variant.is_cut and self._is_odd:
            left = SECOND_POINTS
        return 1 + 11 * self._number % max(1, left)

    def _die_at(self, point: int, run: Callable[[TurnSaver], None]) -> None:
        """Run in a child until a point is reached; to the end if there is no such point."""
        _, status = os.waitpid(fork(functools.partial(self._die, point, run)), 0)
        if (code := os.waitstatus_to_exitcode(status)) not in {0, -signal.SIGKILL}:
            self._faults.append(f"a process ended with {code}")

    def _die(self, point: int, run: Callable[[TurnSaver], None]) -> None:
        signal.alarm(PATIENCE)
        fuse = EffectFuse(self._log, point, slow=self._turn.variant.slow)
        fuse.wire()
        self._turn.reach = fuse.reach
        with open_saver(self._db) as saver:
            run(saver)
            fuse.reach("before close")
        fuse.reach("after close")
        self._log.add("points", fuse.count)

    def _judged(self) -> dict[str, Any]:
        events = self._log.read()
        journal, before = _journal(self._db), self._effects.read_text()
        with open_saver(self._db) as saver:
            try:
                if self._undisturbed:
                    self._go_on(saver)
            except Exception as error:  # noqa: BLE001 - is a finding
                self._faults.append(f"going on raised {error!r}")
            values = self._turn.graph(saver).get_state(CONFIG).values
            record = list(saver.read_record(THREAD))
        after, variant = self._effects.read_text(), self._turn.variant
        if variant.is_cut and after != before:
            self._faults.append("a tool ran for a turn that was not gone on with")
        messages = values.get("messages", [])
        statuses: dict[str, list[str]] = {}
        for fact in record:
            if fact["type"] == "tool.result":
                statuses.setdefault(fact["tool_call_id"], []).append(fact["status"])
        seen = Seen(
            texts={m.tool_call_id: str(m.content) for m in messages if isinstance(m, ToolMessage)},
            statuses=statuses,
            happened=Counter(after.split()),
            begun=frozenset(event[1] for event in events if event[0] == "begun"),
            kept=frozenset(event[1] for event in events if event[0] == "kept result" and event[2] == "ok"),
            journal=journal,
            may_repeat=variant.is_idempotent,
            is_cut=variant.is_cut,
        )
        return {
            "number": self._number,
            "kills": [event[1] for event in events if event[0] == "killed"],
            "points": [event[1] for event in events if event[0] == "points"],
            "transcript": [_plain(message) for message in messages],
            "fates": {call: fate_of(call, seen) for call in CALLS},
            "faults": [*self._faults, *faults_of(CALLS, seen), *self._end_faults(values, seen)],
        }

    def _end_faults(self, values: dict[str, Any], seen: Seen) -> list[str]:
        """What is wrong with how the conversation stands at the end."""
        messages = values.get("messages", [])
        faults = []
        try:
            check_transcript(messages)
        except AssertionError as error:
            faults.append(f"the transcript is not valid: {error}")
        is_second = self._turn.variant.is_cut and self._undisturbed is not None
        expected = ("finished", ASIDE if is_second else ANSWER)
        if (found := (values.get("outcome", {}).get("status"), values.get("answer"))) != expected:
            faults.append(f"it ended with {found}")
        if self._undisturbed:
            transcript = [_plain(message) for message in messages]
            faults += _transcript_faults(transcript, self._undisturbed.transcript, seen)
        return faults


def _journal(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT call_id, state FROM turnflow_effects").fetchall())


def _plain(message: BaseMessage) -> dict[str, Any]:
    """What counts of a message."""
    plain = {"type": message.type, "id": message.id, "content": message.content}
    if isinstance(message, ToolMessage):
        return {**plain, "call": message.tool_call_id, "name": message.name, "status": message.status}
    if isinstance(message, AIMessage):
        return {**plain, "calls": [[call["name"], call["id"], call["args"]] for call in message.tool_calls]}
    return plain


def _transcript_faults(
    transcript: list[dict[str, Any]], undisturbed: list[dict[str, Any]], seen: Seen
) -> list[str]:
    """Where a transcript differs from the undisturbed one by more than results that are not known."""
    told = {call: text for call, text in seen.texts.items() if text in {INDETERMINATE, NO_EFFECT}}
    expected = [
        {**plain, "content": told[plain["call"]], "status": "error"} if plain.get("call") in told else plain
        for plain in undisturbed
    ]
    if seen.is_cut:
        at = next((i for i, plain in enumerate(transcript) if plain["id"] == SECOND.id), len(transcript))
        expected = expected[:at]
        transcript, rest = transcript[:at], transcript[at:]
        if [plain["content"] for plain in rest] != [SECOND.content, ASIDE]:
            return [f"behind the killed turn stands {rest}"]
    for number, (found, wanted) in enumerate(zip(transcript, expected, strict=False)):
        if found != wanted:
            return [f"message {number} is {found}, not {wanted}"]
    if len(transcript) != len(expected):
        return [f"the transcript has {len(transcript)} messages, not {len(expected)}"]
    return []


def _undisturbed(whole: Life, tally: Tally) -> Undisturbed:
    """Play the turn as a whole, and count it with the others."""
    fork_all([whole.live])
    report = whole.report()
    tally.add(report)
    if not report["points"]:
        raise RuntimeError(f"the turn that nobody killed did not come to its end: {report['faults']}")
    return Undisturbed(report["points"][0], report["transcript"])


def _live_all(lives: Sequence[Life]) -> None:
    for life in lives:
        life.live()


def sweep(variant: Variant, *, every: int = 1) -> Tally:
    """Kill a variant's turn at each of its points, or at one of so many."""
    started = time.monotonic()
    tally = Tally(variant.name)
    turn = EffectTurn(variant)
    with scratch_folder() as folder:
        with open_saver(folder / "warm.sqlite") as saver:
            turn.begin(saver)
        gc.collect()
        gc.freeze()  # or the first collection in each child would copy all pages
        undisturbed = _undisturbed(Life(turn, folder, 0, None), tally)
        lives = [Life(turn, folder, at, undisturbed) for at in range(1, undisturbed.points + 1, every)]
        batches = [lives[at : at + _TOGETHER] for at in range(0, len(lives), _TOGETHER)]
        fork_all(functools.partial(_live_all, batch) for batch in batches)
        for life in lives:
            tally.add(life.report())
    tally.seconds = time.monotonic() - started
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep and print a table; gives the exit code: 1 if anything is doubled, lost or otherwise wrong."""
    names = {variant.name: variant for variant in (*VARIANTS, CONTROL)}
    parser = argparse.ArgumentParser(prog="crash_sweep", description="Kill turns with effects everywhere.")
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help=f"of: {'; '.join(names)}")
    parser.add_argument("--every", type=int, default=1, help="kill at one of so many points")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each variant")
    options = parser.parse_args(arguments)
    if unknown := set(options.variants) - set(names):
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    chosen = [names[name] for name in options.variants] or VARIANTS
    tallies = [sweep(variant, every=options.every) for variant in chosen]
    if options.json:
        for tally in tallies:
            print(json.dumps(vars(tally)))  # noqa: T201
    else:
        print_tallies(Console(width=150, highlight=False), tallies)
    return int(any(tally.faults for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
