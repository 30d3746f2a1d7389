"""`turnflow grants`: what was allowed for good in a thread, listed and taken back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.apps.command_line.inside import turnflow
from tests.turns.scripted import Start, asks, call, calls, says, script

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sale (item TEXT)")
    return path


def sold(shop: Path) -> list[str]:
    with closing(sqlite3.connect(shop)) as connection:
        return [item for (item,) in connection.execute("SELECT item FROM sale")]


def sells(item: str, call_id: str) -> dict[str, Any]:
    return calls(call("sqlite_query", call_id, sql=f"INSERT INTO sale VALUES ('{item}')"))  # noqa: S608


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shop: Path, fake_provider: Start) -> Run:
    """Runs `turnflow` on a thread in which writing was granted, and that wants to write again later."""
    steps = [sells("nail", "c1"), says("Sold."), sells("bolt", "c2"), says("Sold too."), calls(asks("Why?"))]
    provider = fake_provider(script(*steps, says("So.")))
    provider.allow("steps_left")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    monkeypatch.setenv("TURNFLOW_MODEL", "fake")
    db = ("--db", str(tmp_path / "threads.db"))

    def run(command: str, *arguments: str, given: str = "") -> tuple[int, str, str]:
        database = () if command == "grants" else ("--sqlite-write", str(shop))
        return turnflow(command, *arguments, *database, *db, given=given)

    assert run("run", "Sell a nail.", "--thread", "t")[0] == 0
    assert run("run", "--thread", "t", "--answer", "approve session")[1].splitlines()[-1] == "Sold."
    return run


def test_a_grant_is_listed_and_holds(run: Run, shop: Path) -> None:
    assert run("grants", "t") == (0, "sqlite_query\n", "")
    line = json.loads(run("grants", "t", "--json")[1])
    assert line["tool"] == "sqlite_query"
    assert line["turn_id"].startswith("turn-")
    assert run("run", "Sell a bolt.", "--thread", "t")[1].splitlines()[-1] == "Sold too."
    assert sold(shop) == ["nail", "bolt"]


def test_what_was_granted_is_taken_back(run: Run, shop: Path) -> None:
    assert run("grants", "t", "--revoke", "sqlite_query") == (0, "", "")
    assert run("grants", "t") == (0, "", "")
    _, out, _ = run("run", "Sell a bolt.", "--thread", "t")
    assert "May this be done?" in out
    assert sold(shop) == ["nail"]
    assert run("run", "--thread", "t", "--answer", "approve")[1].splitlines()[-1] == "Sold too."
    assert sold(shop) == ["nail", "bolt"]


def test_an_open_question_outlives_an_attempt_to_take_back(run: Run) -> None:
    run("run", "Sell a bolt.", "--thread", "t")
    run("run", "Ask me.", "--thread", "t")
    code, out, err = run("grants", "t", "--revoke", "sqlite_query")
    assert (code, out) == (2, "")
    assert err == "turnflow: a question is open in this thread; answer it first, then take the grant back\n"
    assert run("grants", "t")[1] == "sqlite_query\n"
    assert run("run", "--thread", "t", "--answer", "so")[1].splitlines()[-1] == "So."
    assert run("grants", "t", "--revoke", "sqlite_query") == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("t", "--revoke", "delete"), "delete has no grant in this thread; granted is: sqlite_query"),
        (("t", "--revoke", "sqlite_query", "--revoke", "x\x1b[2J"), r"x\x1b[2J has no grant"),
        (("nowhere",), "there is no thread 'nowhere'"),
        (("nowhere", "--revoke", "x"), "there is no thread 'nowhere'"),
        ((" ",), "id is empty"),
    ],
)
def test_what_cannot_be_taken_back_is_one_line(run: Run, arguments: tuple[str, ...], complaint: str) -> None:
    code, out, err = run("grants", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert complaint in err
    assert run("grants", "t")[1] == "sqlite_query\n"
