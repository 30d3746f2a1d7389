"""The record of whole turns: what is on it, and that it gives the state back however it was changed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.types import Command
from pydantic import SecretStr

from tests.turns.record_check import check_record
from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import OpenAICompatibleChat, build_turn_graph, open_saver, run_turn
from turnflow.graph.record import read_record, rebuild
from turnflow.nodes.assemble_context.memory.window import WindowMemory

CONFIG: Any = {"configurable": {"thread_id": "t"}}

THREE: Any = {"state_turns": 3, "protected_turns": 1, "ask_user": False}
"""Settings for a state of three turns."""


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


@pytest.mark.parametrize("key", ["plain-key-of-mine-99", "sk-secret-abcdefgh"])
@pytest.mark.parametrize("status", [401, 403, 400])
def test_a_key_that_a_provider_quotes_stands_nowhere(
    stage: Stage, fake_provider: Start, key: str, status: int
) -> None:
    said = f"you sent Bearer {key} as the key {key}"
    provider = fake_provider(script({"error": {"status": status, "message": said}}))
    model = OpenAICompatibleChat(model="m", base_url=provider.base_url, api_key=SecretStr(key))
    graph = build_turn_graph(model, checkpointer=stage.saver)
    played = stage.play(graph, "one", laws=False)
    assert played.error
    assert "[redacted] as the key [redacted]" in str(played.error)
    saver: Any = graph.checkpointer
    kept = list(saver.list(CONFIG)) if stage.mode == "sync" else stage.run(_all(saver))
    assert kept
    for told_of in (played.error, played.error.outcome, played.events, read_record(graph, "t"), kept):
        assert key not in f"{told_of!r} {told_of}"


async def _all(saver: Any) -> list[Any]:
    return [each async for each in saver.alist(CONFIG)]


def test_without_a_saver_there_is_no_record(bare_stage: Stage, fake_provider: Start) -> None:
    with pytest.raises(ValueError, match="checkpointer"):
        read_record(bare_stage.graph(fake_provider(script())), "t")


# Long threads, of which the state has the last turns alone


def long_graph(saver: Any, turns: int, *, begin: int = 0, durability: Any = "sync") -> Any:
    """A graph whose state keeps three turns, after turns without tools: `q0` is answered by `r0`."""
    model = Spoken()
    graph = build_turn_graph(model, [], settings=THREE, memory=WindowMemory(3), checkpointer=saver)
    for number in range(begin, begin + turns):
        said = HumanMessage(f"q{number}", id=f"h{number}")
        run_turn(graph, [said], thread_id="t", durability=durability)
    return graph


class Spoken(BaseChatModel):
    """Answers `q7` with `r7`."""

    @property
    def _llm_type(self) -> str:
        return "spoken"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        asked = next(str(m.content) for m in reversed(messages) if isinstance(m, HumanMessage))
        reply = AIMessage(asked.replace("q", "r", 1), response_metadata={"finish_reason": "stop"})
        return ChatResult(generations=[ChatGeneration(message=reply)])


def said_in(saver: Any) -> list[str]:
    return [str(message.content) for message in rebuild(read_record(saver, "t"))["messages"]]


def turns_said(*numbers: int) -> list[str]:
    return [text for number in numbers for text in (f"q{number}", f"r{number}")]


def test_an_edit_of_a_trimmed_state_leaves_older_turns_on_record() -> None:
    with open_saver(":memory:", keep_turns=3, full_turns=1) as saver:
        graph = long_graph(saver, 10)
        messages = graph.get_state(CONFIG).values["messages"]
        assert len(messages) == 6
        graph.update_state(CONFIG, {"messages": [AIMessage("edited", id=messages[-1].id)]})
        assert said_in(saver) == [*turns_said(*range(9)), "q9", "edited"]
        graph.update_state(CONFIG, {"messages": [RemoveMessage(id=m.id) for m in messages[:2]]})
        assert said_in(saver) == [*turns_said(*range(7), 8), "q9", "edited"]
        long_graph(saver, 1, begin=10)
        assert said_in(saver) == [*turns_said(*range(7), 8), "q9", "edited", "q10", "r10"]


def test_an_input_that_edits_a_trimmed_state_leaves_older_turns_on_record() -> None:
    with open_saver(":memory:") as saver:
        graph = long_graph(saver, 10)
        edited = [RemoveMessage(id="h7"), HumanMessage("q8, rather", id="h8"), HumanMessage("q10", id="h10")]
        graph.invoke({"messages": edited}, CONFIG)
        assert said_in(saver) == [*turns_said(*range(7)), "r7", "q8, rather", "r8", "q9", "r9", "q10", "r10"]


def test_a_branch_of_a_trimmed_state_leaves_the_turns_before_it_on_record() -> None:
    with open_saver(":memory:", keep_turns=8) as saver:
        graph = long_graph(saver, 10)
        ends = [past for past in graph.get_state_history(CONFIG) if not past.next]
        past = next(past for past in ends if past.values["messages"][-1].content == "r6")
        graph.invoke({"messages": [HumanMessage("q60")]}, past.config)
        assert said_in(saver) == turns_said(*range(7), 60)


def test_what_is_pinned_of_older_turns_stays_in_its_place_when_the_state_is_edited() -> None:
    with open_saver(":memory:") as saver:
        graph = build_turn_graph(Spoken(), [], settings=THREE, memory=WindowMemory(3), checkpointer=saver)
        pinned = HumanMessage("q0", id="h0", additional_kwargs={"turnflow": {"pinned": True}})
        run_turn(graph, [pinned], thread_id="t")
        long_graph(saver, 8, begin=1)
        messages = graph.get_state(CONFIG).values["messages"]
        assert [message.content for message in messages] == ["q0", *turns_said(6, 7, 8)]
        graph.update_state(CONFIG, {"messages": [AIMessage("edited", id=messages[-1].id)]})
        assert said_in(saver) == [*turns_said(*range(8)), "q8", "edited"]


def test_a_client_that_sends_everything_again_leaves_its_new_message_on_record_alone() -> None:
    with open_saver(":memory:") as saver:
        graph = long_graph(saver, 0)
        sent: list[Any] = []
        for number in range(10):
            sent.append(HumanMessage(f"q{number}", id=f"h{number}"))
            output = graph.invoke({"messages": sent}, CONFIG)
            sent.append(output["messages"][-1])
        facts = read_record(saver, "t")
        last = [fact for fact in facts if fact["turn_id"] == facts[-1]["turn_id"]]
        written = [message["content"] for fact in told(last, "messages") for message in fact["messages"]]
        assert written == ["q9", "r9"]
        assert said_in(saver) == turns_said(*range(10))


def test_turns_without_facts_of_their_own_are_made_up_for_by_the_next() -> None:
    with open_saver(":memory:") as saver:
        long_graph(saver, 5)
        long_graph(saver, 2, begin=5, durability="exit")
        assert said_in(saver) == turns_said(*range(5))
        long_graph(saver, 1, begin=7)
        assert said_in(saver) == turns_said(*range(8))


def test_a_clock_that_is_set_back_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_saver(":memory:") as saver:
        long_graph(saver, 2)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - 3600)
        graph = long_graph(saver, 2, begin=2)
        last = graph.get_state(CONFIG).values["messages"][-1]
        graph.update_state(CONFIG, {"messages": [AIMessage("edited", id=last.id)]})
        facts = read_record(saver, "t")
        times = [fact["time"] for fact in facts]
        assert times == sorted(times)
        assert said_in(saver) == [*turns_said(*range(3)), "q3", "edited"]
