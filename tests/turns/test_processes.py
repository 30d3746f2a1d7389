"""Turns over several processes: a question answered elsewhere, a process killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.turns.scripted import Start, asks, call, calls, says, script
from turnflow.apps.fake_provider import FakeProvider

ROOT = Path(__file__).parent.parent.parent


class Child:
    """Starts turns in processes of their own, on one file."""

    def __init__(self, folder: Path, provider: FakeProvider) -> None:
        self._folder = folder
        self._provider = provider

    def start(self, *arguments: str, strict: bool = False) -> subprocess.Popen[str]:
        environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true" if strict else "false"}
        db = str(self._folder / "t.sqlite")
        command = [sys.executable, "-m", "tests.turns.child", db, self._provider.base_url, str(self._folder)]
        return subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, strict: bool = False) -> dict[str, Any]:
        process = self.start(*arguments, strict=strict)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert not err
        return dict(json.loads(out))

    def kill_when(self, name: str, *arguments: str) -> None:
        """Start a turn and kill the process once a tool has left its mark."""
        process = self.start(*arguments)
        mark = self._folder / f"{name}.ran"
        deadline = time.monotonic() + 30
        while not mark.exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert mark.exists()

    def marks(self, name: str) -> int:
        return len((self._folder / f"{name}.ran").read_text())


@pytest.mark.parametrize("strict", [False, True])
def test_a_question_is_answered_in_another_process(
    tmp_path: Path, fake_provider: Start, *, strict: bool
) -> None:
    provider = fake_provider(
        script(calls(call("quick", "c1", name="q"), asks("Sure?", call_id="c2")), says("Done."))
    )
    child = Child(tmp_path, provider)
    assert child.run("sync", "Go.", strict=strict)["status"] == "paused"
    done = child.run("answer", "yes", strict=strict)
    assert done == {"status": "finished", "answer": "Done.", "roles": ["human", "ai", "tool", "tool", "ai"]}
    assert child.marks("q") == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_turn_goes_on_where_it_was(tmp_path: Path, fake_provider: Start, mode: str) -> None:
    batch = calls(call("quick", "c1", name="q"), call("slow", "c2", name="s"))
    provider = fake_provider(script(batch, says("Done.")))
    child = Child(tmp_path, provider)
    child.kill_when("s", mode, "Go.")
    assert len(provider.requests) == 1
    done = child.run("continue")
    assert done == {"status": "finished", "answer": "Done.", "roles": ["human", "ai", "tool", "tool", "ai"]}
    assert child.marks("q") == 1
    assert child.marks("s") == 2


def test_new_input_finishes_a_killed_turn_first(tmp_path: Path, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("slow", "c1", name="s")), says("First."), says("Second.")))
    child = Child(tmp_path, provider)
    child.kill_when("s", "sync", "one")
    done = child.run("sync", "two")
    assert done["answer"] == "Second."
    assert done["roles"] == ["human", "ai", "tool", "ai", "human", "ai"]
