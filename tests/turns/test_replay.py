"""Playing recorded turns again: the same path where nothing changed, and where it first parts otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, echo
from turnflow import CancelToken, TurnContext
from turnflow.graph.record import read_record
from turnflow.graph.replay import Replayed, _in_state, replay, replay_facts, turns_on_record


def replayed(graph: Any, number: int = -1) -> Replayed:
    facts = read_record(graph, "t")
    return replay(graph, "t", turns_on_record(facts)[number])


def assert_same(graph: Any, steps: int) -> None:
    found = replayed(graph)
    assert found.difference is None, found
    assert found.steps == steps


def test_a_turn_with_tools(stage: Stage, fake_provider: Start) -> None:
    both = calls(call("add", "c1", a=1, b=2), call("boom", "c2"), content="Let me see.")
    graph = stage.graph(fake_provider(script(says("Hi."), both, says("It is 3."))))
    stage.play(graph, "Hello.")
    stage.play(graph, "What is 1 + 2?")
    assert_same(graph, steps=7)


ECHO = {"name": "echo", "arguments": {"text": "a"}}
CALLS = json.dumps({"thought": "t", "action": "call_tool", "action_input": ECHO})
REPLIES = json.dumps({"thought": "t", "action": "reply", "action_input": "Done."})


@pytest.mark.parametrize(
    ("protocol", "replies"),
    [
        ("label", ("THINK\nHm.", "FINISH\nDone.")),
        ("label", ("no label at all", "FINISH\nDone.")),
        ("json", (CALLS, REPLIES)),
    ],
)
def test_each_protocol(stage: Stage, fake_provider: Start, protocol: Any, replies: tuple[str, ...]) -> None:
    graph = stage.graph(fake_provider(script(*map(says, replies))), protocol=protocol)
    played = stage.play(graph, "Go.")
    assert played.status == "finished"
    assert replayed(graph).difference is None
    assert replayed(graph).steps > len(replies)


def test_a_question_and_its_answer(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Blue it is."))))
    stage.play(graph, "Paint it.")
    paused = replayed(graph)
    assert paused.difference is None
    assert paused.notes == ("the turn is not over: what there is of it is compared",)
    stage.play(graph, Command(resume="blue"))
    assert_same(graph, steps=6)


@pytest.mark.parametrize(
    "decision",
    [
        {"type": "approve"},
        {"type": "reject", "message": "not now"},
        {"type": "respond", "message": "It is gone."},
        {"type": "edit", "edited_action": {"name": "echo", "args": {"text": "b"}}},
    ],
)
def test_an_approval(stage: Stage, fake_provider: Start, decision: dict[str, Any]) -> None:
    provider = fake_provider(script(calls(call("echo", text="a")), says("Done.")))
    graph = stage.graph(provider, policies={"echo": {"needs_approval": True}})
    stage.play(graph, "Say a.")
    stage.play(graph, Command(resume={"decisions": [decision]}))
    assert_same(graph, steps=6)


def test_what_came_before_a_turn_was_cancelled(stage: Stage, fake_provider: Start) -> None:
    token = CancelToken()

    def last() -> str:
        """Cancel the turn."""
        token.cancel()
        return "done"

    provider = fake_provider(script(calls(call("echo", text="a")), calls(call("last", "c2"))))
    graph = stage.graph(provider, tools=[echo, last])
    played = stage.play(graph, "Go.", context=TurnContext(cancel=token))
    assert played.status == "cancelled"
    found = replayed(graph)
    assert found.difference is None
    assert found.steps >= 4
    assert found.notes == ("cancelled in round 2: what came before is compared",)


def test_a_turn_that_failed(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider("authentication_refused"))
    assert stage.play(graph, "Hello.", laws=False).error
    assert replayed(graph).difference is None


@pytest.mark.parametrize(
    ("change", "what", "number"),
    [
        (lambda fact: {**fact, "key": "truncated"} if fact["type"] == "decision" else fact, "decision", 1),
        (
            lambda fact: (
                {**fact, "raw": "Quite another answer."} if fact["type"] == "model.replied" else fact
            ),
            "message",
            2,
        ),
        (lambda fact: {**fact, "answer": "No."} if fact["type"] == "turn.ended" else fact, "end", 2),
    ],
)
def test_where_the_paths_part(
    stage: Stage, fake_provider: Start, change: Callable[[Any], Any], what: str, number: int
) -> None:
    graph = stage.graph(fake_provider(script(calls(call("echo", text="a")), says("Done."))))
    stage.play(graph, "Say a.")
    facts = read_record(graph, "t")
    changed = [change(fact) if fact["round"] == number else fact for fact in facts]
    found = replay_facts(changed, turns_on_record(facts)[0]).difference
    assert found is not None
    assert (found.what, found.round) == (what, number)
    assert found.was != found.now


def damaged(facts: list[Any], of_type: str, /, **fields: Any) -> list[Any]:
    """The facts with other fields in those of a type; a field that is None is gone."""
    changed = [{**fact, **fields} if fact["type"] == of_type else fact for fact in facts]
    return [{name: value for name, value in fact.items() if value is not None} for fact in changed]


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("setup", {"protocol": {"name": "weird"}}, "no protocol 'weird'"),
        ("setup", {"settings": {"nonsense": 1}}, "settings: there is no field 'nonsense'"),
        ("messages", {"messages": [{"type": "klingon"}]}, "klingon"),
        ("messages", {"messages": []}, "the input of turn"),
        ("decision", {"kind": None}, "a fact has no 'kind'"),
    ],
)
def test_a_damaged_record_is_refused_in_one_line(
    stage: Stage, fake_provider: Start, kind: str, fields: dict[str, Any], said: str
) -> None:
    graph = stage.graph(fake_provider(script(says("Hi."))))
    stage.play(graph, "Hello.")
    facts = read_record(graph, "t")
    turn_id = turns_on_record(facts)[0]
    with pytest.raises(ValueError, match=said) as raised:
        replay_facts(damaged(facts, kind, **fields), turn_id)
    assert turn_id in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_turn_is_played_with_what_the_state_had_of_the_ones_before() -> None:
    before: list[AnyMessage] = [HumanMessage("a", id="a"), AIMessage("b", id="b"), HumanMessage("c", id="c")]
    assert [message.id for message in _in_state(before, "c")] == ["c"]
    pinned = HumanMessage("a", id="a", additional_kwargs={"turnflow": {"pinned": True}})
    assert [message.id for message in _in_state([pinned, *before[1:]], "c")] == ["a", "c"]
    assert _in_state(before, None) == before


def test_a_turn_that_is_not_there(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("Hi."))))
    stage.play(graph, "Hello.")
    with pytest.raises(ValueError, match="no turn 'x' is on record"):
        replay(graph, "t", "x")
    facts = [fact for fact in read_record(graph, "t") if fact["type"] != "setup"]
    with pytest.raises(ValueError, match="before turns could be played again"):
        replay_facts(facts, turns_on_record(facts)[0])
