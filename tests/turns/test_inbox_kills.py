"""A process that is killed at any point loses nothing that was put into its inbox, and doubles nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from tests.turns.inbox_killed import CASES, CONFIG, GOAL, ITEMS, THREAD, InboxPlayer, numbers_of
from tests.turns.killed import Log, scratch_folder
from tests.turns.stage import check_transcript
from turnflow import full_history, open_saver

ROOT = Path(__file__).parent.parent.parent

FEWEST_POINTS = 100
"""A floor for what a sweep comes to; fewer would mean that it misses the saver."""


def items_of(messages: Sequence[Any]) -> list[str]:
    return [str(message.id) for message in messages if isinstance(message, HumanMessage)]


def said_in(player: InboxPlayer) -> list[Any]:
    """All that the thread holds."""
    snapshot = player.graph.get_state(CONFIG, subgraphs=True)
    if snapshot.created_at is None:
        return []
    messages = list(snapshot.values.get("messages", ()))
    given = snapshot.values.get("__start__") or {}
    for task in snapshot.tasks:
        if task.state is not None and not isinstance(task.state, dict):
            known = {message.id for message in messages}
            inner = task.state.values.get("messages", ())
            messages += [m for m in inner if m.id not in known and "@" not in str(m.id)]
    return [
        *(messages if player.is_embedded else full_history(player.graph, THREAD)),
        *given.get("messages", ()),
    ]


def faults_of(player: InboxPlayer, folder: Path, number: int, runner: asyncio.Runner | None) -> list[str]:
    """What went wrong with the turns that were killed at one point."""
    log = Log(folder / f"{number}.log")
    before = log.read()
    # What runs in threads of the saver is not the same number of points each time.
    point = next((event[1] for event in before if event[0] == "killed"), "the end")
    put = {event[1] for event in before if event[0] == "put"}
    faults = []
    with open_saver(folder / f"{number}.sqlite") as saver:
        player.open(saver, log)
        waiting = [message.id for message in player.inbox.pending()]
        held = items_of(said_in(player))
        if lost := put - {*waiting, *held}:
            faults.append(f"{lost} are neither in the inbox {waiting} nor in the thread {held}")
        if len(held) != len(set(held)):
            faults.append(f"the thread holds {held}")
        if not put and not waiting and not held:
            player.inbox.put("Go.", id="go")
        player.drain(runner)
        messages = said_in(player)
        check_transcript(messages)
        if items_of(messages) != list(ITEMS) or player.inbox.pending():
            faults.append(f"in the end the thread holds {items_of(messages)}, the inbox {len(player.inbox)}")
        if messages[-1].content != GOAL:
            faults.append(f"ended with {messages[-1].content!r}")
    return [f"{number} {point}: {fault}" for fault in faults]


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_or_taken_twice(case: str) -> None:
    player = InboxPlayer(case)
    faults: list[str] = []
    with scratch_folder() as folder, asyncio.Runner() as runner:
        command = [sys.executable, "-m", "tests.turns.inbox_killed", str(folder), case]
        sweep = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
        assert (sweep.returncode, sweep.stderr) == (0, "")
        points = Log(folder / "0.log").read()[-1][1]
        for number in numbers_of(case, points):
            faults += faults_of(player, folder, number, runner if player.is_async else None)
    assert not faults
    assert points >= FEWEST_POINTS
