"""Effects happen at most once, and what is said of them is true, wherever a process is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.turns.crash_report import INDETERMINATE, NO_EFFECT, Seen, fate_of, faults_of
from tests.turns.crash_turn import CALLS, CONTROL, VARIANTS

ROOT = Path(__file__).parent.parent.parent

WHOLE = ("sync, one at a time", "async, parallel", "sync, embedded", "sync, new input")
"""Variants that are killed at each of their points; of the others at one of so many."""
STRIDE = 5

FEWEST_POINTS = 150
"""A floor for what a sweep comes to; fewer would mean that it misses the saver."""


def swept(variant: str, every: int) -> tuple[int, dict[str, Any]]:
    """The exit code of a sweep and what it counted."""
    command = [sys.executable, "-m", "tests.turns.crash_sweep", variant, "--every", str(every), "--json"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=110)
    assert not done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("variant", [variant.name for variant in VARIANTS])
def test_effects_happen_once_wherever_a_process_is_killed(variant: str) -> None:
    every = 1 if variant in WHOLE else STRIDE
    code, tally = swept(variant, every)
    assert not tally["faults"]
    assert code == 0
    assert tally["points"] >= FEWEST_POINTS // every
    assert tally["twice"] >= FEWEST_POINTS // every // 10
    fates = tally["fates"]
    assert fates["once"] > tally["points"]
    assert fates.get("unrun") if variant != "idempotent" else fates["again"]


def test_the_sweep_sees_what_happens_without_a_journal() -> None:
    code, tally = swept(CONTROL.name, STRIDE)
    assert code == 1
    assert tally["fates"]["doubled"]
    assert any("doubled" in fault for fault in tally["faults"])


def seen(text: str | None, times: int, *statuses: str, **rest: Any) -> Seen:
    """What is known after a turn with one call."""
    texts = {} if text is None else {"c1": text}
    return Seen(texts, {"c1": statuses}, Counter({"c1": times}), **rest)


@pytest.mark.parametrize(
    ("known", "fate"),
    [
        (seen("did c1", 1, "ok"), "once"),
        (seen("did c1", 0, "ok"), "lost"),
        (seen("did c1", 2, "ok"), "doubled"),
        (seen("did c1", 2, "ok", may_repeat=True), "again"),
        (seen(INDETERMINATE, 2, "indeterminate", may_repeat=True), "doubled"),
        (seen(INDETERMINATE, 0, "indeterminate"), "unrun"),
        (seen(INDETERMINATE, 1, "indeterminate"), "happened"),
        (seen(INDETERMINATE, 1, "ok"), "lost"),
        (seen(INDETERMINATE, 1), "lost"),
        (seen(INDETERMINATE, 1, "indeterminate", "indeterminate"), "lost"),
        (seen(NO_EFFECT, 0, is_cut=True), "unrun"),
        (seen(NO_EFFECT, 1, is_cut=True), "lost"),
        (seen(NO_EFFECT, 0), "lost"),
        (seen(None, 0, is_cut=True), "unasked"),
        (seen(None, 1, is_cut=True), "lost"),
        (seen(None, 0), "lost"),
        (seen("something else", 1, "ok"), "lost"),
    ],
)
def test_the_fate_of_an_effect(known: Seen, fate: str) -> None:
    assert fate_of("c1", known) == fate


BEGUN = frozenset({"c1"})
OPEN = {"c1": "started"}


@pytest.mark.parametrize(
    "known",
    [
        seen(INDETERMINATE, 0, "indeterminate", begun=BEGUN, journal=OPEN),
        seen("did c1", 1, "ok", begun=BEGUN, kept=BEGUN, journal={"c1": "done"}),
        seen(NO_EFFECT, 0, is_cut=True),
        seen(NO_EFFECT, 0, "cancelled", is_cut=True),
    ],
)
def test_nothing_is_wrong_with_a_true_recovery(known: Seen) -> None:
    assert not faults_of(["c1"], known)


@pytest.mark.parametrize(
    ("known", "fault"),
    [
        (seen(INDETERMINATE, 0, "indeterminate", begun=BEGUN, kept=BEGUN, journal=OPEN), "results stored"),
        (seen(INDETERMINATE, 0, "indeterminate", journal=OPEN), "had not begun"),
        (seen(INDETERMINATE, 0, "indeterminate", begun=BEGUN, may_repeat=True), "not run again"),
        (seen(INDETERMINATE, 0, "indeterminate", begun=BEGUN), "the journal left open []"),
        (seen("did c1", 1, "ok", begun=BEGUN, journal=OPEN), "the journal left open ['c1']"),
        (seen(None, 1, kept=BEGUN, is_cut=True), "not in the transcript"),
        (seen("did c1", 1), "the record says []"),
        (seen("did c1", 1, "ok", "ok"), "the record says ['ok', 'ok']"),
        (seen("did c1", 1, "indeterminate"), "the record says ['indeterminate']"),
        (seen(INDETERMINATE, 0, begun=BEGUN, journal=OPEN), "the record says []"),
    ],
)
def test_what_is_wrong_with_a_recovery(known: Seen, fault: str) -> None:
    assert fault in faults_of(["c1"], known)[0]


def test_each_variant_has_a_name_of_its_own() -> None:
    names = [variant.name for variant in (*VARIANTS, CONTROL)]
    assert len(set(names)) == len(names)
    assert set(WHOLE) < set(names)
    assert len(CALLS) == 6
