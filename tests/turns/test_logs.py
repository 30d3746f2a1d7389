"""The log lines of whole turns: which there are, what is in them, and what never is."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage
from turnflow.graph.logs import MAX_BEGUN, TURN_LOGGER, JsonLines, log_event, logging_to

COMMON = {"time", "level", "logger", "event", "session_id", "turn_id", "round"}
FIELDS: dict[str, set[str]] = {
    "turn.started": set(),
    "model.replied": {"usage", "duration_s"},
    "decision": {"decision", "usage"},
    "tool.started": {"tool", "call_id"},
    "tool.result": {"tool", "call_id", "status", "duration_s"},
    "paused": {"status", "call_ids"},
    "resumed": {"call_ids"},
    "nudge": {"key"},
    "turn.ended": {"status", "stop_reason", "rounds", "tool_calls", "usage", "degradations", "duration_s"},
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with logging_to(stream):
        yield stream


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.getvalue().splitlines()]
    for line in found:
        assert line.keys() == COMMON | FIELDS[line["event"]], line
        assert line["logger"] == TURN_LOGGER
        assert line["level"] == "INFO"
    return found


def test_the_lines_of_a_turn_with_a_tool(stage: Stage, fake_provider: Start, log: io.StringIO) -> None:
    graph = stage.graph(fake_provider(script(calls(call("echo", text="hush-hush")), says("It is said."))))
    stage.play(graph, "Say hush-hush, sk-1234567890abc.")
    told = lines(log)
    assert [(line["event"], line["round"]) for line in told] == [
        ("turn.started", 0),
        ("model.replied", 1),
        ("decision", 1),
        ("tool.started", 1),
        ("tool.result", 1),
        ("model.replied", 2),
        ("decision", 2),
        ("turn.ended", 2),
    ]
    assert [line["decision"]["kind"] for line in told if line["event"] == "decision"] == ["tool", "terminal"]
    assert told[4]["tool"] == "echo"
    assert told[4]["call_id"] == "c1"
    assert told[4]["status"] == "ok"
    replies = [line for line in told if line["event"] == "model.replied"]
    assert [line["usage"]["requests"] for line in replies] == [1, 1]
    assert sum(line["usage"]["input"] for line in replies) == told[-1]["usage"]["input"] > 0
    assert 0 < sum(line["duration_s"] for line in replies) < told[-1]["duration_s"] < 60
    assert told[-1]["status"] == "finished"
    assert told[-1]["usage"]["requests"] == 2
    assert {line["session_id"] for line in told} == {"t"}
    for text in ("hush", "It is said", "sk-1"):
        assert text not in log.getvalue()


def test_a_pause_and_its_answer(stage: Stage, fake_provider: Start, log: io.StringIO) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Blue it is."))))
    stage.play(graph, "Paint it.")
    stage.play(graph, Command(resume="blue"))
    told = lines(log)
    events = [line["event"] for line in told]
    assert events == [
        "turn.started",
        "model.replied",
        "decision",
        "paused",
        "resumed",
        "tool.result",
        "model.replied",
        "decision",
        "turn.ended",
    ]
    assert told[3]["status"] == "question"
    assert told[3]["call_ids"] == told[4]["call_ids"] == ["c1"]
    assert "blue" not in log.getvalue()


def event(kind: str, turn: str, time: float, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": "s", "turn_id": turn, "round": 1, "time": time, **fields}


def test_a_failed_request_says_how_long_it_took_and_not_why_in_words(log: io.StringIO) -> None:
    error = {"type": "APIError", "message": "you said hush", "status_code": 500}
    log_event(event("model.replied", "t1", 1.0, usage={"requests": 1}, duration=2.5, error=error))
    (line,) = [json.loads(text) for text in log.getvalue().splitlines()]
    assert line["duration_s"] == 2.5
    assert line["error"] == {"type": "APIError", "status_code": 500}


def test_a_turn_whose_start_was_not_logged_here_has_no_duration(log: io.StringIO) -> None:
    outcome = {"status": "finished"}
    log_event(event("turn.started", "here", 100.0))
    for number in range(MAX_BEGUN):
        log_event(event("turn.started", f"t{number}", 100.0))
    for turn in ("here", "elsewhere", "t0", f"t{MAX_BEGUN - 1}"):
        log_event(event("turn.ended", turn, 103.5, outcome=outcome))
    ended = [json.loads(text) for text in log.getvalue().splitlines()[-4:]]
    assert [line.get("duration_s") for line in ended] == [None, None, 3.5, 3.5]


def test_arguments_only_where_they_are_wanted(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("echo", text="a sk-1234567890abc")), says("a")))
    stream = io.StringIO()
    with logging_to(stream, patterns=["hidden-[0-9]+"]):
        stage.play(stage.graph(provider, settings={"log_arguments": True}), "Say a.")
    (started,) = [json.loads(line) for line in stream.getvalue().splitlines() if "tool.started" in line]
    assert started["arguments"] == {"text": "a [redacted]"}


def test_nothing_is_made_where_nobody_listens(
    stage: Stage, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnflow.graph.logs.redact", lambda *_: pytest.fail("a line was made"))
    logger = logging.getLogger(TURN_LOGGER)
    before = logger.level
    logger.setLevel(logging.WARNING)
    stage.play(stage.graph(fake_provider(script(says("1")))), "one")
    logger.setLevel(before)


def test_lines_of_other_loggers() -> None:
    record = logging.LogRecord("other", logging.WARNING, "", 0, "failed: %s", ("password=abc",), None)
    line = json.loads(JsonLines().format(record))
    assert line["message"] == "failed: [redacted]"
    assert line["level"] == "WARNING"
