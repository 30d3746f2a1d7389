"""How files and threads are named at the command line, and how they are listed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.apps.command_line.inside import turnflow
from tests.apps.command_line.test_commands import Shell
from tests.turns.scripted import Start, asks, calls, says, script


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TURNFLOW_MODEL", "fake")
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "home"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "my chats.db"


# Files


@pytest.mark.parametrize(
    "command", [["threads"], ["history", "t"], ["run", "hi", "--last"], ["chat", "--last"]], ids=" ".join
)
def test_a_mistyped_file_is_not_made(db: Path, command: list[str]) -> None:
    assert turnflow(*command, "--db", str(db)) == (2, "", f"turnflow: there is no file {db}\n")
    assert not db.exists()


def test_an_empty_file_has_no_threads(db: Path) -> None:
    db.touch()
    assert turnflow("threads", "--db", str(db)) == (0, "", "")
    assert turnflow("threads") == (0, "", "")


@pytest.mark.parametrize("command", [["threads"], ["history", "t"]], ids=" ".join)
def test_a_file_that_is_no_database_is_left_alone(db: Path, command: list[str]) -> None:
    text = "Dear diary, " * 100
    db.write_text(text)
    code, out, err = turnflow(*command, "--db", str(db))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is not an SQLite database" in err
    assert db.read_text() == text


# Threads


@pytest.mark.parametrize(
    "command",
    [["run", "hi", "--thread"], ["run", "--answer", "x", "--thread"], ["chat", "--thread"], ["history"]],
)
@pytest.mark.parametrize(
    ("thread", "complaint"), [("", "id is empty"), (" ", "id is empty"), ("\udcff", "id is not UTF-8 text")]
)
def test_an_id_that_is_none_is_refused(command: list[str], thread: str, complaint: str) -> None:
    assert turnflow(*command, thread) == (2, "", f"turnflow: the thread's {complaint}\n")
    assert turnflow("threads") == (0, "", "")


@pytest.mark.parametrize(
    ("thread", "shown"),
    [
        ("two words", "two words"),
        ("[/bold]", "[/bold]"),
        ("日本語", "日本語"),
        ("-dash", "-dash"),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b[31mred", r"'\x1b[31mred'"),
    ],
)
def test_an_odd_id_is_shown_on_a_line(fake_provider: Start, db: Path, thread: str, shown: str) -> None:
    provider = fake_provider(script(says("Hi.")))
    model = ("--base-url", provider.base_url)
    file = ("--db", str(db))
    assert turnflow("run", "Hello.", "--thread", thread, *model, *file) == (0, "Hi.\n", "")
    (line,) = turnflow("threads", *file)[1].splitlines()
    assert line.startswith(f"{shown}  2")
    assert turnflow("history", *file, "--", thread) == (0, "> Hello.\nHi.\n", "")
    assert json.loads(turnflow("threads", "--json", *file)[1])["thread_id"] == thread


def test_what_is_printed_to_go_on_can_be_pasted(fake_provider: Start, db: Path) -> None:
    provider = fake_provider(script(calls(asks("Sure?")), says("Done."), calls(asks("Sure?"))))
    options = ("--base-url", provider.base_url, "--db", str(db))
    _, out, _ = turnflow("run", "Go.", "--thread", "[a] b", *options)
    assert out == f"? Sure?\nAnswer with: turnflow run --thread '[a] b' --db '{db}' --answer …\n"
    _, out, _ = turnflow("run", "--last", "--answer", "yes", *options)
    assert out.splitlines()[-1] == "Done."
    _, out, _ = turnflow("chat", "--last", *options, given="Go.\n")
    assert "left unanswered" in out
    assert out.splitlines()[-1] == f"Go on with: turnflow chat --thread '[a] b' --db '{db}'"


# Lists


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_is_a_number_from_one(limit: str) -> None:
    code, out, err = turnflow("threads", "--limit", limit)
    assert (code, out) == (2, "")
    assert "--limit" in err


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_leaves_early_is_no_error(home: Path, fake_provider: Start, options: list[str]) -> None:
    shell = Shell(home)
    shell.use(fake_provider(script({**says("Long. " * 40_000), "stream": {"chunk": "whole"}})))
    shell.run("run", "Tell me.", "--thread", "t")
    with shell.start("history", "t", *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == ""


READING = [["threads"], ["history", "t"], ["record", "t"], ["replay", "t"], ["gc"], ["grants", "t"]]


@pytest.mark.parametrize("command", [*READING, ["run", "hi", "--last"]], ids=" ".join)
def test_another_programs_database_gets_no_tables(db: Path, command: list[str]) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("CREATE TABLE orders (x)")
        connection.execute("INSERT INTO orders VALUES (1)")
    before = hashlib.sha256(db.read_bytes()).hexdigest()
    code, out, complaint = turnflow(*command, "--db", str(db))
    assert (code, out, complaint) == (2, "", f"turnflow: {db} keeps no threads of turnflow\n")
    assert hashlib.sha256(db.read_bytes()).hexdigest() == before
    assert [file.name for file in db.parent.glob(f"{db.name}*")] == [db.name]
