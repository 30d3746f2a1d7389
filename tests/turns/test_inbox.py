"""Input that comes while a turn runs: the turn ends for it, or takes it in; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, check_transcript
from turnflow import (
    CancelToken,
    ProviderProfile,
    ToolPolicy,
    TurnContext,
    TurnError,
    arun_turn,
    as_node,
    build_turn_graph,
    full_history,
    replay,
    run_turn,
    visible_history,
)
from turnflow.graph.inbox import Inbox
from turnflow.graph.transcript import is_steering
from turnflow.graph.turns import turn_spans

LATE = "And in blue, please."


class Desk:
    """A graph whose tool `work` puts input into the inbox, as a user would who types meanwhile."""

    def __init__(self, stage: Stage, provider: Any, *, durable: bool = False, **options: Any) -> None:
        self.stage = stage
        self.typed: list[Any] = [LATE]
        """What is typed while each call of `work` runs; None types nothing."""
        self.inbox: Any = Inbox()
        if durable and hasattr(stage.saver, "inbox"):
            self.inbox = stage.saver.inbox("t")
        self.after: Callable[[], None] = lambda: None

        def work(name: str) -> str:
            """Do some work."""
            if self.typed and (text := self.typed.pop(0)) is not None:
                self.inbox.put(text)
            self.after()
            return f"did {name}"

        self.work = work
        options.setdefault("tools", [work])
        self.graph = stage.graph(provider, **options)

    def context(self, **fields: Any) -> TurnContext:
        return TurnContext(inbox=self.inbox, **fields)

    def play(self, given: Any, **options: Any) -> Any:
        return self.stage.play(
            self.graph, given, context=self.context(**options.pop("fields", {})), **options
        )

    def run(self, given: Any, **options: Any) -> Any:
        context = self.context(**options.pop("fields", {}))
        if self.stage.mode == "sync":
            return run_turn(self.graph, given, thread_id="t", context=context, **options)
        return self.stage.run(arun_turn(self.graph, given, thread_id="t", context=context, **options))

    def waiting(self) -> list[str]:
        return [str(message.content) for message in self.inbox.pending()]

    def state(self) -> dict[str, Any]:
        return self.stage.state(self.graph, {"configurable": {"thread_id": "t"}})


def works(call_id: str = "c1") -> dict[str, Any]:
    return calls(call("work", call_id, name=call_id))


def users(messages: Iterable[Any]) -> list[str]:
    return [str(m.content) for m in messages if isinstance(m, HumanMessage)]


STEER = {"pending_input": "steer"}


# Ending for it


def test_the_turn_ends_after_the_batch_and_the_next_one_takes_it(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works(), says("Blue it is."))))
    played = desk.play("Paint it.")
    assert (played.status, played.outcome["stop_reason"]) == ("pending_input", "pending_input")
    assert played.shape() == ["human", "ai:work", "tool", "ai"]
    assert played.answer.startswith("New input came")
    assert desk.waiting() == [LATE]
    result = desk.run(desk.inbox.pending())
    assert (result.status, result.answer) == ("finished", "Blue it is.")
    assert users(result.messages) == ["Paint it.", LATE]
    assert desk.waiting() == []


def test_the_answer_is_in_the_language_of_the_run(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works())))
    assert "新的输入" in desk.play("画吧。", fields={"locale": "zh"}).answer


def test_several_items_become_one_input_in_their_order(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Both.")))
    desk = Desk(stage, provider)
    desk.inbox.put("First.", id="a")
    desk.inbox.put("Second.", id="b")
    result = desk.run(desk.inbox.pending())
    assert [m.id for m in result.messages[:2]] == ["a", "b"]
    assert desk.waiting() == []
    assert provider.requests[-1]["messages"][-1]["content"] == "First.\n\nSecond."


def test_the_input_of_a_turn_is_not_taken_for_new_input(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works("c1"), works("c2"), says("Done."))))
    desk.typed = []
    desk.inbox.put("Paint it.")
    result = desk.run(desk.inbox.pending())
    assert result.status == "finished"
    assert desk.waiting() == []


# Taking it in


@pytest.mark.parametrize("durable", [False, True])
def test_the_model_sees_it_in_the_next_request(stage: Stage, fake_provider: Start, *, durable: bool) -> None:
    provider = fake_provider(script(works(), says("Blue it is."), says("Welcome.")))
    desk = Desk(stage, provider, durable=durable, settings=STEER)
    played = desk.play("Paint it.")
    assert played.status == "finished"
    assert played.shape() == ["human", "ai:work", "tool", "human", "ai"]
    late = played.messages[3]
    assert is_steering(late)
    assert [event["message_ids"] for event in played.of("steered")] == [[late.id]]
    assert provider.requests[1]["messages"][-1] == {"role": "user", "content": LATE}
    # LangGraph stores checkpoints of a plain run in the background: they may be late.
    assert desk.waiting() in ([], [LATE])
    after = desk.play("Thanks.")
    assert desk.waiting() == []
    assert after.shape()[-2:] == ["human", "ai"]
    assert users(after.messages) == ["Paint it.", LATE, "Thanks."]
    turn = desk.state()["turn"]
    assert turn["position"] == 1
    assert [span.input_id for span in turn_spans(after.messages)][-1] == turn["input_id"]
    assert len(turn_spans(after.messages)) == 2


def test_it_belongs_to_its_turn_in_history_and_record(stage: Stage, fake_provider: Start) -> None:
    steps = [step for number in range(6) for step in (works(f"c{number}"), says(f"Answer {number}."))]
    desk = Desk(stage, fake_provider(script(*steps)), settings={**STEER, "state_turns": 2})
    desk.typed = [f"late {number}" for number in range(6)]
    for number in range(6):
        desk.play(f"question {number}")
    said = [text for number in range(6) for text in (f"question {number}", f"late {number}")]
    history = full_history(desk.graph, "t")
    assert users(history) == users(visible_history(history)) == said
    assert len(turn_spans(history)) == 6
    assert users(full_history(desk.graph, "t", last=2)) == said[-4:]
    assert desk.state()["turn"]["position"] == 5
    for position, span in enumerate(turn_spans(history)):
        replayed = replay(stage.saver, "t", f"turn-{span.input_id}")
        assert replayed.difference is None, (position, replayed.difference)


def test_a_turn_that_ended_for_input_is_played_again_the_same(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works("c1"), works("c2"))))
    desk.typed = [None, LATE]
    played = desk.play("Paint it.")
    assert played.status == "pending_input"
    assert replay(stage.saver, "t", played.outcome["turn_id"]).difference is None


def test_it_is_looked_for_once_all_calls_of_a_reply_are_done(stage: Stage, fake_provider: Start) -> None:
    """Calls that must run one by one are several waves of one batch."""
    both = calls(call("work", "c1", name="one"), call("work", "c2", name="two"))
    provider = fake_provider(script(both, says("Done.")))
    desk = Desk(stage, provider, settings=STEER, policies={"work": ToolPolicy(parallel_safe=False)})
    played = desk.play("Go.")
    assert played.shape() == ["human", "ai:work,work", "tool", "tool", "human", "ai"]


def test_not_while_a_question_is_open(stage: Stage, fake_provider: Start) -> None:
    both = calls(call("work", "c1", name="one"), asks("Which?", call_id="q"))
    desk = Desk(stage, fake_provider(script(both, says("Done."))), settings=STEER)
    paused = desk.play("Go.")
    assert paused.status == "paused"
    assert desk.waiting() == [LATE]
    result = desk.run(Command(resume="this"))
    assert [m.type for m in result.messages] == ["human", "ai", "tool", "tool", "human", "ai"]
    assert desk.waiting() == []


@pytest.mark.parametrize("setting", ["yield", "steer"])
def test_not_when_the_turn_ends_anyway(stage: Stage, fake_provider: Start, setting: str) -> None:
    desk = Desk(
        stage,
        fake_provider(script(works())),
        settings={"pending_input": setting},
    )
    token = CancelToken()
    desk.after = token.cancel
    played = desk.play("Go.", fields={"cancel": token})
    assert played.status == "cancelled"
    assert desk.waiting() == [LATE]


def test_too_late_for_the_model_to_act_waits_for_the_next_turn(stage: Stage, fake_provider: Start) -> None:
    settings = {**STEER, "max_rounds": 1, "settle_rounds": 0}
    desk = Desk(stage, fake_provider(script(works(), says("Done."), says("Next."))), settings=settings)
    assert desk.play("Go.").status == "finished_budget"
    assert desk.waiting() == [LATE]
    assert desk.run(desk.inbox.pending()).answer == "Next."
    assert desk.waiting() == []


# Never lost, never twice


class Sticky(Inbox):
    """Cannot acknowledge."""

    def acknowledge(self, ids: Iterable[str]) -> None:
        raise OSError("the queue is read-only")


class Broken(Inbox):
    def pending(self) -> list[HumanMessage]:
        raise OSError("the queue is gone")


class Nonsense(Inbox):
    def pending(self) -> Any:
        return ["a text"]


@pytest.mark.parametrize("inbox", [Broken(), Nonsense()])
def test_an_inbox_that_fails_breaks_no_turn(
    stage: Stage, fake_provider: Start, inbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(stage, fake_provider(script(works(), says("Done."))), settings=STEER)
    desk.inbox = inbox
    with caplog.at_level(logging.WARNING, "turnflow"):
        assert desk.run("Go.").status == "finished"
    assert "the inbox failed" in caplog.text


def test_what_cannot_be_acknowledged_is_taken_in_once(stage: Stage, fake_provider: Start) -> None:
    """Also once it has left the state for the archive."""
    steps = [step for number in range(5) for step in (works(f"c{number}"), says(f"Answer {number}."))]
    desk = Desk(stage, fake_provider(script(*steps)), settings={**STEER, "state_turns": 1})
    desk.inbox = Sticky()
    for number in range(5):
        assert desk.run(f"question {number}").status == "finished"
    assert Counter(users(full_history(desk.graph, "t")))[LATE] == 1
    assert desk.waiting() == [LATE]


def test_it_is_acknowledged_no_sooner_than_it_is_stored(stage: Stage, fake_provider: Start) -> None:
    """At each call of `acknowledge` the saver gives the items back."""
    desk = Desk(stage, fake_provider(script(works("c1"), works("c2"), says("Done."))), settings=STEER)
    checked: list[str] = []

    class Checking(Inbox):
        def acknowledge(self, ids: Iterable[str]) -> None:
            taken = list(ids)
            stored = build_turn_graph("none", checkpointer=stage.saver).get_state(
                {"configurable": {"thread_id": "t"}}
            )
            assert set(taken) <= {m.id for m in stored.values["messages"]}
            checked.extend(taken)
            super().acknowledge(taken)

    desk.inbox = Checking()
    desk.typed = [LATE, "And red."]
    result = desk.run("Go.")
    assert checked == [m.id for m in result.messages if is_steering(m)]
    assert len(checked) == 2
    assert desk.waiting() == []


def test_a_client_that_puts_an_item_in_again_is_not_answered_twice(
    stage: Stage, fake_provider: Start
) -> None:
    desk = Desk(
        stage, fake_provider(script(works("c1"), says("One."), works("c2"), says("Two."))), settings=STEER
    )
    desk.typed = [HumanMessage(LATE, id="x"), HumanMessage(LATE, id="x")]
    desk.run("Go.")
    result = desk.run("Go on.")
    assert users(result.messages) == ["Go.", LATE, "Go on."]
    assert desk.waiting() == []


def test_what_a_run_before_took_in_is_no_input_any_more(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works(), says("Done."))), settings=STEER)
    desk.inbox = Sticky()
    first = desk.run("Go.")
    again = desk.run(desk.inbox.pending())
    assert again.answer == first.answer == "Done."
    assert users(again.messages) == ["Go.", LATE]
    mixed = desk.inbox.pending()
    assert is_steering(again.messages[-2])
    assert not is_steering(mixed[0])


def test_sent_again_by_a_plain_invoke_it_stays_in_its_turn(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works(), says("Done."), says("Next."))), settings=STEER)
    desk.inbox = Sticky()
    desk.play("Go.")
    played = desk.play({"messages": [*desk.inbox.pending(), HumanMessage("Next?")]})
    assert users(played.messages) == ["Go.", LATE, "Next?"]
    assert len(turn_spans(played.messages)) == 2


def test_a_turn_that_fails_keeps_what_it_was_given(stage: Stage, fake_provider: Start) -> None:
    failure = {"error": {"status": 401, "message": "no such key"}}
    desk = Desk(stage, fake_provider(script(failure, says("Hello."))))
    desk.inbox.put("Hello?")
    with pytest.raises(TurnError):
        desk.run(desk.inbox.pending())
    held = users(desk.state()["messages"]) + desk.waiting()
    assert set(held) == {"Hello?"}
    result = desk.run(None)
    assert result.answer == "Hello."
    assert users(result.messages) == ["Hello?"]
    assert desk.waiting() == []


def test_a_run_that_is_broken_off_keeps_what_it_took_in(stage: Stage, fake_provider: Start) -> None:
    desk = Desk(stage, fake_provider(script(works(), says("Blue."))), settings=STEER)

    def run() -> None:
        def on_event(event: dict[str, Any]) -> None:
            if event["type"] == "steered":
                raise KeyboardInterrupt

        run_turn(desk.graph, "Go.", thread_id="t", context=desk.context(), on_event=on_event)

    async def arun() -> None:
        def on_event(event: dict[str, Any]) -> None:
            if event["type"] == "steered":
                task.cancel()

        task = asyncio.ensure_future(
            arun_turn(desk.graph, "Go.", thread_id="t", context=desk.context(), on_event=on_event)
        )
        await task

    with pytest.raises((KeyboardInterrupt, asyncio.CancelledError)):
        run() if stage.mode == "sync" else stage.run(arun())
    held = users(desk.state()["messages"])
    assert Counter(held) in (Counter(["Go."]), Counter(["Go.", LATE]))
    assert LATE in held + desk.waiting()
    result = desk.run(desk.inbox.pending() or "Which colour?")
    check_transcript(result.messages)
    assert Counter(users(result.messages))[LATE] == 1
    assert desk.waiting() == []


def test_calls_in_text(stage: Stage, fake_provider: Start) -> None:
    """Where results are user messages themselves, what the user says stands apart from them."""
    called = says('<tool_call>{"name": "work", "arguments": {"name": "c1"}}</tool_call>')
    provider = fake_provider(script(called, says("Blue it is.")))
    profile = ProviderProfile(native_tools=False, text_dialects=("hermes",))
    desk = Desk(stage, provider, settings=STEER, profile=profile)
    assert desk.play("Paint it.").shape() == ["human", "ai:work", "tool", "human", "ai"]
    assert [m["role"] for m in provider.requests[1]["messages"]] == [
        "system",
        *("user", "assistant") * 2,
        "user",
    ]
    assert provider.requests[1]["messages"][-1]["content"] == LATE


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("setting", ["yield", "steer"])
def test_whenever_checkpoints_are_stored(
    stage: Stage, fake_provider: Start, durability: Any, setting: str
) -> None:
    provider = fake_provider(script(works("c1"), says("Done.")))
    desk = Desk(stage, provider, settings={"pending_input": setting})
    result = desk.run("Go.", durability=durability)
    while desk.inbox.pending():
        result = desk.run(desk.inbox.pending(), durability=durability)
    assert users(result.messages) == ["Go.", LATE]


def test_without_a_saver(bare_stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(works(), says("Done."), says("Next.")))
    desk = Desk(bare_stage, provider, settings=STEER)
    played = desk.play("Go.")
    assert users(played.messages) == ["Go.", LATE]
    assert desk.waiting() == [LATE]  # nothing is stored, so only the caller knows when it is safe
    after = desk.play({"messages": [*played.messages, HumanMessage("Next?")]})
    assert users(after.messages) == ["Go.", LATE, "Next?"]
    assert desk.waiting() == []


def test_without_a_saver_run_turn_gives_it_to_the_caller(bare_stage: Stage, fake_provider: Start) -> None:
    desk = Desk(bare_stage, fake_provider(script(works(), says("Done."))), settings=STEER)
    assert users(desk.run("Go.").messages) == ["Go.", LATE]
    assert desk.waiting() == []


# Inside a parent


def parent(stage: Stage, node: Any) -> Any:
    builder = StateGraph(MessagesState, context_schema=TurnContext)
    builder.add_node("turn", node)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=stage.saver)


@pytest.mark.parametrize("kind", ["subgraph", "node", "remembering"])
@pytest.mark.parametrize("setting", ["yield", "steer"])
def test_embedded(stage: Stage, fake_provider: Start, kind: str, setting: str) -> None:
    provider = fake_provider(script(works("c1"), says("One."), works("c2"), says("Two."), says("Three.")))
    desk = Desk(stage, provider)
    model = stage.model(provider, max_retries=0)
    inner = build_turn_graph(
        model,
        [desk.work],
        settings={"pending_input": setting},
        checkpointer=True if kind == "remembering" else None,
    )
    graph = parent(stage, inner if kind == "subgraph" else as_node(inner))
    config: Any = {"configurable": {"thread_id": "p"}}

    def invoke(given: Any) -> Any:
        options = {"config": config, "context": desk.context(), "durability": "sync"}
        if stage.mode == "sync":
            return graph.invoke({"messages": given}, **options)
        return stage.run(graph.ainvoke({"messages": given}, **options))

    said = ["Go."]
    values = invoke([HumanMessage("Go.")])
    assert desk.waiting() in ([LATE], [])
    if setting == "yield":
        assert desk.waiting() == [LATE]
        values = invoke(desk.inbox.pending())
    said.append(LATE)
    assert users(values["messages"]) == said
    for number in range(2):
        said.append(f"more {number}")
        values = invoke([HumanMessage(said[-1])])
        assert users(values["messages"]) == said
        check_transcript(values["messages"])
        assert desk.waiting() == []


def test_typed_from_other_threads_and_tasks_while_turns_run(stage: Stage, fake_provider: Start) -> None:
    """Each item is taken exactly once, whoever puts it in and whenever."""
    provider = fake_provider({"steps": [
        {"when": {"last_role": "user"}, "reply": works("c")["reply"], "forever": True},
        {"when": {"last_role": "tool"}, "reply": says("Done.")["reply"], "forever": True},
    ]})  # fmt: skip
    desk = Desk(stage, provider, settings={**STEER, "state_turns": 2})
    desk.typed = []
    texts = [f"item {number}" for number in range(30)]

    def type_all(own: list[str]) -> None:
        for text in own:
            desk.inbox.put(text)

    typists = [threading.Thread(target=type_all, args=(texts[start::3],)) for start in range(3)]
    for typist in typists:
        typist.start()
    desk.run("Go.")
    for typist in typists:
        typist.join()
    while items := desk.inbox.pending():
        desk.run(items[:4])
    assert Counter(users(full_history(desk.graph, "t"))) == Counter(["Go.", *texts])


# The cost of having none


def test_a_turn_without_input_takes_no_further_step(stage: Stage, fake_provider: Start) -> None:
    def steps(thread: str, context: Any) -> tuple[int, list[str]]:
        provider = fake_provider(script(works("c1"), works("c2"), says("Done.")))
        desk = Desk(stage, provider, settings=STEER)
        desk.typed = []
        played = stage.play(desk.graph, "Go.", thread=thread, context=context)
        snapshot = build_turn_graph("none", checkpointer=stage.saver).get_state(
            {"configurable": {"thread_id": thread}}
        )
        assert snapshot.metadata is not None
        return snapshot.metadata["step"], played.types()

    assert steps("a", None) == steps("b", TurnContext(inbox=Inbox()))


def test_an_ordinary_message_of_the_assistant_is_not_steering() -> None:
    assert not is_steering(AIMessage("x", additional_kwargs={"turnflow": {"steering": True}}))


def test_a_run_takes_an_inbox_alone() -> None:
    class Awaited(Inbox):
        async def pending(self) -> list[HumanMessage]:  # type: ignore[override]
            return []

    for wrong in ("box", Inbox, object(), Awaited()):
        with pytest.raises(ValueError, match=r"TurnContext\.inbox"):
            TurnContext(inbox=wrong)
    assert TurnContext(inbox=Inbox()).inbox is not None


class Told(Inbox):
    """Notes what was acknowledged while nothing was stored yet."""

    def __init__(self, saver: Any) -> None:
        super().__init__()
        self.saver = saver
        self.too_early: list[str] = []

    def acknowledge(self, ids: Iterable[str]) -> None:
        ids = list(ids)
        if self.saver.get_tuple({"configurable": {"thread_id": "p"}}) is None:
            self.too_early += ids
        super().acknowledge(ids)


def test_nothing_is_acknowledged_by_what_only_the_running_state_says(
    fake_provider: Start, tmp_path: Path
) -> None:
    stage = Stage("sync", "sqlite", tmp_path)
    inbox = Told(stage.saver)

    def work(name: str) -> str:
        """Do some work."""
        inbox.put("And in blue.", id="s1")
        return f"did {name}"

    model = stage.model(fake_provider(script(works(), says("Done."))))
    builder = StateGraph(MessagesState, context_schema=TurnContext)
    builder.add_node("turn", as_node(build_turn_graph(model, [work], settings=STEER, checkpointer=True)))
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    parent = builder.compile(checkpointer=stage.saver)
    inbox.put("Paint it.", id="s0")
    given: Any = {"messages": inbox.pending()}
    config: Any = {"configurable": {"thread_id": "p"}}
    parent.invoke(given, config, context=TurnContext(inbox=inbox), durability="exit")
    assert inbox.too_early == []
    stage.close()
