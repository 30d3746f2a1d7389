"""Ctrl-C in `turnflow run` and `turnflow chat`, wherever the turn is."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.apps.command_line.test_commands import Shell
from tests.turns.scripted import Start, call, calls, says, script

SOON = 10.0
"""Seconds in which a process ends here; what it waits for would take 30."""

SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1e12) SELECT max(i) FROM n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "home")


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "data.sqlite"
    sqlite3.connect(path).close()
    return str(path)


def hangs(after: int | str) -> dict[str, Any]:
    reply = {"content": ["The answer ", "is"]}
    return {"reply": reply, "fault": {"kind": "hang", "after": after}}


FIRST_TOKEN = (hangs("headers"), "The turn was cancelled.")
TEXT = (hangs(1), "The answer ")
RETRY = (
    {"error": {"status": 503, "message": "busy", "headers": {"Retry-After": "30"}}},
    "The turn was cancelled.",
)
TOOL = (calls(call("sqlite_query", sql=SLOW)), "The turn was cancelled.")


def ends_soon(process: subprocess.Popen[str], given: str | None = None) -> tuple[str, str]:
    at = time.monotonic()
    out, err = process.communicate(given, timeout=60)
    assert time.monotonic() - at < SOON
    assert "Traceback" not in err
    return out, err


@pytest.mark.parametrize(
    ("step", "left"), [FIRST_TOKEN, TEXT, RETRY, TOOL], ids=["first token", "text", "retry", "tool"]
)
def test_run_settles_and_prints_what_came(
    shell: Shell, fake_provider: Start, database: str, step: dict[str, Any], left: str
) -> None:
    provider = fake_provider(script(step, says("Hello again.")))
    shell.use(provider)
    process = shell.start("run", "Go.", "--thread", "t", "--sqlite", database)
    provider.wait_for_requests(1, timeout=30)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = ends_soon(process)
    assert (process.returncode, err) == (1, "")
    assert out.splitlines()[-2:] == [left, "· cancelled (cancelled)"]
    code, out, _ = shell.run("run", "Again.", "--thread", "t", "--sqlite", database)
    assert (code, out) == (0, "Hello again.\n")


@pytest.mark.parametrize(
    ("step", "left"), [FIRST_TOKEN, TEXT, RETRY, TOOL], ids=["first token", "text", "retry", "tool"]
)
def test_chat_goes_on_with_the_next_message(
    shell: Shell, fake_provider: Start, database: str, step: dict[str, Any], left: str
) -> None:
    provider = fake_provider(script(step, says("Hello again.")))
    shell.use(provider)
    process = shell.start("chat", "--thread", "t", "--sqlite", database)
    assert process.stdin is not None
    process.stdin.write("Go.\n")
    process.stdin.flush()
    provider.wait_for_requests(1, timeout=30)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = ends_soon(process, "Again.\n/quit\n")
    assert (process.returncode, err) == (0, "")
    assert left in out
    assert "· cancelled (cancelled)" in out
    assert "Hello again." in out
    assert "Go." in str(provider.requests[-1]["messages"])


@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_a_second_one_ends_the_command(shell: Shell, fake_provider: Start, pause: float) -> None:
    """It may come when the turn has settled already, or in the middle of that."""
    provider = fake_provider(script(TEXT[0], says("Hello again.")))
    shell.use(provider)
    process = shell.start("run", "Go.", "--thread", "t")
    provider.wait_for_requests(1, timeout=30)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    ends_soon(process)
    # Of the signal itself where it was on its way out already.
    assert process.returncode in {1, 130, -signal.SIGINT}
    code, out, _ = shell.run("run", "Again.", "--thread", "t")
    assert (code, out) == (0, "Hello again.\n")
