"""A turn that is killed at any point of its work with the saver goes on as if it had not been."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from tests.turns.killed import ANSWER, GOAL, REPLIES, RESULTS, THREAD, Log, Player, scratch_folder
from tests.turns.stage import check_transcript
from turnflow import TurnResult, arun_turn, open_saver, run_turn
from turnflow.graph.run import is_unfinished
from turnflow.graph.saver import TurnSaver

ROOT = Path(__file__).parent.parent.parent
CONFIG: Any = {"configurable": {"thread_id": THREAD}}

FEWEST_POINTS = 150
"""A floor for what the sweep comes to; fewer would mean that it misses the saver."""


class Found:
    """What a killed process left in its file, seen before anything goes on."""

    def __init__(self, graph: Any) -> None:
        snapshot = graph.get_state(CONFIG)
        self.messages = snapshot.values.get("messages", [])
        self.is_open = is_unfinished(snapshot)
        self.is_waiting = bool(snapshot.interrupts)
        facts = list(graph.checkpointer.read_record(THREAD))
        self.results = {fact["tool_call_id"] for fact in facts if fact["type"] == "tool.result"}
        self.replies = sum(isinstance(message, AIMessage) for message in self.messages)
        self.has_user = "__start__" in snapshot.next or any(
            isinstance(m, HumanMessage) for m in self.messages
        )


class Recovery:
    """Goes on with one killed turn and says what went wrong."""

    def __init__(self, folder: Path, number: int, player: Player, runner: asyncio.Runner | None) -> None:
        self._player = player
        self._db = folder / f"{number}.sqlite"
        self._log = Log(folder / f"{number}.log")
        self._runner = runner
        self._number = number

    def check(self, undisturbed: Counter[tuple[Any, ...]]) -> list[str]:
        """Every fault, each with the point at which the process was killed."""
        before = self._log.read()
        (point,) = [event[1] for event in before if event[0] == "killed"]
        with open_saver(self._db) as saver:
            graph = self._player.graph(saver, self._log)
            found = Found(graph)
            result = self._go_on(graph, before, found)
            faults = [*_after_death(before, found), *self._after_all(before, found, result)]
            faults += _record_faults(facts_of(saver), undisturbed)
        faults += _file_faults(self._db)
        return [f"{self._number} {point}: {fault}" for fault in faults]

    def _go_on(self, graph: Any, before: list[list[Any]], found: Found) -> TurnResult:
        run = self._run(graph)
        is_answered = ["kept answer"] in before
        if is_answered and found.is_waiting:
            # run_turn(None) shows the question again; a plain run goes on with the answer that is stored.
            graph.invoke(None, CONFIG, durability="sync")
        elif found.is_open and self._number % 2:
            graph.invoke(None, CONFIG, durability="sync")
        elif found.is_open:
            run(None)
        elif not found.has_user:
            run("Go.")
        snapshot = graph.get_state(CONFIG)
        if snapshot.interrupts:
            assert not is_answered, f"{self._number}: the answer was stored, and is asked for again"
            return run(Command(resume=ANSWER))
        return TurnResult(snapshot.values["answer"], snapshot.values["outcome"], snapshot.values["messages"])

    def _run(self, graph: Any) -> Callable[[Any], TurnResult]:
        runner = self._runner
        if runner is None:
            return lambda given: run_turn(graph, given, thread_id=THREAD)
        return lambda given: runner.run(arun_turn(graph, given, thread_id=THREAD))

    def _after_all(self, before: list[list[Any]], found: Found, result: TurnResult) -> list[str]:
        faults = []
        check_transcript(result.messages)
        if (result.status, result.answer) != ("finished", GOAL):
            faults.append(f"ended {result.status} with {result.answer!r}")
        texts = {m.tool_call_id: str(m.content) for m in result.messages if isinstance(m, ToolMessage)}
        if ANSWER not in texts.pop("q", "") or texts != {call: f"did {call}" for call in RESULTS[:-1]}:
            faults.append(f"results {texts}")
        if [m.type for m in result.messages].count("human") != 1:
            faults.append("the user's message is lost or doubled")
        events = self._log.read()
        again = [event[1] for event in events[len(before) :] if event[0] == "tool"]
        kept = {event[1] for event in before if event[0] == "kept result"} | found.results
        if kept.intersection(again) or len(set(again)) != len(again):
            faults.append(f"tools ran again: {again}, kept were {kept}")
        asked = [event[1] for event in events[len(before) :] if event[0] == "model"]
        if asked != list(range(min(asked, default=0), len(REPLIES)))[: len(asked)]:
            faults.append(f"the model was asked out of order: {asked}")
        if asked and asked[0] < found.replies:
            faults.append(f"reply {asked[0]} was stored, and is asked for again")
        return faults


def _after_death(before: list[list[Any]], found: Found) -> list[str]:
    """What must be in the file because of what had begun."""
    faults = []
    asked = max((event[1] for event in before if event[0] == "model"), default=-1)
    if asked >= 0 and not found.has_user:
        faults.append("the model was asked before the user's message was stored")
    if found.replies < asked:
        faults.append(f"reply {asked} was asked for with {found.replies} replies stored")
    begun = {event[1] for event in before if event[0] == "tool"}
    called = {call["id"] for m in found.messages if isinstance(m, AIMessage) for call in m.tool_calls}
    if begun - called:
        faults.append(f"{begun - called} began before the reply that calls them was stored")
    kept = {event[1] for event in before if event[0] == "kept result"}
    if kept - found.results:
        faults.append(f"results {kept - found.results} were taken and are not in the record")
    return faults


def facts_of(saver: TurnSaver) -> Counter[tuple[Any, ...]]:
    """What the record says, without ids and times."""
    facts = saver.read_record(THREAD)
    return Counter((fact["type"], fact["round"], fact.get("tool_call_id")) for fact in facts)


def _record_faults(facts: Counter[tuple[Any, ...]], undisturbed: Counter[tuple[Any, ...]]) -> list[str]:
    missing, doubled = undisturbed - facts, facts - undisturbed
    return [f"the record misses {dict(missing)}, has too much {dict(doubled)}"] if missing or doubled else []


def _file_faults(path: Path) -> list[str]:
    orphans = (
        "SELECT count(*) FROM writes WHERE checkpoint_id NOT IN (SELECT checkpoint_id FROM checkpoints)",
        (
            "SELECT count(*) FROM checkpoints WHERE parent_checkpoint_id IS NOT NULL "
            "AND parent_checkpoint_id NOT IN (SELECT checkpoint_id FROM checkpoints)"
        ),
        "SELECT count(*) - count(DISTINCT task_id || ' ' || idx) FROM turnflow_record",
    )
    with closing(sqlite3.connect(path)) as connection:
        return [query for query in orphans if connection.execute(query).fetchone()[0]]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_turn_killed_at_any_point_goes_on_without_loss(mode: str) -> None:
    with scratch_folder() as folder:
        faults, points = _swept(folder, mode)
    assert not faults
    assert points >= FEWEST_POINTS


def _swept(folder: Path, mode: str) -> tuple[list[str], int]:
    """What went wrong, and at how many points the turn was killed."""
    command = [sys.executable, "-m", "tests.turns.killed", str(folder), mode]
    sweep = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert (sweep.returncode, sweep.stderr) == (0, "")
    points = Log(folder / "0.log").read()[-1][1]
    faults = []
    player = Player()
    with open_saver(folder / "0.sqlite") as saver:
        undisturbed = facts_of(saver)
    with asyncio.Runner() as runner:
        for number in range(1, points + 1):
            faults += Recovery(folder, number, player, runner if mode == "async" else None).check(undisturbed)
    return faults, points
