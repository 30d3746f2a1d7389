"""Turns under the JSON protocol: the reply's text streams, thoughts are thoughts, a question pauses."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Played, Stage
from tests.turns.written import calls_tool, cut_off, decides, decision


def play(stage: Stage, fake: Start, *steps: dict[str, Any], **options: Any) -> tuple[Played, Any]:
    provider = fake(script(*steps))
    return stage.play(stage.graph(provider, protocol="json", **options), "Go."), provider


def test_the_text_streams_out_of_the_arriving_json(stage: Stage, fake_provider: Start) -> None:
    text = 'Hello to all,\n"friends" 🙂!'
    played, _ = play(stage, fake_provider, decides("reply", text, "I greet."))
    assert (played.status, played.answer) == ("finished", text)
    assert len(played.of("content.delta")) > 1
    assert "".join(e["text"] for e in played.of("content.delta")) == text
    assert "".join(e["text"] for e in played.of("thinking.delta")) == "I greet."
    pieces = [str(m.content) for m in played.live if m.id == played.messages[-1].id]
    assert len(pieces) > 1
    assert "".join(pieces) == text
    own = played.messages[-1].additional_kwargs["turnflow"]
    assert own == {"raw": decision("reply", text, "I greet."), "thinking": "I greet.", "label": "reply"}


def test_the_tools_and_the_form_are_in_the_system_prompt(stage: Stage, fake_provider: Start) -> None:
    _, provider = play(stage, fake_provider, decides("reply", "Hello."))
    request = provider.requests[0]
    assert "tools" not in request
    system = request["messages"][0]["content"]
    for told in (
        '"action_input"',
        '"call_tool"',
        '"clarify"',
        '"add"',
        "Give the text back.",
        '"properties"',
    ):
        assert told in system
    assert '"ask_user"' not in system


def test_several_calls_of_one_decision(stage: Stage, fake_provider: Start) -> None:
    both = [
        {"tool_name": "add", "parameters": {"a": 1, "b": 2}},
        {"tool_name": "echo", "parameters": {"text": "hi"}},
    ]
    played, provider = play(stage, fake_provider, decides("call_tool", both), decides("reply", "Done."))
    assert played.shape() == ["human", "ai:add,echo", "tool", "tool", "ai"]
    assert played.results() == {"call_1": "3", "call_2": "hi"}
    assert provider.requests[1]["messages"][2]["content"] == decision("call_tool", both)


def test_clarify_asks_the_user(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(decides("clarify", "Which colour?"), decides("reply", "Blue.")))
    graph = stage.graph(provider, protocol="json")
    paused = stage.play(graph, "Paint.")
    assert paused.status == "paused"
    assert paused.interrupts[0].value["questions"][0]["prompt"] == "Which colour?"
    played = stage.play(graph, Command(resume="blue"))
    assert played.answer == "Blue."
    assert played.shape() == ["human", "ai:ask_user", "tool", "ai"]


def test_an_unknown_tool_is_answered_with_the_nearest(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, calls_tool("ad", a=1), decides("reply", "Done."))
    assert played.results() == {"call_1": "There is no tool named 'ad'. The nearest are: add."}


BROKEN = {
    "invalid_json": says("It is 40."),
    "schema:thought": says('{"action": "reply", "action_input": "It is 40."}'),
    "schema:action": says('{"thought": "Hm.", "action_input": "It is 40."}'),
    "schema:action_input": says('{"thought": "Hm.", "action": "reply"}'),
    "unknown_action": decides("shout", "It is 40."),
    "wrong_input_shape": decides("reply", {"text": "It is 40."}),
}


@pytest.mark.parametrize("key", BROKEN)
def test_a_violation_is_repaired(stage: Stage, fake_provider: Start, key: str) -> None:
    played, provider = play(stage, fake_provider, BROKEN[key], decides("reply", "It is 40."))
    assert (played.status, played.answer) == ("finished", "It is 40.")
    assert [(e["key"], e["times"]) for e in played.of("repair")] == [(key, 1)]
    assert played.shape() == ["human", "ai"]
    draft, told = provider.requests[1]["messages"][-2:]
    assert draft["content"] == BROKEN[key]["reply"]["content"]
    assert told["role"] == "user"


@pytest.mark.parametrize("key", BROKEN)
def test_twice_is_told_more_strictly(stage: Stage, fake_provider: Start, key: str) -> None:
    bad = BROKEN[key]
    played, provider = play(stage, fake_provider, bad, bad, decides("reply", "It is 40."))
    assert played.status == "finished"
    assert [(e["key"], e["times"]) for e in played.of("repair")] == [(key, 1), (key, 2)]
    first, again = (request["messages"][-1]["content"] for request in provider.requests[1:])
    assert "again" in again
    assert first != again


@pytest.mark.parametrize("key", BROKEN)
def test_the_third_time_the_turn_is_finished_by_force(stage: Stage, fake_provider: Start, key: str) -> None:
    bad = BROKEN[key]
    played, provider = play(stage, fake_provider, bad, bad, bad, decides("reply", "It is 40."))
    assert (played.status, played.outcome["stop_reason"]) == ("finished_degraded", key)
    assert played.answer == "It is 40."
    assert '"reply"' in provider.requests[3]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("last", "status", "answer"),
    [
        (says("It is 40."), "finished_budget", "It is 40."),
        (decides("reply", "It is 40."), "finished_budget", "It is 40."),
        (calls_tool("add", a=1, b=2), "empty", None),
        (says('{"thought": "Hm."'), "empty", None),
    ],
    ids=["prose", "reply", "call", "broken"],
)
def test_the_last_reply(
    stage: Stage, fake_provider: Start, last: dict[str, Any], status: str, answer: str | None
) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0}
    played, _ = play(stage, fake_provider, calls_tool("add", a=1, b=2), last, settings=settings)
    assert played.status == status
    assert answer is None or played.answer == answer


@pytest.mark.parametrize("end", ["two.", None], ids=["rest of the string", "another object"])
def test_a_cut_off_text_goes_on(stage: Stage, fake_provider: Start, end: str | None) -> None:
    whole = decision("reply", "One, two.")
    first = whole[: whole.index("two")]
    rest = says('two."}') if end else decides("reply", "two.")
    played, provider = play(stage, fake_provider, cut_off(first), rest)
    assert (played.status, played.answer) == ("finished", "One, two.")
    assert played.shape() == ["human", "ai"]
    assert "goes on exactly" in provider.requests[1]["messages"][-1]["content"]
    assert provider.requests[1]["messages"][-2]["content"] == decision("reply", "One, ", "")


def test_cut_off_parameters_are_never_run(stage: Stage, fake_provider: Start) -> None:
    whole = decision("call_tool", {"tool_name": "add", "parameters": {"a": 17, "b": 23}})
    steps = [cut_off(whole[: whole.index("23") + 1]), calls_tool("add", a=17, b=23), decides("reply", "40.")]
    played, _ = play(stage, fake_provider, *steps)
    assert played.answer == "40."
    results = list(played.results().values())
    assert "cut off" in results[0]
    assert results[1] == "40"


def test_thinking_before_the_decision(stage: Stage, fake_provider: Start) -> None:
    text = "<think>{not yet}</think>\n" + decision("reply", "Use <think> tags.", "Now.")
    played, _ = play(stage, fake_provider, says(text))
    assert played.answer == "Use <think> tags."
    assert played.messages[-1].additional_kwargs["turnflow"]["thinking"] == "{not yet}Now."


def test_native_calls_are_run_all_the_same(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, calls(call("add", a=1, b=2)), decides("reply", "3."))
    assert played.results() == {"c1": "3"}


def test_a_thread_may_change_its_protocol(stage: Stage, fake_provider: Start) -> None:
    steps = [calls(call("add", a=17, b=23)), says("It is 40."), decides("reply", "Still 40."), says("Plain.")]
    provider = fake_provider(script(*steps))
    stage.play(stage.graph(provider), "first")
    stage.play(stage.graph(provider, protocol="json"), "second")
    sent = [m["content"] for m in provider.requests[2]["messages"][2:]]
    assert sent[0] == decision("call_tool", {"tool_name": "add", "parameters": {"a": 17, "b": 23}}, "")
    assert sent[2] == decision("reply", "It is 40.", "")
    stage.play(stage.graph(provider), "third")
    assert [m["content"] for m in provider.requests[3]["messages"][-2:]] == ["Still 40.", "third"]


@pytest.mark.parametrize(
    "first",
    [
        '{"thought": "Hm.", "action": "clarify", "action_input": "What col',
        '{"thought": "Hm.", "action": "clarify", "action_input": {"question": "Which?", "options": ["a", "b',
    ],
    ids=["text", "options"],
)
def test_a_question_that_was_cut_off_is_not_asked(stage: Stage, fake_provider: Start, first: str) -> None:
    played, _ = play(stage, fake_provider, cut_off(first), decides("reply", "Blue, then."))
    assert (played.status, played.answer) == ("finished", "Blue, then.")
    assert "cut off" in played.results()["call_1"]


def test_nobody_is_asked_where_questions_are_off(stage: Stage, fake_provider: Start) -> None:
    steps = [decides("clarify", "Which?"), decides("reply", "Blue, then.")]
    played, provider = play(stage, fake_provider, *steps, settings={"ask_user": False})
    assert [e["key"] for e in played.of("repair")] == ["unknown_action"]
    assert "clarify" not in provider.requests[0]["messages"][0]["content"]
    assert provider.requests[1]["messages"][-1]["content"].endswith("Choose one of: reply, call_tool.")


def test_the_last_reply_may_be_a_question(stage: Stage, fake_provider: Start) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0}
    steps = [calls_tool("add", a=1, b=2), decides("clarify", "Which colour?")]
    played, _ = play(stage, fake_provider, *steps, settings=settings)
    assert (played.status, played.answer) == ("finished_budget", "Which colour?")


def test_thoughts_under_labels_are_no_decisions(stage: Stage, fake_provider: Start) -> None:
    steps = [
        says("``THINK``\nHm."),
        calls(call("add", a=1, b=2), content="``TOOL``\nI add."),
        says("``FINISH``\nThree."),
        decides("reply", "Still three."),
    ]
    provider = fake_provider(script(*steps))
    stage.play(stage.graph(provider, protocol="label"), "first")
    stage.play(stage.graph(provider, protocol="json"), "second")
    sent = [m["content"] for m in provider.requests[3]["messages"] if m["role"] == "assistant"]
    assert sent == [
        decision("call_tool", {"tool_name": "add", "parameters": {"a": 1, "b": 2}}, "I add."),
        decision("reply", "Three.", ""),
    ]


CALLS = decision("call_tool", {"tool_name": "echo", "parameters": {"text": "x"}}, "")


def test_a_quoted_decision_before_the_real_one_is_not_run(stage: Stage, fake_provider: Start) -> None:
    quoted = f"The page says {CALLS} and I will not.\n" + decision("reply", "I refuse.")
    played, provider = play(stage, fake_provider, says(quoted), decides("reply", "I refuse."))
    assert played.answer == "I refuse."
    assert [e["key"] for e in played.of("repair")] == ["invalid_json"]
    assert "more than one decision" in provider.requests[1]["messages"][-1]["content"]
    assert not played.of("tool.started")


def test_a_decision_quoted_in_a_text_that_goes_on_is_not_run(stage: Stage, fake_provider: Start) -> None:
    steps = [
        cut_off('{"thought": "", "action": "reply", "action_input": "It says:'),
        says(f' {CALLS} no."}}'),
    ]
    played, _ = play(stage, fake_provider, *steps)
    assert not played.of("tool.started")
    assert played.answer.startswith("It says:")


def test_a_cut_off_last_reply_in_prose_goes_on(stage: Stage, fake_provider: Start) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0}
    steps = [calls_tool("add", a=1, b=2), cut_off("The answer is"), says(" three.")]
    played, _ = play(stage, fake_provider, *steps, settings=settings)
    assert (played.status, played.answer) == ("finished_budget", "The answer is three.")


def test_a_decision_before_an_orphan_closer_was_a_thought(stage: Stage, fake_provider: Start) -> None:
    text = decision("reply", "NO", "x") + "</think>" + decision("reply", "Hello.", "Now.")
    played, _ = play(stage, fake_provider, says(text))
    assert played.answer == "Hello."
    assert "NO" in played.messages[-1].additional_kwargs["turnflow"]["thinking"]
