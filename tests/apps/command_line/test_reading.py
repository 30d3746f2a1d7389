"""The commands about what is kept: `history`, `record`, `replay`, `gc`, and `--log`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.apps.command_line.inside import turnflow
from tests.turns.scripted import Start, call, calls, says, script


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNFLOW_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TURNFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("TURNFLOW_MODEL", "fake")
    return tmp_path


def ask(start: Start, monkeypatch: pytest.MonkeyPatch, *steps: Any, turns: int, options: Any = ()) -> None:
    """Run turns in the thread `t`."""
    provider = start(script(*steps))
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    for number in range(1, turns + 1):
        code, _, complaint = turnflow("run", f"Question {number}?", "--thread", "t", *options)
        assert (code, complaint) == (0, "")


def reckons() -> tuple[dict[str, Any], ...]:
    return calls(call("calculate", expression="6 * 7"), content="Let me see."), says("It is 42.")


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_history_is_that_of_all_turns(
    home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [says(f"Answer {n}.") for n in range(1, 14)]
    replies.insert(11, says("They counted."))  # the twelfth turn sums up what left the window
    ask(fake_provider, monkeypatch, *replies, turns=13)
    code, out, _ = turnflow("history", "t")
    assert code == 0
    told = [f"> Question {n}?" if k == 0 else f"Answer {n}." for n in range(1, 14) for k in (0, 1)]
    assert out.splitlines() == told
    assert turnflow("history", "t", "--last", "2")[1].splitlines() == told[-4:]
    assert [line["role"] for line in lines(turnflow("history", "t", "--json")[1])] == ["human", "ai"] * 13


def test_a_full_history_has_calls_and_results_whole(
    home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(fake_provider, monkeypatch, *reckons(), turns=1)
    assert turnflow("history", "t", "--full")[1].splitlines() == [
        "> Question 1?",
        "Let me see.",
        '· calculate {"expression": "6 * 7"}',
        "✓ calculate → 42",
        "It is 42.",
    ]


def test_the_record_as_json_lines(home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(fake_provider, monkeypatch, *reckons(), says("Two."), turns=2)
    facts = lines(turnflow("record", "t")[1])
    assert facts[0]["type"] == "turn.started"
    assert facts[-1]["type"] == "turn.ended"
    assert {fact["session_id"] for fact in facts} == {"t"}
    first = lines(turnflow("record", "t", "--turn", "1", "--type", "model.replied")[1])
    assert [fact["raw"] for fact in first] == ["Let me see.", "It is 42."]
    last = lines(turnflow("record", "t", "--turn", "-1", "--type", "turn.ended")[1])
    assert [fact["answer"] for fact in last] == ["Two."]


def test_replay_says_whether_the_path_is_the_same(
    home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(fake_provider, monkeypatch, *reckons(), says("Two."), turns=2)
    code, out, _ = turnflow("replay", "t")
    assert code == 0
    assert [line.partition("  ")[2] for line in out.splitlines()] == [
        "same path (6 steps)",
        "same path (3 steps)",
    ]
    (told,) = lines(turnflow("replay", "t", "--turn", "2", "--json")[1])
    assert told["difference"] is None


def test_replay_shows_where_the_path_is_another(
    home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(fake_provider, monkeypatch, *reckons(), turns=1)
    monkeypatch.setattr(
        "turnflow.nodes.classify_label.native.settled", lambda *_: {"kind": "stop", "key": "filtered"}
    )
    code, out, _ = turnflow("replay", "t")
    assert code == 1
    assert "goes another way in round 2: decision" in out
    assert '  was: ["terminal", "stop", ""]' in out.splitlines()


def test_what_is_wrong_is_said_with_the_mend(
    home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(fake_provider, monkeypatch, says("One."), turns=1)
    for arguments, complaint in (
        (("history", "x"), "turnflow: there is no thread 'x'; `turnflow threads` lists those that there are"),
        (("record", "x"), "turnflow: there is no thread 'x'; `turnflow threads` lists those that there are"),
        (("replay", "x"), "turnflow: there is no thread 'x'; `turnflow threads` lists those that there are"),
        (("record", "t", "--turn", "2"), "turnflow: there is no turn 2; give 1 to 1, or -1 for the last"),
        (("replay", "t", "--turn", "0"), "turnflow: there is no turn 0; give 1 to 1, or -1 for the last"),
        (("gc", "--db", "nowhere.db"), "turnflow: there is no file nowhere.db"),
    ):
        code, _, said = turnflow(*arguments)
        assert (code, said.strip()) == (2, complaint)
    code, _, said = turnflow("record", "t", "--type", "turn")
    assert code == 2
    assert said.startswith("turnflow: no fact of the type 'turn' is on record; there are: ")


def test_gc_counts_what_it_removes(home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(fake_provider, monkeypatch, says("One."), turns=1)
    counts = json.loads(turnflow("gc", "--json")[1])
    assert counts["threads"] == 0
    counts = json.loads(turnflow("gc", "--older-than", "0", "--json")[1])
    assert counts["threads"] == 1
    assert turnflow("threads", "--json")[1] == ""
    assert turnflow("gc", "--no-vacuum")[1].startswith("0 threads, ")


def test_log_takes_a_line_per_step(home: Path, fake_provider: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    log = home / "turns.jsonl"
    ask(fake_provider, monkeypatch, *reckons(), turns=1, options=("--log", str(log)))
    events = [line["event"] for line in lines(log.read_text())]
    assert events[0] == "turn.started"
    assert events[-1] == "turn.ended"
    assert "tool.started" in events
    code, _, said = turnflow("run", "Hello.", "--log", str(home / "no" / "turns.jsonl"))
    assert code == 2
    assert "No such file or directory" in said


def test_a_log_that_cannot_be_written_is_one_line(home: Path) -> None:
    missing = home / "nodir" / "x"
    for path, complaint in (
        (str(missing), f"turnflow: the log {missing} cannot be written: No such file or directory\n"),
        ("", "turnflow: the log . cannot be written: Is a directory\n"),
    ):
        assert turnflow("run", "hi", "--log", path) == (2, "", complaint)
