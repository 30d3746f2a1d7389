"""The command as a user runs it, in a process of its own, against the fake provider."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.turns.scripted import Start, asks, call, calls, says, script
from turnflow.apps.fake_provider import FakeProvider

COMMAND = [sys.executable, "-c", "from turnflow.apps.command_line.entry import main; main()"]


class Shell:
    """Runs the command with a home of its own."""

    def __init__(self, home: Path) -> None:
        self._environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("OPENAI_", "TURNFLOW_"))
            },
            "TURNFLOW_HOME": str(home),
            "COLUMNS": "200",
        }

    def use(self, provider: FakeProvider) -> None:
        self._environment |= {"OPENAI_BASE_URL": provider.base_url, "TURNFLOW_MODEL": "fake"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            env=self._environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(given, timeout=60)
        assert "Traceback" not in err
        return process.returncode, out, err


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "home")


def test_run_prints_the_tool_row_and_the_answer(shell: Shell, fake_provider: Start) -> None:
    shell.use(
        fake_provider(
            script(calls(call("calculate", expression="6 * 7"), content="Let me see."), says("It is 42."))
        )
    )
    code, out, err = shell.run("run", "What is 6 * 7?")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Let me see."
    assert lines[1].startswith("✓ calculate(expression=6 * 7) → 42  (")
    assert lines[2] == "It is 42."


def test_run_as_json(shell: Shell, fake_provider: Start) -> None:
    shell.use(fake_provider(script(says("It is 42."))))
    code, out, _ = shell.run("run", "Go.", "--json")
    result: dict[str, Any] = json.loads(out)
    assert code == 0
    assert (result["answer"], result["outcome"]["status"], result["interrupts"]) == (
        "It is 42.",
        "finished",
        [],
    )


def test_a_question_is_answered_by_a_later_command(shell: Shell, fake_provider: Start) -> None:
    shell.use(
        fake_provider(script(calls(asks("Which colour?", options=["red", "blue"])), says("Blue it is.")))
    )
    code, out, _ = shell.run("run", "Paint it.", "--json")
    paused = json.loads(out)
    assert (code, paused["outcome"]["status"]) == (0, "paused")
    code, out, _ = shell.run("run", "--thread", paused["thread_id"], "--answer", "blue")
    assert (code, out.splitlines()[-1]) == (0, "Blue it is.")
    code, _, err = shell.run("run", "--thread", paused["thread_id"], "--answer", "blue")
    assert (code, err.count("\n")) == (2, 1)
    assert "no question is open" in err


def test_a_failed_turn_is_one_line_and_exit_code_1(shell: Shell, fake_provider: Start) -> None:
    shell.use(fake_provider("authentication_refused"))
    code, _, err = shell.run("run", "Go.")
    assert (code, err.count("\n")) == (1, 1)
    assert "Incorrect API key" in err


def test_a_failed_turn_is_json_where_json_is_wanted(shell: Shell, fake_provider: Start) -> None:
    shell.use(fake_provider("authentication_refused"))
    code, out, err = shell.run("run", "Go.", "--json")
    failed = json.loads(out)
    assert (code, err) == (1, "")
    assert failed["outcome"]["error"]["status_code"] == 401
    assert failed["thread_id"]


def test_an_empty_end_is_exit_code_1(shell: Shell, fake_provider: Start) -> None:
    shell.use(fake_provider("forced_finish_empty"))
    code, out, _ = shell.run("run", "Go.")
    assert code == 1
    assert "could not come up with an answer" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run"], "give either a message or --answer"),
        (["run", "hi", "--answer", "x"], "give either a message or --answer"),
        (["run", "--answer", "x"], "--answer needs --thread or --last"),
        (["run", "hi", "--last"], "there is no thread yet"),
        (["run", "hi", "--last", "--thread", "t"], "give either --thread or --last"),
        (["history", "nowhere"], "there is no thread 'nowhere'"),
        (["run", "hi", "--max-rounds", "0"], "max_rounds"),
        (["run", "hi", "--language", "fr"], "locale"),
        (["run", " "], "the message is empty"),
        (["run", "hi", "--db", "/dev/null/x"], "/dev/null"),
        (["run", "hi", "--root", "/does/not/exist"], "/does/not/exist"),
        (["run", "hi", "--sqlite", "/does/not/exist.db"], "/does/not/exist.db"),
        (["run", "hi", "--sqlite-write", "/does/not/exist.db"], "/does/not/exist.db"),
        (["run", "hi", "--sqlite", "a", "--sqlite-write", "a"], "either --sqlite or --sqlite-write"),
        (["fake-provider", "/does/not/exist.yaml"], "/does/not/exist.yaml"),
        (["fake-provider", ""], "turnflow: the name of the script is empty; give a file"),
        (["fake-provider", "."], "turnflow: . is a folder; give a script's file"),
        (["fake-provider", "mistral", "--port", "99999"], "less than or equal to 65535"),
        (["fake-provider", "mistral", "--port", "-1"], "greater than or equal to 0"),
        (
            ["fake-provider", "mistral", "--host", "192.0.2.1"],
            "Cannot assign requested address; give another --host",
        ),
        (["fake-provider", "mistral", "--host", "a b"], "cannot listen on a b:8321: "),
        (["fake-provider", "mistral", "--host", "a b"], "; give another --host\n"),
        (["run", "hi", "--no-such-option"], "no-such-option"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use_is_exit_code_2(
    shell: Shell, fake_provider: Start, arguments: list[str], complaint: str
) -> None:
    shell.use(fake_provider(script()))
    code, _, err = shell.run(*arguments)
    assert code == 2
    assert complaint in err


def test_chat_goes_on_until_the_end_of_input(shell: Shell, fake_provider: Start) -> None:
    failure = {"error": {"status": 400, "message": "no such model"}}
    shell.use(fake_provider(script(says("One."), failure, calls(asks("A?", "B?")), says("Two."))))
    code, out, _ = shell.run("chat", given="first\n\nsecond\nthird\na\nb\n/quit\n")
    assert code == 0
    assert "One." in out
    assert "no such model" in out
    assert "? A?" in out
    assert "Two." in out
    assert "Go on with: turnflow chat --thread" in out


def test_the_toy_model_takes_no_further_tools(shell: Shell, tmp_path: Path) -> None:
    code, _, err = shell.run("run", "hi", "--local", "--root", str(tmp_path))
    assert code == 2
    assert "--root, --sqlite and --sqlite-write need a real model" in err


def test_ctrl_c_cancels_the_turn_and_keeps_the_thread(shell: Shell, fake_provider: Start) -> None:
    hang = {"reply": {"content": ["The answer ", "is"]}, "fault": {"kind": "hang", "after": 1}}
    provider = fake_provider(script(hang, says("Hello again.")))
    shell.use(provider)
    process = shell.start("run", "Go.", "--thread", "t")
    provider.wait_for_requests(1, timeout=30)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (1, "")
    assert out.splitlines() == ["The answer ", "· cancelled (cancelled)"]
    code, out, _ = shell.run("run", "Again.", "--thread", "t")
    assert (code, out) == (0, "Hello again.\n")


def test_model_output_cannot_drive_the_terminal(shell: Shell, fake_provider: Start) -> None:
    shell.use(fake_provider(script(says("\x1b]0;evil\x07\x1b[2Jplain [red]text[/red]\u202e"))))
    _, out, _ = shell.run("run", "Go.")
    assert out == "]0;evil[2Jplain [red]text[/red]\n"


_HOSTILE = "no \x1b]0;evil\x07\x1b[2J\x9b31m\u202e such model"


@pytest.mark.parametrize("command", [("run", "Go."), ("chat",)], ids=["run", "chat"])
def test_a_providers_error_cannot_drive_the_terminal(
    shell: Shell, fake_provider: Start, command: tuple[str, ...]
) -> None:
    shell.use(fake_provider(script({"error": {"status": 400, "message": _HOSTILE}})))
    _, out, err = shell.run(*command, given="Go.\n")
    assert "no ]0;evil[2J31m such model" in out + err
    assert not set("\x1b\x07\x9b\u202e") & set(out + err)


def test_a_warning_cannot_drive_the_terminal(shell: Shell, fake_provider: Start) -> None:
    """The turn that a killed process left behind fails: a line of the log quotes the provider."""
    hang = {**says("Never."), "fault": {"kind": "hang", "after": 0}}
    failure = {"error": {"status": 400, "message": _HOSTILE}}
    provider = fake_provider(script(hang, failure, says("Hello.")))
    shell.use(provider)
    process = shell.start("run", "Go.", "--thread", "t")
    provider.wait_for_requests(1, timeout=30)
    process.kill()
    process.communicate(timeout=20)
    code, out, err = shell.run("run", "Again.", "--thread", "t")
    assert (code, out.splitlines()[-1]) == (0, "Hello.")
    assert "no ]0;evil[2J31m such model" in err
    assert not set("\x1b\x07\x9b\u202e") & set(err)


def test_json_drives_no_terminal_either(shell: Shell, fake_provider: Start) -> None:
    said = "a\x1b[2J\x7f\x9b31m\u202e\U000e0041 é 你好 🙂"
    shell.use(fake_provider(script(says(said))))
    _, out, _ = shell.run("run", said, "--thread", "t", "--json")
    _, history, _ = shell.run("history", "t", "--json")
    _, threads, _ = shell.run("threads", "--json")
    for printed in (out, history, threads):
        assert not set("\x1b\x7f\x9b\u202e\U000e0041") & set(printed)
    assert json.loads(out)["answer"] == said
    assert "é 你好 🙂" in out
    assert [json.loads(line)["text"] for line in history.splitlines()] == [said, said]
    assert json.loads(threads)["last_user_message"] == said


def test_fake_provider_command(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text("steps:\n  - reply: {content: Hi.}\n")
    process = shell.start("fake-provider", str(file), "--port", "0")
    assert process.stdout is not None
    base_url = process.stdout.readline().split()[2]
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    reply = httpx.post(f"{base_url}/chat/completions", json=request).json()
    assert reply["choices"][0]["message"]["content"] == "Hi."
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")


def test_help_and_version(shell: Shell) -> None:
    for arguments in ([], ["run", "--help"], ["chat", "--help"], ["fake-provider", "--help"]):
        code, out, _ = shell.run(*arguments)
        assert code in {0, 2}
        assert "Usage" in out
    code, out, _ = shell.run("--version")
    assert (code, out) == (0, "0.1.0\n")


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['typer'] = None; from turnflow.apps.command_line.entry import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "turnflow: the command needs the package 'typer': pip install 'turnflow[cli]'\n"


def test_threads_are_listed_and_gone_on_with(shell: Shell, fake_provider: Start) -> None:
    first = [calls(call("calculate", "c1", expression="6 * 7")), says("It is 42.")]
    shell.use(fake_provider(script(*first, calls(asks("Which colour?")), says("Blue it is."))))
    shell.run("run", "What is 6 * 7?", "--thread", "sums")
    shell.run("run", "Paint it.", "--thread", "paint")
    code, out, _ = shell.run("threads", "--json")
    listed = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(t["thread_id"], t["status"], t["messages"]) for t in listed] == [
        ("paint", "paused", 2),
        ("sums", "finished", 4),
    ]
    _, out, _ = shell.run("run", "--last", "--answer", "blue")
    assert out.splitlines()[-1] == "Blue it is."
    _, out, _ = shell.run("threads", "--limit", "1")
    assert out.startswith("paint  2")
    assert out.endswith("finished           Paint it.\n")
    _, out, _ = shell.run("history", "sums")
    assert out.splitlines() == ["> What is 6 * 7?", "✓ calculate → 42", "It is 42."]
    _, out, _ = shell.run("history", "sums", "--json")
    assert [json.loads(line)["role"] for line in out.splitlines()] == ["human", "ai", "tool", "ai"]


def test_a_behaviour_and_a_protocol(shell: Shell, fake_provider: Start, tmp_path: Path) -> None:
    shell.use(fake_provider(script(says("``THINK``\nHm."), says("``FINISH``\nIt is 42."))))
    code, out, err = shell.run("run", "Go.", "--behaviour", "solve")
    assert (code, out, err) == (0, "Hm.\nIt is 42.\n", "")
    decision = '{"thought": "Hm.", "action": "reply", "action_input": "It is 42."}'
    shell.use(fake_provider(script(says(decision))))
    assert shell.run("run", "Go.", "--protocol", "json")[1].splitlines() == ["Hm.", "It is 42."]
    own = tmp_path / "own.md"
    own.write_text('+++\nlabels = {terminal = ["SAY"], final = ["SAY"]}\n+++\nSay it.', encoding="utf-8")
    shell.use(fake_provider(script(says("``SAY``\nIt is 42."))))
    assert shell.run("run", "Go.", "-b", str(own))[1] == "It is 42.\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--protocol", "labels"), "protocol 'labels' is not one of: native, label, json"),
        (("--behaviour", "poet"), "behaviour 'poet' does not exist"),
        (("--behaviour", "poet.md"), "poet.md' cannot be read"),
    ],
)
def test_a_wrong_behaviour_or_protocol(
    shell: Shell, fake_provider: Start, options: tuple[str, str], told: str
) -> None:
    shell.use(fake_provider(script()))
    code, _, err = shell.run("run", "Go.", *options)
    assert (code, len(err.splitlines())) == (2, 1)
    assert told in err
