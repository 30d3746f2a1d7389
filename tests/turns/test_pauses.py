"""Questions to the user: asked alone, answered once, refused when wrong, closed when the user goes on."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command
from pydantic import ValidationError

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import TurnContext, TurnHooks


def test_question_is_asked_and_answered(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider("ask_user_then_answer"))
    paused = stage.play(graph, "Paint it.")
    (interrupt,) = paused.interrupts
    assert interrupt.value == {
        "type": "ask_user",
        "tool_call_id": "c1",
        "questions": [{"prompt": "Which colour?", "options": ["red", "blue"], "multi_select": False}],
    }
    assert interrupt.response_schema
    assert (paused.status, paused.answer) == ("paused", "Which colour?")
    assert paused.types()[-1] == "paused"
    played = stage.play(graph, Command(resume="blue"))
    assert played.results() == {"c1": "Which colour? → blue"}
    assert (played.status, played.answer) == ("finished", "I take note of your colour.")
    assert played.types()[0] == "resumed"
    assert "paused" not in played.types()
    assert played.outcome["rounds"] == 2


def test_wrong_answers_are_refused_and_can_be_given_again(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(asks("One?", "Two?")), says("Thanks.")))
    graph = stage.graph(provider)
    stage.play(graph, "Go.")
    wrong: list[Any] = ["bare", {"answers": ["only one"]}, {"answers": [["a"], "b"]}, {"answer": "x"}, 7]
    for answer in wrong:
        with pytest.raises(ValidationError):
            stage.play(graph, Command(resume=answer))
    played = stage.play(graph, Command(resume={"answers": ["first", ""]}))
    assert played.results() == {"c1": "One? → first\nTwo? → (no answer)"}


def test_several_options_may_be_chosen(stage: Stage, fake_provider: Start) -> None:
    question = asks("Which?", options=["a", "b", "c"], multi_select=True)
    graph = stage.graph(fake_provider(script(calls(question), says("Good."))))
    stage.play(graph, "Go.")
    played = stage.play(graph, Command(resume={"answers": [["a", "c"]]}))
    assert played.results() == {"c1": "Which? → a, c"}


def test_everything_else_of_the_batch_runs_first_and_once(stage: Stage, fake_provider: Start) -> None:
    ran: list[str] = []

    def note(text: str) -> str:
        """Take a note."""
        ran.append(text)
        return text

    batch = calls(call("note", "c1", text="a"), asks("Sure?", call_id="c2"), call("note", "c3", text="b"))
    graph = stage.graph(fake_provider(script(batch, says("Done."))), tools=[note])
    paused = stage.play(graph, "Go.")
    assert sorted(ran) == ["a", "b"]
    assert list(paused.results()) == ["c1", "c3"]
    played = stage.play(graph, Command(resume="yes"))
    assert sorted(ran) == ["a", "b"]
    assert list(played.results()) == ["c1", "c2", "c3"]


def test_two_pauses_in_two_rounds(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(asks("A?")), calls(asks("B?", call_id="c2")), says("Both.")))
    graph = stage.graph(provider)
    stage.play(graph, "Go.")
    second = stage.play(graph, Command(resume="a"))
    assert second.interrupts[0].value["tool_call_id"] == "c2"
    played = stage.play(graph, Command(resume="b"))
    assert played.results() == {"c1": "A? → a", "c2": "B? → b"}


def test_new_input_closes_an_open_question(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(calls(call("add", "c1", a=1, b=2), asks("Sure?", call_id="c2")), says("As you like."))
    )
    graph = stage.graph(provider)
    stage.play(graph, "Go.")
    played = stage.play(graph, "Never mind, say hello.")
    assert played.shape() == ["human", "ai:add,ask_user", "tool", "tool", "human", "ai"]
    assert played.results() == {"c1": "3", "c2": "Not answered: the user went on without answering."}
    assert played.status == "finished"


def test_second_question_of_a_batch_is_not_asked(stage: Stage, fake_provider: Start) -> None:
    bad = {"id": "c0", "name": "ask_user", "arguments": {"questions": []}}
    batch = calls(bad, asks("One?", call_id="c1"), asks("Two?", call_id="c2"))
    graph = stage.graph(fake_provider(script(batch, says("Right."))))
    paused = stage.play(graph, "Go.")
    assert paused.interrupts[0].value["tool_call_id"] == "c1"
    played = stage.play(graph, Command(resume="yes"))
    assert "once per reply (see c1)" in played.results()["c2"]
    assert "not run" in played.results()["c0"]


def test_too_many_questions_are_not_asked(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(asks("A?")), calls(asks("B?", call_id="c2")), says("I decide.")))
    graph = stage.graph(provider, settings={"max_asks": 1})
    stage.play(graph, "Go.")
    played = stage.play(graph, Command(resume="a"))
    assert "Decide by yourself" in played.results()["c2"]
    assert played.answer == "I decide."


def test_without_a_saver_the_question_ends_the_turn(bare_stage: Stage, fake_provider: Start) -> None:
    graph = bare_stage.graph(fake_provider(script(calls(asks("Which?")))))
    played = bare_stage.play(graph, "Go.")
    assert (played.status, played.outcome["stop_reason"], played.answer) == ("paused", "question", "Which?")
    assert played.shape() == ["human", "ai:ask_user", "tool", "ai"]


def test_ask_user_is_not_offered_when_switched_off(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Fine.")))
    stage.play(stage.graph(provider, settings={"ask_user": False}), "Go.")
    assert "ask_user" not in {tool["function"]["name"] for tool in provider.requests[0]["tools"]}


def test_hook_on_pause(stage: Stage, fake_provider: Start) -> None:
    seen: list[dict[str, Any]] = []
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Ok."))))
    context = TurnContext(hooks=TurnHooks(on_pause=seen.append))
    stage.play(graph, "Go.", context=context)
    stage.play(graph, Command(resume="x"), context=context)
    assert [info["questions"][0]["prompt"] for info in seen] == ["Which?"]


def test_budgets_survive_a_pause(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(
            calls(asks("A?")),
            calls(call("echo", "c2", text="x")),
            {"expect": {"no_tools": True}, **says("Enough.")},
        )
    )
    graph = stage.graph(provider, settings={"max_rounds": 2, "settle_rounds": 0})
    stage.play(graph, "Go.")
    played = stage.play(graph, Command(resume="a"))
    assert played.status == "finished_budget"
    assert played.outcome["rounds"] == 3
