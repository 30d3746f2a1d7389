"""Processes that are killed while they archive a turn or prune old ones: at each statement that writes."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.graph.saver_chat import thread
from tests.graph.saver_turns import WINDOW, build_turns, said
from tests.graph.test_archive import fill, found
from tests.turns.killed import fork, scratch_folder
from turnflow.graph.archive import Scope
from turnflow.graph.saver import TurnSaver, open_saver

HERE = Scope("t", "")
TURNS = 5
KEPT: dict[str, Any] = {"keep_turns": 2, "full_turns": 1}

SLACK = 8
"""Statements by which two runs of the same turn differ, at most."""


def conversation(saver: TurnSaver, first: int, number: int) -> None:
    """Turns that are archived when they are over, each before the next one begins."""
    graph = build_turns(saver, rounds=1)
    infos = saver.conn.execute("SELECT key FROM turnflow_archive ORDER BY position").fetchall()
    keys = [row[0] for row in infos]
    for count in range(first, first + number):
        graph.invoke(said(str(count)), thread("t"), durability="sync")
        keys += fill(saver, [str(count)], keys[-1] if keys else "", count)


class Statements:
    """Counts the statements of a connection that change something, and dies before one of them."""

    def __init__(self, saver: TurnSaver, number: int) -> None:
        self.count = 0
        self._number = number
        saver.conn.set_trace_callback(self._reach)

    def _reach(self, statement: str) -> None:
        if statement.startswith(("SELECT", "BEGIN", "WITH")):
            return
        self.count += 1
        if self.count == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


def end_in(path: Path, number: int) -> None:
    last_turn(path, number)


def last_turn(path: Path, number: int) -> int:
    with open_saver(path, **KEPT) as saver:
        statements = Statements(saver, number)
        conversation(saver, TURNS, 1)
        return statements.count


def copy_of(path: Path, target: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as other:
        source.backup(other)


def check_and_go_on(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        known = {row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints")}
        assert {row[0] for row in connection.execute("SELECT checkpoint_id FROM writes")} <= known
        parents = {row[0] for row in connection.execute("SELECT parent_checkpoint_id FROM checkpoints")}
        assert parents <= {None, *known}
        keys = Counter(row[0] for row in connection.execute("SELECT turn_id FROM turnflow_archive"))
    assert set(keys.values()) == {1}
    assert set(keys) >= {str(number) for number in range(TURNS)}
    with open_saver(path, **KEPT) as saver:
        graph: Any = build_turns(saver, rounds=1)
        for state in graph.get_state_history(thread("t")):
            messages = state.values["messages"]
            assert len([m for m in messages if m.type == "human"]) in {WINDOW, WINDOW + 1}
        state = graph.get_state(thread("t"))
        if state.next:
            graph.invoke(None, thread("t"), durability="sync")
        users = [m.id for m in graph.get_state(thread("t")).values["messages"] if m.type == "human"]
        assert users[-1] in {str(TURNS - 1), str(TURNS)}
        key = saver.conn.execute("SELECT key FROM turnflow_archive ORDER BY position DESC").fetchone()[0]
        assert found(saver, key, "about") == list(range(len(keys)))[::-1]
        conversation(saver, TURNS + 1, 3)
        turns = saver.conn.execute("SELECT turn_id FROM turnflow_turns ORDER BY step").fetchall()
        assert [row[0] for row in turns] == [f"turn-{TURNS + 2}", f"turn-{TURNS + 3}"]
        saver.conn.execute("INSERT INTO turnflow_words (turnflow_words) VALUES ('integrity-check')")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_process_that_dies_at_any_statement_loses_and_doubles_nothing() -> None:
    with scratch_folder() as folder:
        with open_saver(folder / "whole.db", **KEPT) as saver:
            conversation(saver, 0, TURNS)
        copy_of(folder / "whole.db", folder / "counted.db")
        points = last_turn(folder / "counted.db", 0)
        assert points > 40
        for number in range(1, points + 1):
            path = folder / f"{number}.db"
            copy_of(folder / "whole.db", path)
            child = fork(partial(end_in, path, number))
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            # LangGraph hands over writes from threads of its own: there may be some statements less.
            assert ended == -signal.SIGKILL or (ended == 0 and number > points - SLACK)
            check_and_go_on(path)
