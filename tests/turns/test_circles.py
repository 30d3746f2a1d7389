"""Models that go in circles are told so, told firmly, and at last answer without tools."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, add
from turnflow.apps.fake_provider import FakeProvider

LONG: dict[str, Any] = {"max_rounds": 50}


def said(provider: FakeProvider, request: int) -> str:
    """What the user says last in a request: directives stand there."""
    return str(next(m for m in provider.requests[request]["messages"][::-1] if m["role"] == "user"))


def test_the_same_call_with_the_same_result(stage: Stage, fake_provider: Start) -> None:
    rounds = [calls(call("add", f"c{n}", a=1, b=1)) for n in range(8)]
    provider = fake_provider(script(*rounds, {"expect": {"no_tools": True}, **says("It is 2.")}))
    played = stage.play(stage.graph(provider, settings=LONG), "Go.")
    assert (played.status, played.outcome["stop_reason"]) == ("finished_budget", "loop")
    assert played.outcome["tool_calls"] == 8
    assert [(e["level"], e["count"]) for e in played.of("nudge")] == [
        ("note", 3),
        ("note", 4),
        ("firm", 5),
        ("firm", 6),
        ("firm", 7),
        ("stop", 8),
    ]
    assert "same results 3 times" in said(provider, 3)
    assert "going in circles" in said(provider, 5)
    assert "circles" not in said(provider, 2)


@pytest.mark.parametrize("length", [2, 3, 4])
def test_calls_in_turn(stage: Stage, fake_provider: Start, length: int) -> None:
    rounds = [calls(call("echo", f"c{n}", text=f"{n % length}")) for n in range(8 * length)]
    provider = fake_provider(script(*rounds, {"expect": {"no_tools": True}, **says("Enough.")}))
    played = stage.play(stage.graph(provider, settings=LONG), "Go.")
    assert (played.status, played.outcome["stop_reason"]) == ("finished_budget", "loop")
    last = played.of("nudge")[-1]
    assert (last["level"], last["count"], last["length"]) == ("stop", 8, length)


def test_the_same_broken_call(stage: Stage, fake_provider: Start) -> None:
    rounds = [calls({"id": f"c{n}", "name": "add", "arguments": '{"a": 1'}) for n in range(8)]
    provider = fake_provider(script(*rounds, {"expect": {"no_tools": True}, **says("I give up.")}))
    played = stage.play(stage.graph(provider, settings=LONG), "Go.")
    assert played.outcome["stop_reason"] == "loop"
    assert played.outcome["tool_calls"] == 0


def test_changing_results_are_progress(stage: Stage, fake_provider: Start) -> None:
    count = itertools.count()

    def poll() -> str:
        """See how far it is."""
        return f"{next(count)} done"

    rounds = [calls(call("poll", f"c{n}")) for n in range(20)]
    graph = stage.graph(fake_provider(script(*rounds, says("Done."))), tools=[poll], settings=LONG)
    played = stage.play(graph, "Go.")
    assert (played.status, played.of("nudge")) == ("finished", [])


def test_long_results_do_not_hide_a_circle(stage: Stage, fake_provider: Start) -> None:
    def report() -> str:
        """Give much text."""
        return "x" * 50_000

    rounds = [calls(call("report", f"c{n}")) for n in range(8)]
    graph = stage.graph(fake_provider(script(*rounds, says("Enough."))), tools=[report], settings=LONG)
    assert stage.play(graph, "Go.").outcome["stop_reason"] == "loop"


def test_the_guard_can_be_switched_off(stage: Stage, fake_provider: Start) -> None:
    rounds = [calls(call("add", f"c{n}", a=1, b=1)) for n in range(9)]
    settings = {**LONG, "loop_guard": False}
    graph = stage.graph(fake_provider(script(*rounds, says("It is 2."))), tools=[add], settings=settings)
    played = stage.play(graph, "Go.")
    assert (played.status, played.of("nudge")) == ("finished", [])


def test_a_question_is_not_asked_again_in_other_words(stage: Stage, fake_provider: Start) -> None:
    first, second = asks("Which colour?", call_id="c1"), asks("Which colour, please?", call_id="c2")
    provider = fake_provider(script(calls(first), calls(second), says("Blue it is.")))
    graph = stage.graph(provider)
    stage.play(graph, "Paint it.")
    played = stage.play(graph, Command(resume="blue"))
    assert (played.status, played.outcome["tool_calls"]) == ("finished", 1)
    assert "much like a question that was asked in this turn before" in played.results()["c2"]


def test_other_questions_are_asked(stage: Stage, fake_provider: Start) -> None:
    first, second = asks("Which port for staging?", call_id="c1"), asks("Which port for production?")
    graph = stage.graph(fake_provider(script(calls(first), calls({**second, "id": "c2"}))))
    stage.play(graph, "Deploy.")
    assert stage.play(graph, Command(resume="80")).status == "paused"
