"""The turn graph as a node that gets the last turns of its parent and gives what is new."""

from __future__ import annotations

import operator
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, check_transcript
from turnflow import TurnContext, TurnHooks, TurnSaver, build_turn_graph, open_saver
from turnflow.graph.as_node import as_node
from turnflow.graph.turns import pinned

CONFIG: Any = {"configurable": {"thread_id": "p"}}


class WithOutcome(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    outcome: dict[str, Any]


class Adding(TypedDict):
    messages: Annotated[list[Any], operator.add]


def turn_graph(stage: Stage, provider: Any, **options: Any) -> Any:
    return build_turn_graph(stage.model(provider), options.pop("tools", ()), **options)


def alone(node: Any, saver: Any, schema: Any = MessagesState) -> Any:
    """A parent with this node alone."""
    builder = StateGraph(schema, context_schema=TurnContext)
    builder.add_node("turn", node)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=saver)


def invoke(stage: Stage, graph: Any, given: Any, config: Any = CONFIG, **options: Any) -> Any:
    if stage.mode == "sync":
        return graph.invoke(given, config, **options)
    return stage.run(graph.ainvoke(given, config, **options))


def streamed(stage: Stage, graph: Any, given: Any, **options: Any) -> list[Any]:
    parts: list[Any] = []
    told: Any = {"stream_mode": ["custom", "messages"], "version": "v2", **options}

    async def read() -> None:
        parts.extend([part async for part in graph.astream(given, CONFIG, **told)])

    if stage.mode == "sync":
        parts.extend(graph.stream(given, CONFIG, **told))
    else:
        stage.run(read())
    return parts


def state_of(stage: Stage, graph: Any, **options: Any) -> Any:
    if stage.mode == "sync":
        return graph.get_state(CONFIG, **options)
    return stage.run(graph.aget_state(CONFIG, **options))


def texts(messages: Any) -> list[str]:
    return [str(message.content) for message in messages]


def user(text: str, message_id: str | None = None) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=message_id)]}


def test_a_turn_gets_the_last_turns_and_gives_what_is_new(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(*(says(f"Answer {number}.") for number in range(5))))
    graph = alone(as_node(turn_graph(stage, provider), last_turns=2), stage.saver, WithOutcome)
    for number in range(5):
        result = invoke(stage, graph, user(f"Question {number}."))
    expected = [text for number in range(5) for text in (f"Question {number}.", f"Answer {number}.")]
    assert texts(result["messages"]) == expected
    assert len({message.id for message in result["messages"]}) == len(expected)
    assert (result["answer"], result["outcome"]["status"]) == ("Answer 4.", "finished")
    sent = [m["content"] for m in provider.requests[-1]["messages"] if m["role"] != "system"]
    assert sent == ["Question 3.", "Answer 3.", "Question 4."]


def test_tools_run_and_their_messages_come_back(stage: Stage, fake_provider: Start) -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    first = [calls(call("double", number=2)), says("Four.")]
    provider = fake_provider(script(*first, calls(call("double", "c2", number=4)), says("Eight.")))
    graph = alone(as_node(turn_graph(stage, provider, tools=[double])), stage.saver)
    invoke(stage, graph, user("a"))
    result = invoke(stage, graph, user("b"))
    assert texts(result["messages"]) == ["a", "", "4", "Four.", "b", "", "8", "Eight."]
    check_transcript(result["messages"])


def test_pinned_messages_come_along(bare_stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("One.")))
    graph = alone(as_node(turn_graph(bare_stage, provider), last_turns=1), None)
    rule = pinned(HumanMessage("Never say no.", id="u0"))
    given = [rule, AIMessage("Fine.", id="a0"), HumanMessage("x", id="u1"), AIMessage("y", id="a1")]
    result = invoke(bare_stage, graph, {"messages": [*given, HumanMessage("now", id="u2")]})
    sent = [m["content"] for m in provider.requests[0]["messages"] if m["role"] != "system"]
    assert sent == ["Never say no.\n\nnow"]
    assert texts(result["messages"])[-1] == "One."
    assert len(result["messages"]) == 6


def test_a_question_interrupts_the_parent_and_is_answered_through_it(
    stage: Stage, fake_provider: Start
) -> None:
    ran: list[int] = []

    def note(number: int) -> int:
        """Take a note."""
        ran.append(number)
        return number

    reply = calls(call("note", "c1", number=1), asks("Sure?", call_id="c2"), content="A moment.")
    provider = fake_provider(script(reply, says("Ok."), says("Again.")))
    graph = alone(as_node(turn_graph(stage, provider, tools=[note])), stage.saver, WithOutcome)
    paused = invoke(stage, graph, user("a"))
    (interrupt,) = paused["__interrupt__"]
    assert interrupt.value["questions"][0]["prompt"] == "Sure?"
    inner = state_of(stage, graph, subgraphs=True).tasks[0].state
    assert inner.values["turn"]["phase"] == "explore"
    assert ran == [1]
    result = invoke(stage, graph, Command(resume={interrupt.id: "yes"}))
    assert texts(result["messages"]) == ["a", "A moment.", "1", "Sure? → yes", "Ok."]
    assert ran == [1]
    assert len(provider.requests) == 2
    check_transcript(result["messages"])
    assert texts(invoke(stage, graph, user("b"))["messages"])[-1] == "Again."


class CrashError(BaseException):
    """Ends a run as nothing else does."""


def test_a_turn_that_broke_off_goes_on_where_it_was(
    tmp_path: Path, bare_stage: Stage, fake_provider: Start
) -> None:
    ran: list[str] = []

    def pay(what: str) -> str:
        """Pay for something."""
        ran.append(what)
        return f"{what} is paid"

    def crash(info: dict[str, Any]) -> None:
        if info["round"] > 1:
            raise CrashError

    provider = fake_provider(script(calls(call("pay", what="tea")), says("It is paid.")))
    node = as_node(turn_graph(bare_stage, provider, tools=[pay]))
    context = TurnContext(hooks=TurnHooks(before_round=crash))
    options: Any = {"durability": "sync"}
    with open_saver(tmp_path / "parent.sqlite") as saver, pytest.raises(CrashError):
        invoke(bare_stage, alone(node, saver), user("a"), context=context, **options)
    assert (ran, len(provider.requests)) == (["tea"], 1)
    with open_saver(tmp_path / "parent.sqlite") as saver:
        result = invoke(bare_stage, alone(node, saver), None, **options)
    assert ran == ["tea"]
    assert texts(result["messages"]) == ["a", "", "tea is paid", "It is paid."]
    check_transcript(result["messages"])


@pytest.mark.parametrize("subgraphs", [False, True])
def test_events_and_live_text_reach_the_parents_stream(
    stage: Stage, fake_provider: Start, *, subgraphs: bool
) -> None:
    provider = fake_provider(script(calls(call("ask", "c1"), content="I look."), says("One two three.")))

    def ask() -> str:
        """Ask around."""
        return "nobody knows"

    graph = alone(as_node(turn_graph(stage, provider, tools=[ask])), stage.saver)
    parts = streamed(stage, graph, user("a"), subgraphs=subgraphs)
    events = [part["data"] for part in parts if part["type"] == "custom"]
    assert [event["type"] for event in events].count("turn.started") == 1
    assert (events[0]["type"], events[-1]["type"]) == ("turn.started", "turn.ended")
    assert len({event["seq"] for event in events}) == len(events)
    if not subgraphs:
        assert {part["ns"] for part in parts} == {()}
    live: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for part in parts:
        if part["type"] == "messages" and isinstance(part["data"][0], AIMessageChunk):
            message = part["data"][0]
            shown[str(message.id)] = shown.get(str(message.id), "") + str(message.content)
        elif part["type"] == "messages":
            live[str(part["data"][0].id)] += 1
    stored = state_of(stage, graph).values["messages"]
    assert shown == {m.id: m.content for m in stored if isinstance(m, AIMessage)}
    assert dict(live) == {m.id: 1 for m in stored if m.type == "tool"}


def test_events_may_stay_inside(stage: Stage, fake_provider: Start) -> None:
    node = as_node(turn_graph(stage, fake_provider(script(says("One.")))), forward_events=False)
    graph = alone(node, stage.saver)
    parts = streamed(stage, graph, user("a"))
    assert [part["type"] for part in parts] == ["messages"]
    assert parts[0]["data"][0].content == "One."


def test_after_a_pause_nothing_is_streamed_twice(stage: Stage, fake_provider: Start) -> None:
    reply = calls(asks("Sure?", call_id="c1"), content="A moment.")
    graph = alone(as_node(turn_graph(stage, fake_provider(script(reply, says("Ok."))))), stage.saver)
    before = streamed(stage, graph, user("a"))
    after = streamed(stage, graph, Command(resume="yes"))
    first, second = (
        "".join(p["data"][0].content for p in parts if p["type"] == "messages") for parts in (before, after)
    )
    assert first == "A moment."
    assert (second.startswith("Sure?"), second.count("Ok."), "moment" in second) == (True, 1, False)


@pytest.mark.parametrize("schema", [MessagesState, Adding])
def test_two_nodes_answer_the_same_message_side_by_side(
    stage: Stage, fake_provider: Start, schema: Any
) -> None:
    turn = turn_graph(stage, fake_provider(script(says("One."), says("Two."), says("3."), says("4."))))
    builder = StateGraph(schema)
    for name in ("left", "right"):
        builder.add_node(name, as_node(turn, outputs=()))
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    graph = builder.compile(checkpointer=stage.saver)
    invoke(stage, graph, user("a", "u1"))
    result = invoke(stage, graph, user("b", "u2"))
    found = texts(result["messages"])
    assert sorted(found) == ["3.", "4.", "One.", "Two.", "a", "b"]
    assert (found[0], found[3]) == ("a", "b")
    assert len({message.id for message in result["messages"]}) == 6


def test_one_node_that_is_sent_to_several_times(bare_stage: Stage, fake_provider: Start) -> None:
    turn = turn_graph(bare_stage, fake_provider(script(*[says("Done.")] * 3)))
    builder = StateGraph(MessagesState)
    builder.add_node("turn", as_node(turn, outputs=()))
    builder.add_conditional_edges(START, lambda state: [Send("turn", state)] * 3, ["turn"])
    result = invoke(bare_stage, builder.compile(), user("a", "u1"))
    assert texts(result["messages"]) == ["a", "Done.", "Done.", "Done."]


def test_a_loop_goes_through_the_node_again(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Draft."), says("Better."), says("Good.")))
    builder = StateGraph(MessagesState)
    builder.add_node("turn", as_node(turn_graph(stage, provider)))
    builder.add_node("review", lambda _: {})
    builder.add_edge(START, "turn")
    builder.add_edge("turn", "review")
    builder.add_conditional_edges(
        "review", lambda state: END if len(state["messages"]) > 3 else "turn", ["turn", END]
    )
    graph = builder.compile(checkpointer=stage.saver)
    result = invoke(stage, graph, user("a", "u1"))
    assert texts(result["messages"]) == ["a", "Draft.", "Better.", "Good."]
    sent = [m["content"] for m in provider.requests[-1]["messages"] if m["role"] != "system"]
    assert sent == ["a", "Draft.\n\nBetter.", "Go on with the task."]


def test_a_parent_that_only_adds(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(*[says("Yes."), says("Yes."), says("Yes.")]))
    graph = alone(as_node(turn_graph(stage, provider), last_turns=1), stage.saver, Adding)
    for _ in range(3):
        # Without ids, and the same each time.
        result = invoke(stage, graph, {"messages": [("user", "Well?")]})
    assert [m if isinstance(m, tuple) else m.content for m in map(as_plain, result["messages"])] == [
        "Well?",
        "Yes.",
    ] * 3
    replies = [m for m in result["messages"] if isinstance(m, AIMessage)]
    assert len({reply.id for reply in replies}) == 3


def as_plain(message: Any) -> Any:
    """A message as it is; a pair that a saver may have made a list of, as a message."""
    return message if isinstance(message, AIMessage) else HumanMessage(message[1])


def test_a_graph_that_remembers_gets_the_last_turn_alone(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("One."), says("Two."), says("Three.")))
    graph = alone(as_node(turn_graph(stage, provider, checkpointer=True)), stage.saver)
    for text in ("a", "b", "c"):
        result = invoke(stage, graph, user(text))
    assert texts(result["messages"]) == ["a", "One.", "b", "Two.", "c", "Three."]
    sent = [m["content"] for m in provider.requests[-1]["messages"] if m["role"] != "system"]
    assert sent == ["a", "One.", "b", "Two.", "c"]


def test_what_a_turn_stores_does_not_grow(tmp_path: Path, bare_stage: Stage, fake_provider: Start) -> None:
    turns, kept = 50, 3
    provider = fake_provider(script(*(says(f"Answer {n:02}: {'text ' * 100}") for n in range(turns))))
    sizes = []
    with open_saver(tmp_path / "parent.sqlite") as saver:
        graph = alone(as_node(turn_graph(bare_stage, provider), last_turns=kept), saver)
        for number in range(turns):
            result = invoke(bare_stage, graph, user(f"Question {number:02}: {'word ' * 100}"))
            sizes.append(stored_by_newest(saver))
        assert len(result["messages"]) == 2 * turns
    assert min(sizes) > 1000
    assert max(sizes[kept:]) <= 1.1 * sizes[kept]
    assert len(provider.requests[-1]["messages"]) == 1 + 2 * kept - 1


def stored_by_newest(saver: TurnSaver) -> int:
    """Bytes that the newest turn inside a parent has stored; the parent's own stand in the namespace ''."""
    newest = "SELECT checkpoint_ns FROM checkpoints WHERE checkpoint_ns != '' ORDER BY checkpoint_id DESC"
    sizes = (
        "SELECT SUM(LENGTH(checkpoint) + LENGTH(metadata)) FROM checkpoints WHERE checkpoint_ns = ?",
        "SELECT SUM(LENGTH(value)) FROM writes WHERE checkpoint_ns = ?",
    )
    with saver.cursor(transaction=False) as cursor:
        namespace = cursor.execute(newest).fetchone()
        return sum(cursor.execute(size, namespace).fetchone()[0] or 0 for size in sizes)


def test_what_cannot_be_a_node_is_refused() -> None:
    make: Any = as_node
    turn = build_turn_graph("unused")
    wrong: Any = (
        (lambda: make("turn"), "graph is one that build_turn_graph made"),
        (lambda: make(turn, last_turns=0), "last_turns is a whole number from 1 on"),
        (lambda: make(turn, last_turns=True), "last_turns is a whole number from 1 on"),
        (lambda: make(turn, outputs="answer"), "outputs is a list"),
        (lambda: make(turn, outputs=["messages"]), "outputs is a list"),
    )
    for made, complaint in wrong:
        with pytest.raises(ValueError, match=complaint):
            made()


def test_the_parents_drawing_shows_the_turn_inside() -> None:
    graph = alone(as_node(build_turn_graph("unused")), InMemorySaver())
    assert "finalize" in graph.get_graph(xray=True).draw_mermaid()
