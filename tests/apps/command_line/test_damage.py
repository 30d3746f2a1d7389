"""Files whose contents cannot be read: one line that names file and thread, and no traceback."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from tests.apps.command_line.inside import turnflow
from turnflow import build_turn_graph, open_saver, run_turn


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A file with the threads `old` and `t`."""
    path = tmp_path / "chats.db"
    with open_saver(path) as saver:
        say(saver, "old", 1)
        say(saver, "t", 3)
    return path


def say(saver: Any, thread: str, turns: int) -> None:
    said = iter([AIMessage(f"Answer {n}.") for n in range(turns)])
    graph = build_turn_graph(
        GenericFakeChatModel(messages=said), checkpointer=saver, memory="window", settings={"ask_user": False}
    )
    for number in range(turns):
        run_turn(graph, f"Question {number}?", thread_id=thread)


def spoil(db: Path, statement: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        assert connection.execute(statement).rowcount > 0


CHECKPOINTS = "UPDATE checkpoints SET checkpoint = x'00ff01' WHERE thread_id = 't'"
RECORD = "UPDATE turnflow_record SET value = x'00ff01' WHERE thread_id = 't'"
KINDS = "UPDATE checkpoints SET type = 'unheard' WHERE thread_id = 't'"


@pytest.mark.parametrize(
    ("statement", "command"),
    [
        *((broken, each) for broken in (CHECKPOINTS, KINDS) for each in ("history", "record", "replay")),
        *((broken, "grants") for broken in (CHECKPOINTS, KINDS)),
        (RECORD, "record"),
        (RECORD, "replay"),
    ],
)
def test_damage_is_one_line_that_names_file_and_thread(db: Path, statement: str, command: str) -> None:
    spoil(db, statement)
    code, out, complaint = turnflow(command, "t", "--db", str(db))
    assert (code, out) == (1, "")
    (line,) = complaint.splitlines()
    assert line.startswith(f"turnflow: {db}: thread 't' is damaged: ")
    assert turnflow(command, "old", "--db", str(db))[::2] == (0, "")


@pytest.mark.parametrize("statement", [CHECKPOINTS, KINDS])
def test_a_damaged_thread_hides_no_other(db: Path, statement: str) -> None:
    spoil(db, statement)
    code, out, complaint = turnflow("threads", "--db", str(db))
    assert code == 1
    assert [line.split()[0] for line in out.splitlines()] == ["old"]
    assert complaint.startswith(f"turnflow: {db}: thread 't' is damaged: ")


def test_a_history_tells_what_is_missing(db: Path) -> None:
    with open_saver(db) as saver:
        say(saver, "long", 40)
    assert turnflow("history", "long", "--db", str(db))[::2] == (0, "")
    spoil(db, "DELETE FROM turnflow_archive WHERE thread_id = 'long' AND position IN (9, 10)")
    code, out, complaint = turnflow("history", "long", "--db", str(db))
    assert code == 1
    assert "Answer 39." in out
    assert "Answer 9." not in out
    assert out.count("> Question") == 38
    assert complaint == f"turnflow: {db}: thread 'long': 2 turns are missing from the archive\n"
    assert turnflow("history", "long", "--last", "3", "--db", str(db))[::2] == (0, "")


def test_a_file_with_broken_pages_is_named(db: Path) -> None:
    with closing(sqlite3.connect(db)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'turnflow_archive'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(db.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    db.write_bytes(content)
    code, _, complaint = turnflow("gc", "--older-than", "0", "--db", str(db))
    assert code == 1
    (line,) = complaint.splitlines()
    assert line.startswith(f"turnflow: {db}: the file is damaged: DatabaseError: ")
