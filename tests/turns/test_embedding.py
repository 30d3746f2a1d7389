"""The graph as a node of a parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, check_transcript
from turnflow import TurnContext, build_turn_graph


def parent(stage: Stage, provider: Any, **options: Any) -> Any:
    turn = build_turn_graph(stage.model(provider), options.pop("tools", ()), **options)
    builder = StateGraph(MessagesState)
    builder.add_node("turn", turn)
    builder.add_node("after", lambda state: {"messages": [("ai", f"{len(state['messages'])} so far")]})
    builder.add_edge(START, "turn")
    builder.add_edge("turn", "after")
    builder.add_edge("after", END)
    return builder.compile(checkpointer=InMemorySaver())


def invoke(stage: Stage, graph: Any, given: Any) -> Any:
    config = {"configurable": {"thread_id": "p"}}
    if stage.mode == "sync":
        return graph.invoke(given, config)
    return stage.run(graph.ainvoke(given, config))


def test_a_turn_inside_a_parent(bare_stage: Stage, fake_provider: Start) -> None:
    graph = parent(bare_stage, fake_provider(script(says("One."), says("Two."))))
    invoke(bare_stage, graph, {"messages": [("user", "a")]})
    result = invoke(bare_stage, graph, {"messages": [("user", "b")]})
    assert [m.content for m in result["messages"]] == ["a", "One.", "2 so far", "b", "Two.", "5 so far"]


def test_a_pause_inside_a_parent(bare_stage: Stage, fake_provider: Start) -> None:
    ran: list[int] = []

    def note(number: int) -> int:
        """Take a note."""
        ran.append(number)
        return number

    provider = fake_provider(
        script(calls(call("note", "c1", number=1), asks("Sure?", call_id="c2")), says("Ok."))
    )
    graph = parent(bare_stage, provider, tools=[note])
    paused = invoke(bare_stage, graph, {"messages": [("user", "a")]})
    assert paused["__interrupt__"][0].value["questions"][0]["prompt"] == "Sure?"
    result = invoke(bare_stage, graph, Command(resume="yes"))
    assert [m.content for m in result["messages"]][-2:] == ["Ok.", "5 so far"]
    assert ran == [1]
    check_transcript(result["messages"][:-1])


def test_events_reach_a_parent_that_streams_subgraphs(bare_stage: Stage, fake_provider: Start) -> None:
    graph = parent(bare_stage, fake_provider(script(says("One two."))))
    given = {"messages": [("user", "a")]}
    config = {"configurable": {"thread_id": "p"}}
    options: Any = {"stream_mode": ["custom", "messages"], "subgraphs": True, "version": "v2"}
    parts: list[Any] = []

    async def read() -> None:
        parts.extend([part async for part in graph.astream(given, config, **options)])

    if bare_stage.mode == "sync":
        parts.extend(graph.stream(given, config, **options))
    else:
        bare_stage.run(read())
    events = [p["data"]["type"] for p in parts if p["type"] == "custom"]
    assert (events[0], events[-1]) == ("turn.started", "turn.ended")
    chunks = [
        p["data"][0] for p in parts if p["type"] == "messages" and isinstance(p["data"][0], AIMessageChunk)
    ]
    assert "".join(str(chunk.content) for chunk in chunks) == "One two."


def test_a_parents_own_context_may_hold_the_turns(bare_stage: Stage, fake_provider: Start) -> None:
    @dataclass
    class Parents:
        name: str
        turn: TurnContext | None = None

    provider = fake_provider(script(says("One."), says("Two.")))
    builder = StateGraph(MessagesState, context_schema=Parents)
    builder.add_node("turn", build_turn_graph(bare_stage.model(provider)))
    builder.add_edge(START, "turn")
    graph: Any = builder.compile()
    for turn in (None, TurnContext(instructions="Be kind.")):
        given = {"messages": [("user", "a")]}
        context = Parents("ann", turn)
        if bare_stage.mode == "sync":
            graph.invoke(given, context=context)
        else:
            bare_stage.run(graph.ainvoke(given, context=context))
    prompts = [request["messages"][0]["content"] for request in provider.requests]
    assert ["Be kind." in prompt for prompt in prompts] == [False, True]


def test_a_parent_may_go_through_the_turn_twice(bare_stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("One."), says("Two.")))
    turn = build_turn_graph(bare_stage.model(provider))
    builder = StateGraph(MessagesState)
    builder.add_node("first", turn)
    builder.add_node("second", turn)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    result = invoke(bare_stage, graph, {"messages": [("user", "a")]})
    assert [m.content for m in result["messages"]] == ["a", "One.", "Two."]
    assert provider.requests[1]["messages"][-1] == {"role": "user", "content": "Go on with the task."}
