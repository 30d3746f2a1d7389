"""The record of whole turns: what is on it, and that it gives the state back however it was changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.types import Command

from tests.turns.record_check import check_record
from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage
from turnflow.graph.record import read_record, rebuild

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def told(facts: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [fact for fact in facts if fact["type"] in types]


def update(stage: Stage, graph: Any, values: Any, config: Any = CONFIG) -> Any:
    if stage.mode == "sync":
        return graph.update_state(config, values)
    return stage.run(graph.aupdate_state(config, values))


def history(stage: Stage, graph: Any) -> list[Any]:
    return list(graph.get_state_history(CONFIG))


def test_what_a_turn_leaves_on_record_in_order(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("echo", text="a"), content="Let me see."), says("It says a.")))
    graph = stage.graph(provider)
    stage.play(graph, "Say a.")
    facts = read_record(graph, "t")
    kept = ["session"] if rebuild(facts)["session"] else []
    assert [fact["type"] for fact in facts] == [
        *("turn.started", "messages", "setup", "round.started", "context.assembled", *kept),
        *("model.replied", "decision", "tool.call", "messages"),
        *("tool.started", "tool.result", "messages"),
        *("round.ended", "round.started", "context.assembled"),
        *("model.replied", "decision", "round.ended", "messages", "turn.ended"),
    ]
    ids = [message["id"] for fact in told(facts, "messages") for message in fact["messages"]]
    assert ids == [message.id for message in graph.get_state(CONFIG).values["messages"]]
    assert [(fact["kind"], fact["round"]) for fact in told(facts, "decision")] == [
        ("tool", 1),
        ("terminal", 2),
    ]
    (result,) = told(facts, "tool.result")
    assert result["status"] == "ok"
    assert result["duration"] >= 0
    assert "content" not in result
    assert all(fact["session_id"] == "t" for fact in facts)


def test_thoughts_are_kept_with_the_reply_they_led_to(stage: Stage, fake_provider: Start) -> None:
    thought = {"reply": {"reasoning": "They want a.", "tool_calls": [call("echo", text="a")]}}
    graph = stage.graph(fake_provider(script(thought, says("<think>Done.</think>a"))))
    stage.play(graph, "Say a.")
    replies = told(read_record(graph, "t"), "model.replied")
    assert [fact.get("reasoning") or fact["thinking"] for fact in replies] == ["They want a.", "Done."]
    assert replies[1]["raw"] == "<think>Done.</think>a"
    assert [fact["round"] for fact in replies] == [1, 2]
    assert json.loads(replies[0]["calls"][0]["arguments"]) == {"text": "a"}


def test_an_answer_is_on_record(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Blue it is."))))
    stage.play(graph, "Paint it.")
    assert rebuild(read_record(graph, "t"))["outcome"]["status"] == "paused"
    stage.play(graph, Command(resume="blue"))
    (resumed,) = told(read_record(graph, "t"), "resumed")
    assert resumed["answer"] == "blue"


def test_the_setup_is_on_record_once_and_again_when_it_changes(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("1"), says("2"), says("3"))))
    stage.play(graph, "one")
    stage.play(graph, "two")
    stage.play(graph, "three", context={"settings": {"max_rounds": 3}})
    facts = read_record(graph, "t")
    first, second = told(facts, "setup")
    assert second["settings"] == {**first["settings"], "max_rounds": 3}
    assert [tool["definition"]["function"]["name"] for tool in first["tools"]][:2] == ["add", "echo"]
    marks = [fact["setup"] for fact in told(facts, "turn.started")]
    assert marks == [first["setup"], first["setup"], second["setup"]]


def test_an_edited_and_a_taken_back_message_are_on_record(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("1"), says("2"))))
    stage.play(graph, "one")
    first, answer = graph.get_state(CONFIG).values["messages"]
    update(stage, graph, {"messages": [HumanMessage("uno", id=first.id)]})
    check_record(graph, "t", graph.get_state(CONFIG).values)
    update(stage, graph, {"messages": [RemoveMessage(id=answer.id)]})
    check_record(graph, "t", graph.get_state(CONFIG).values)
    edits = told(read_record(graph, "t"), "edited")
    assert [len(edit["messages"]) for edit in edits] == [2, 1]
    stage.play(graph, "two")
    said = [m.content for m in rebuild(read_record(graph, "t"))["messages"]]
    assert said == ["uno", "two", "2"]


def test_a_changed_session_is_on_record(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("1"))))
    stage.play(graph, "one")
    update(stage, graph, {"session": {"grants": {"echo": {"turn_id": "t"}}}})
    (edit,) = told(read_record(graph, "t"), "edited")
    assert edit["session"]["grants"] == {"echo": {"turn_id": "t"}}
    assert "messages" not in edit


def test_an_input_that_replaces_an_old_message_is_on_record(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("1"), says("2"))))
    stage.play(graph, "one")
    first = graph.get_state(CONFIG).values["messages"][0]
    stage.play(graph, {"messages": [HumanMessage("uno", id=first.id), HumanMessage("two")]})
    assert [m.content for m in rebuild(read_record(graph, "t"))["messages"]] == ["uno", "1", "two", "2"]


def test_a_branch_leaves_what_came_after_its_beginning(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(*(says(str(n)) for n in range(1, 5)))))
    stage.play(graph, "one")
    ended = history(stage, graph)[0].config
    stage.play(graph, "two")
    tip = history(stage, graph)[0].config
    given = {"messages": [HumanMessage("deux")]}
    for start, expected in ((ended, ["one", "1", "deux", "3"]), (tip, ["one", "1", "two", "2", "deux", "4"])):
        config = {"configurable": {**start["configurable"]}}
        if stage.mode == "sync":
            graph.invoke(given, config)
        else:
            stage.run(graph.ainvoke(given, config))
        facts = read_record(graph, "t")
        assert [m.content for m in rebuild(facts)["messages"]] == expected
        check_record(graph, "t", graph.get_state(CONFIG).values)
        if hasattr(stage.saver, "read_record"):
            fork = told(facts, "fork")[-1]
            assert fork["from_checkpoint"] == start["configurable"]["checkpoint_id"]


def test_a_turn_gone_through_again_from_its_middle(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("1"), says("one more"))))
    stage.play(graph, "one")
    middle = next(past.config for past in history(stage, graph) if past.next == ("call_llm",))
    if stage.mode == "sync":
        graph.invoke(None, middle)
    else:
        stage.run(graph.ainvoke(None, middle))
    assert [m.content for m in rebuild(read_record(graph, "t"))["messages"]] == ["one", "one more"]
    check_record(graph, "t", graph.get_state(CONFIG).values)


def test_a_failed_turn_is_on_record(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider("authentication_refused"))
    played = stage.play(graph, "one", laws=False)
    assert played.error
    facts = read_record(graph, "t")
    (ended,) = told(facts, "turn.ended")
    assert ended["outcome"]["status"] == "provider_error"
    assert told(facts, "model.replied")[0]["error"]["status_code"] == 401
    assert rebuild(facts)["outcome"] == {}


def test_without_a_saver_there_is_no_record(bare_stage: Stage, fake_provider: Start) -> None:
    with pytest.raises(ValueError, match="checkpointer"):
        read_record(bare_stage.graph(fake_provider(script())), "t")
