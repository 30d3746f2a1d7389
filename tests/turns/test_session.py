"""Session variables and metadata over whole turns: tools and callers set them, and they stay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import (
    CancelToken,
    ToolOutput,
    TurnContext,
    TurnError,
    arun_turn,
    build_turn_graph,
    open_saver,
    run_turn,
)
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph.session import MAX_VARIABLES, session_change
from turnflow.graph.session_access import (
    asession_of,
    aset_tags,
    aset_variables,
    session_of,
    set_tags,
    set_variables,
)

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def keep(namespace: str, key: str, value: Any = None) -> ToolOutput:
    """Keep a value."""
    return ToolOutput("kept", variables={namespace: {key: value}})


def clear(namespace: str) -> ToolOutput:
    """Clear a namespace."""
    return ToolOutput("cleared", variables={namespace: None})


def count(by: int, runtime: ToolRuntime) -> ToolOutput:
    """Count up."""
    number = runtime.state["session"]["vars"].get("counter", {}).get("count", 0) + by
    return ToolOutput(str(number), variables={"counter": {"count": number}})


def recall(session: Annotated[dict[str, Any], InjectedState("session")]) -> str:
    """Say what is kept."""
    return str(session["vars"])


TOOLS: Any = [keep, clear, count, recall]


def graph_of(stage: Stage, provider: FakeProvider, **options: Any) -> Any:
    return stage.graph(provider, tools=TOOLS, **options)


def session(stage: Stage, graph: Any, thread: str = "t") -> Any:
    if stage.mode == "sync":
        return session_of(graph, thread)
    return stage.run(asession_of(graph, thread))


def put(stage: Stage, graph: Any, variables: Any, thread: str = "t") -> None:
    if stage.mode == "sync":
        set_variables(graph, thread, variables)
    else:
        stage.run(aset_variables(graph, thread, variables))


def tag(stage: Stage, graph: Any, tags: Any) -> None:
    if stage.mode == "sync":
        set_tags(graph, "t", tags)
    else:
        stage.run(aset_tags(graph, "t", tags))


def turn(stage: Stage, graph: Any, given: Any) -> Any:
    if stage.mode == "sync":
        return run_turn(graph, given, thread_id="t")
    return stage.run(arun_turn(graph, given, thread_id="t"))


def test_tools_set_and_read_variables_over_turns(stage: Stage, fake_provider: Start) -> None:
    first = [calls(call("keep", "c1", namespace="form", key="order_id", value="A1")), says("Noted.")]
    second = [calls(call("recall", "c2")), says("It is A1.")]
    third = [calls(call("clear", "c3", namespace="form")), calls(call("recall", "c4")), says("Gone.")]
    elsewhere = [calls(call("recall", "c5")), says("No.")]
    graph = graph_of(stage, fake_provider(script(*first, *second, *third, *elsewhere)))
    stage.play(graph, "Note A1.")
    assert session(stage, graph)["vars"] == {"form": {"order_id": "A1"}}
    assert stage.play(graph, "Which?").results()["c2"] == "{'form': {'order_id': 'A1'}}"
    assert stage.play(graph, "Forget it.").results()["c4"] == "{}"
    assert stage.play(graph, "Which?", thread="another").results()["c5"] == "{}"
    assert session(stage, graph)["vars"] == {}


def test_calls_of_one_reply_merge(stage: Stage, fake_provider: Start) -> None:
    both = calls(
        call("keep", "c1", namespace="one", key="count", value=1),
        call("keep", "c2", namespace="two", key="count", value=2),
        call("keep", "c3", namespace="one", key="other", value=3),
    )
    graph = graph_of(stage, fake_provider(script(both, says("Noted."))))
    stage.play(graph, "Go.")
    assert session(stage, graph)["vars"] == {"one": {"count": 1, "other": 3}, "two": {"count": 2}}


def test_calls_that_run_one_after_the_other_see_each_other(stage: Stage, fake_provider: Start) -> None:
    thrice = calls(*(call("count", f"c{number}", by=number) for number in (1, 2, 3)))
    policies = {"count": {"parallel_safe": False}}
    graph = graph_of(stage, fake_provider(script(thrice, says("Three."))), policies=policies)
    assert list(stage.play(graph, "Go.").results().values()) == ["1", "3", "6"]
    assert session(stage, graph)["vars"] == {"counter": {"count": 6}}


def test_what_cannot_be_kept_is_a_failed_result(stage: Stage, fake_provider: Start) -> None:
    def bad() -> ToolOutput:
        """Return what is no JSON."""
        return ToolOutput("x", variables={"form": {"file": b"x"}})

    large = call("large", "c2")

    def large_one() -> ToolOutput:
        """Return too much."""
        return ToolOutput("x", variables={"form": {"text": "y" * MAX_VARIABLES}})

    large_one.__name__ = "large"
    provider = fake_provider(script(calls(call("bad", "c1"), large), says("Sorry.")))
    graph = stage.graph(provider, tools=[bad, large_one])
    put(stage, graph, {"form": {"step": 1}})
    results = stage.play(graph, "Go.").results()
    assert "ToolOutput.variables['form']['file'] is a value of type bytes" in results["c1"]
    assert f"{MAX_VARIABLES} is the most; the largest is variables['form']['text']" in results["c2"]
    assert session(stage, graph)["vars"] == {"form": {"step": 1}}


def test_what_an_effect_has_set_survives_the_turn_being_given_up(stage: Stage, fake_provider: Start) -> None:
    both = calls(call("keep", "c1", namespace="form", key="step", value=2), asks("Sure?", call_id="c2"))
    graph = graph_of(stage, fake_provider(script(both, says("Well."))))
    stage.play(graph, "Go.")
    stage.play(graph, "Never mind.")
    assert session(stage, graph)["vars"] == {"form": {"step": 2}}


def test_what_a_cancelled_turn_has_set_is_not_set_again(stage: Stage, fake_provider: Start) -> None:
    token = CancelToken()

    def stop() -> str:
        """Cancel the turn."""
        token.cancel()
        return "stopped"

    both = calls(
        call("keep", "c1", namespace="form", key="step", value=1), call("stop", "c2"), call("recall", "c3")
    )
    provider = fake_provider(script(both, says("Well.")))
    policies: Any = {name: {"parallel_safe": False} for name in ("keep", "stop", "recall")}
    graph = stage.graph(provider, tools=[*TOOLS, stop], policies=policies)
    assert stage.play(graph, "Go.", context=TurnContext(cancel=token)).status == "cancelled"
    assert session(stage, graph)["vars"] == {"form": {"step": 1}}
    put(stage, graph, {"form": {"step": 2}})
    stage.play(graph, "On.")
    assert session(stage, graph)["vars"] == {"form": {"step": 2}}


def test_callers_set_variables_before_and_between_turns(stage: Stage, fake_provider: Start) -> None:
    graph = graph_of(stage, fake_provider(script(calls(call("recall")), says("A."), says("B."))))
    put(stage, graph, {"form": {"step": 1}, "_own": {"key": "k"}})
    nothing: Any = {"user": None, "created": None, "last_active": None, "tags": {}}
    assert session(stage, graph) == {"vars": {"form": {"step": 1}, "_own": {"key": "k"}}, "meta": nothing}
    assert stage.play(graph, "Go.").results()["c1"] == "{'form': {'step': 1}, '_own': {'key': 'k'}}"
    before = stage.state(graph, CONFIG)
    put(stage, graph, {"form": {"step": None, "id": "A"}, "_own": None})
    after = stage.state(graph, CONFIG)
    assert session(stage, graph)["vars"] == {"form": {"id": "A"}}
    # Nothing else has changed, and nothing is left to run.
    for name in ("messages", "turn", "batch", "answer", "outcome"):
        assert after[name] == before[name]
    with pytest.raises(ValueError, match="no unfinished turn"):
        turn(stage, graph, None)
    assert turn(stage, graph, "On.").answer == "B."


def test_an_open_question_stays_open(stage: Stage, fake_provider: Start) -> None:
    graph = graph_of(stage, fake_provider(script(calls(asks("Which colour?")), says("Blue it is."))))
    turn(stage, graph, "Paint it.")
    with pytest.raises(ValueError, match=r"a question is open .* Command\(resume=answer"):
        put(stage, graph, {"form": {"step": 1}})
    with pytest.raises(ValueError, match="a question is open"):
        tag(stage, graph, {"a": "b"})
    change = session_change(variables={"form": {"step": 1}}, tags={"team": "north"})
    result = turn(stage, graph, Command(resume="blue", update=change))
    assert (result.status, result.answer) == ("finished", "Blue it is.")
    found = session(stage, graph)
    assert (found["vars"], found["meta"]["tags"]) == ({"form": {"step": 1}}, {"team": "north"})


def test_a_failed_turn_can_still_be_gone_on_with(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script({"error": {"status": 401}}, says("Here.")))
    graph = graph_of(stage, provider)
    with pytest.raises(TurnError):
        turn(stage, graph, "Go.")
    with pytest.raises(ValueError, match="the last turn of this thread failed"):
        put(stage, graph, {"form": {"step": 1}})
    assert turn(stage, graph, None).answer == "Here."
    put(stage, graph, {"form": {"step": 1}})
    assert session(stage, graph)["vars"] == {"form": {"step": 1}}


def test_metadata_is_kept(stage: Stage, fake_provider: Start) -> None:
    graph = graph_of(stage, fake_provider(script(says("A."), says("B."), says("C."))))
    tag(stage, graph, {"team": "north", "kind": "test"})
    seen = []
    for user in ("ann", None, "bob"):
        stage.play(graph, "Go.", context=TurnContext(user_id=user))
        seen.append(session(stage, graph)["meta"])
    assert [meta["user"] for meta in seen] == ["ann", "ann", "bob"]
    assert len({meta["created"] for meta in seen}) == 1
    assert seen[0]["created"] <= seen[0]["last_active"] < seen[1]["last_active"] < seen[2]["last_active"]
    tag(stage, graph, {"kind": None, "more": "x"})
    assert session(stage, graph)["meta"]["tags"] == {"team": "north", "more": "x"}
    assert session(stage, graph)["meta"]["last_active"] == seen[2]["last_active"]


@pytest.mark.parametrize("bare_stage", ["sync"], indirect=True)
def test_all_of_it_survives_a_restart(tmp_path: Path, bare_stage: Stage, fake_provider: Start) -> None:
    model = bare_stage.model(fake_provider(script(says("A."), says("B."))))
    with open_saver(tmp_path / "threads.sqlite") as saver:
        graph = build_turn_graph(model, checkpointer=saver)
        set_variables(graph, "t", {"form": {"order_id": "A1", "sizes": [1, 2.5, None]}})
        set_tags(graph, "t", {"team": "north"})
        run_turn(graph, "Go.", thread_id="t", context=TurnContext(user_id="ann"))
        before = session_of(graph, "t")
    with open_saver(tmp_path / "threads.sqlite") as saver:
        graph = build_turn_graph(model, checkpointer=saver)
        assert session_of(graph, "t") == before
        assert before["vars"] == {"form": {"order_id": "A1", "sizes": [1, 2.5, None]}}
        run_turn(graph, "On.", thread_id="t")
        after = session_of(graph, "t")
    assert (after["vars"], after["meta"]["tags"], after["meta"]["user"]) == (
        before["vars"],
        {"team": "north"},
        "ann",
    )


def test_a_thread_from_before_loads(stage: Stage, fake_provider: Start) -> None:
    graph = graph_of(stage, fake_provider(script(calls(call("recall")), says("B."))))
    old = {
        "messages": [HumanMessage("a", id="u1"), AIMessage("A.", id="turn-u1-1")],
        "session": {"grants": {"keep": {"turn_id": "turn-u1"}}},
    }
    if stage.mode == "sync":
        graph.update_state(CONFIG, old, as_node="finalize")
    else:
        stage.run(graph.aupdate_state(CONFIG, old, as_node="finalize"))
    nothing: Any = {"user": None, "created": None, "last_active": None, "tags": {}}
    assert session(stage, graph) == {"vars": {}, "meta": nothing}
    played = stage.play(graph, "Go.")
    assert (played.results()["c1"], played.answer) == ("{}", "B.")
    state = stage.state(graph, CONFIG)["session"]
    assert state["grants"] == {"keep": {"turn_id": "turn-u1"}}
    assert state["meta"]["created"] == state["meta"]["last_active"]


def test_what_keeps_no_sessions_is_refused() -> None:
    other = StateGraph(MessagesState)
    other.add_node("a", lambda _: {})
    other.add_edge(START, "a")
    saved = build_turn_graph("unused", checkpointer=None)
    for graph, thread, complaint in (
        (other.compile(), "t", "no turn graph"),
        (saved, "t", "build it with checkpointer="),
    ):
        with pytest.raises(ValueError, match=complaint):
            session_of(graph, thread)


def test_wrong_values_change_nothing(stage: Stage, fake_provider: Start) -> None:
    graph = graph_of(stage, fake_provider(script(says("A."))))
    stage.play(graph, "Go.")
    before = session(stage, graph)
    wrong: list[Any] = [{"form": {"x": {1, 2}}}, {"a": {"b": "x" * MAX_VARIABLES}}, {"a": 1}]
    for variables in wrong:
        with pytest.raises(ValueError, match="variables"):
            put(stage, graph, variables)
    with pytest.raises(ValueError, match="tag 'a'"):
        tag(stage, graph, {"a": 1})
    with pytest.raises(ValueError, match="thread's id"):
        put(stage, graph, {"a": {"b": 1}}, thread=" ")
    assert session(stage, graph) == before
