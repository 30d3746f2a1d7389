"""Several `turnflow` processes on one file: beside each other, mid-turn, killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.apps.command_line.inside import turnflow
from tests.apps.command_line.test_commands import Shell
from tests.turns.scripted import Start, call, calls, says, script

NAMES = ["one", "two", "three", "four"]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "home")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def listed(db: Path) -> dict[str, tuple[str, int]]:
    """Status and number of messages by thread."""
    code, out, err = turnflow("threads", "--json", "--db", str(db))
    assert (code, err) == (0, "")
    threads = [json.loads(line) for line in out.splitlines()]
    return {thread["thread_id"]: (thread["status"], thread["messages"]) for thread in threads}


def history(thread: str, db: Path) -> list[str]:
    code, out, err = turnflow("history", thread, "--db", str(db))
    assert (code, err) == (0, "")
    return out.splitlines()


def calculates() -> list[dict[str, Any]]:
    """Steps for any number of threads: whoever asks calculates, and is told the result."""
    fits = {"last_role": "user", "last_contains": "sum"}
    tool = {"when": fits, **calls(call("calculate", expression="6 * 7")), "forever": True}
    told = {"when": {"last_role": "tool"}, **says("It is 42."), "forever": True}
    return [tool, told]


def test_chats_that_begin_at_once_on_a_fresh_file_all_get_through(
    shell: Shell, fake_provider: Start, db: Path
) -> None:
    shell.use(fake_provider(script(*calculates())))
    chats = {name: shell.start("chat", "--thread", name, "--db", str(db)) for name in NAMES}
    for name, chat in chats.items():
        assert chat.stdin is not None
        chat.stdin.write("".join(f"sum {number} of {name}\n" for number in range(3)))
        chat.stdin.flush()
    for chat in chats.values():
        _, err = chat.communicate(timeout=60)
        assert (chat.returncode, err) == (0, "")
    assert listed(db) == dict.fromkeys(NAMES, ("finished", 12))
    for name in NAMES:
        turns = [[f"> sum {number} of {name}", "✓ calculate → 42", "It is 42."] for number in range(3)]
        assert history(name, db) == [line for turn in turns for line in turn]


def test_a_process_that_is_killed_mid_turn_disturbs_no_other(
    shell: Shell, fake_provider: Start, db: Path
) -> None:
    hang = {"when": {"last_contains": "hang"}, **says("Never said."), "fault": {"kind": "hang", "after": 0}}
    at_last = {"when": {"last_contains": "hang"}, **says("At last.")}
    again = {"when": {"last_contains": "again"}, **says("Welcome back.")}
    provider = fake_provider(script(*calculates(), {**hang, "times": 2}, at_last, again))
    shell.use(provider)
    file = ("--db", str(db))
    assert shell.run("run", "sum", "--thread", "killed", *file)[0] == 0
    before = len(provider.requests)
    killed, cancelled = (shell.start("run", "hang", "--thread", t, *file) for t in ("killed", "cancelled"))
    provider.wait_for_requests(before + 2, timeout=30)

    bystander = shell.start("chat", "--thread", "bystander", *file)
    assert bystander.stdin is not None
    bystander.stdin.write("sum one\n")
    bystander.stdin.flush()
    running = listed(db)
    assert running["killed"] == ("unfinished", 5)  # the question is stored before the model is asked
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=20)
    cancelled.send_signal(signal.SIGINT)
    assert cancelled.communicate(timeout=20) == ("The turn was cancelled.\n· cancelled (cancelled)\n", "")
    _, err = bystander.communicate("sum two\n", timeout=60)
    assert (bystander.returncode, err) == (0, "")

    after = listed(db)
    assert after["bystander"] == ("finished", 8)
    assert after["cancelled"][0] == "cancelled"
    _, out, _ = shell.run("run", "again", "--thread", "killed", *file)
    assert out.splitlines()[-1] == "Welcome back."
    said = ["> sum", "✓ calculate → 42", "It is 42.", "> hang", "At last.", "> again", "Welcome back."]
    assert history("killed", db) == said


WAITING = '''
import sys
from turnflow import OpenAICompatibleChat, build_turn_graph, open_saver, run_turn

def wait() -> str:
    """Wait for a line."""
    print("waiting", flush=True)
    return sys.stdin.readline()

with open_saver(sys.argv[1]) as saver:
    model = OpenAICompatibleChat(model="fake", base_url=sys.argv[2])
    graph = build_turn_graph(model, [wait], checkpointer=saver)
    print(run_turn(graph, "Wait for it.", thread_id="waiting").answer)
'''


def test_a_thread_that_waits_in_a_tool_is_unfinished(fake_provider: Start, db: Path) -> None:
    provider = fake_provider(script(calls(call("wait", "c1")), says("It came.")))
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(db), provider.base_url],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        assert listed(db) == {"waiting": ("unfinished", 2)}
        assert history("waiting", db) == ["> Wait for it."]
        out, _ = process.communicate("Now.\n", timeout=30)
    assert out == "It came.\n"
    assert listed(db) == {"waiting": ("finished", 4)}
