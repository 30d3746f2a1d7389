"""What a thread asks when a command comes to it: shown, asked, and never lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.apps.command_line.inside import turnflow
from tests.turns.scripted import Start, asks, call, calls, says, script

Run = Callable[..., tuple[int, str, str]]

SQL = "INSERT INTO sale VALUES ('nail')"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("TURNFLOW_MODEL", "fake")
    monkeypatch.setenv("TURNFLOW_HOME", str(tmp_path / "home"))
    return turnflow


def database(folder: Path, name: str) -> Path:
    path = folder / name
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sale (item TEXT)")
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return database(tmp_path, "shop.db")


def sold(shop: Path) -> list[str]:
    with closing(sqlite3.connect(shop)) as connection:
        return [item for (item,) in connection.execute("SELECT item FROM sale")]


@pytest.fixture
def waiting(run: Run, shop: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread `t`, in which a statement waits for approval."""
    sells = calls(call("sqlite_query", sql=SQL))
    provider = fake_provider(script(sells, says("Sold."), says("Hello.")))
    provider.allow("steps_left")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    code, out, _ = run("run", "Sell a nail.", "--thread", "t", "--sqlite-write", str(shop))
    assert code == 0
    assert "The database is shop.db." in out
    assert SQL in out
    assert sold(shop) == []


@pytest.mark.usefixtures("waiting")
def test_a_statement_that_writes_runs_once_it_is_approved(run: Run, shop: Path) -> None:
    code, out, _ = run("run", "--thread", "t", "--sqlite-write", str(shop), "--answer", "approve")
    assert (code, out.splitlines()[-1], sold(shop)) == (0, "Sold.", ["nail"])


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("answer", ["approve", "approve session", '{"decisions": [{"type": "approve"}]}'])
def test_an_approval_is_not_used_up_by_a_command_without_the_tool(
    run: Run, shop: Path, tmp_path: Path, answer: str
) -> None:
    without = ("run", "--thread", "t", "--answer", answer)
    other = str(database(tmp_path, "other.db"))
    for options in ((), ("--sqlite", str(shop)), ("--sqlite-write", other)):
        code, out, err = run(*without, *options)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "does not offer sqlite_query as it was" in err
    assert sold(Path(other)) == []
    listed = [json.loads(line) for line in run("threads", "--json")[1].splitlines()]
    assert [thread["status"] for thread in listed] == ["paused"]
    assert run(*without, "--sqlite-write", str(shop))[1].splitlines()[-1] == "Sold."
    assert sold(shop) == ["nail"]


@pytest.mark.usefixtures("waiting")
def test_a_command_without_the_tool_can_reject(run: Run, shop: Path) -> None:
    code, out, _ = run("run", "--thread", "t", "--answer", "reject: no more nails")
    assert (code, out.splitlines()[-1], sold(shop)) == (0, "Sold.", [])


@pytest.mark.usefixtures("waiting")
def test_a_chat_begins_with_what_is_open(run: Run, shop: Path) -> None:
    chat = ("chat", "--thread", "t", "--sqlite-write", str(shop))
    code, out, _ = run(*chat, given="y\nHi.\n")
    assert (code, sold(shop)) == (0, ["nail"])
    assert out.index(SQL) < out.index("Sold.") < out.index("Hello.")


@pytest.mark.usefixtures("waiting")
def test_a_chat_that_is_left_at_once_leaves_it_open(run: Run, shop: Path) -> None:
    code, out, _ = run("chat", "--thread", "t", given="")
    assert code == 0
    assert "left unanswered: it stays open" in out
    _, out, _ = run("chat", "--thread", "t", given="y\n")
    assert "does not offer sqlite_query as it was" in out
    _, out, _ = run("run", "--thread", "t", "--sqlite-write", str(shop), "--answer", "approve")
    assert (out.splitlines()[-1], sold(shop)) == ("Sold.", ["nail"])


def test_a_chat_begins_with_the_models_question(
    run: Run, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = fake_provider(script(calls(asks("Which colour?")), says("Blue it is.")))
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    run("run", "Paint it.", "--thread", "t")
    code, out, _ = run("chat", "--last", given="blue\n")
    assert code == 0
    assert out.index("? Which colour?") < out.index("Blue it is.")


def test_a_new_chat_asks_nothing(run: Run, fake_provider: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", fake_provider(script()).base_url)
    assert run("chat", "--thread", "new", given="") == (0, "\n", "")
