"""Turns on the edge: nested, side by side, cancelled at the end, under tools that come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langgraph.constants import START
from langgraph.types import StateSnapshot, interrupt

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage, add
from turnflow import (
    CancelToken,
    ToolOutput,
    ToolPolicy,
    TurnContext,
    TurnError,
    TurnHooks,
    build_turn_graph,
    run_turn,
)
from turnflow.graph.flow import drive
from turnflow.graph.run import _settle, is_unfinished
from turnflow.graph.runner import Runner


class Raises(BaseChatModel):
    """A model whose request ends with an exception."""

    error: Any

    @property
    def _llm_type(self) -> str:
        return "raises"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        yield self._fail()

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        yield self._fail()

    def _fail(self) -> ChatGenerationChunk:
        raise self.error

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=tools)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("token", [None, CancelToken()], ids=["bare", "token"])
def test_a_stream_that_raises_cancelled_ends_the_turn(stage: Stage, token: CancelToken | None) -> None:
    graph = build_turn_graph(Raises(error=asyncio.CancelledError()), checkpointer=stage.saver)
    played = stage.play(graph, "Go.", context=TurnContext(cancel=token))
    assert played.status == "provider_error"
    assert isinstance(played.error, TurnError)


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class WordlessError(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value] # noqa: PLE0307 - foreign code does so


@pytest.mark.parametrize("error", [MuteError(), WordlessError()])
def test_a_tool_that_raises_an_exception_without_a_text(
    stage: Stage, fake_provider: Start, error: Exception
) -> None:
    def bad() -> str:
        """Raise."""
        raise error

    provider = fake_provider(script(calls(call("bad")), says("Done.")))
    played = stage.play(stage.graph(provider, tools=[bad]), "Go.")
    assert f"failed with {type(error).__name__}" in played.results()["c1"]
    assert played.answer == "Done."


def test_a_turn_that_a_tool_has_ended_is_not_cancelled_any_more(stage: Stage, fake_provider: Start) -> None:
    token = CancelToken()

    def finish() -> ToolOutput:
        """Finish."""
        return ToolOutput("The end.", terminate=True)

    def cancel(_: dict[str, Any]) -> None:
        token.cancel()

    graph = stage.graph(fake_provider(script(calls(call("finish")))), tools=[finish])
    context = TurnContext(cancel=token, hooks=TurnHooks(on_tool_result=cancel))
    played = stage.play(graph, "Go.", context=context)
    assert (played.answer, played.status, played.outcome["stop_reason"]) == (
        "The end.",
        "finished",
        "terminate",
    )


def test_availability_is_decided_once_a_turn(stage: Stage, fake_provider: Start) -> None:
    asked: list[Any] = []

    def available(context: Any) -> bool:
        asked.append(context.user_id)
        return len(asked) == 1

    provider = fake_provider(
        script(
            calls(call("add", "c1", a=1, b=2)),
            calls(call("add", "c2", a=3, b=4)),
            says("Done."),
            calls(call("add", "c3", a=5, b=6)),
            says("No."),
        )
    )
    graph = stage.graph(provider, policies={"add": ToolPolicy(available=available)})
    context = TurnContext(user_id="ann")
    first = stage.play(graph, "Go.", context=context)
    assert first.results() == {"c1": "3", "c2": "7"}
    assert asked == ["ann"]
    second = stage.play(graph, "Again.", context=context)
    assert "no tool named 'add'" in second.results()["c3"]
    assert asked == ["ann", "ann"]
    offered = [{t["function"]["name"] for t in request["tools"]} for request in provider.requests]
    assert ["add" in names for names in offered] == [True, True, True, False, False]


def test_tools_from_a_generator_last_the_whole_turn(stage: Stage, fake_provider: Start) -> None:
    steps = [calls(call("add", f"c{n}", a=n, b=1)) for n in range(3)]
    graph = stage.graph(fake_provider(script(*steps, says("Done."))), tools=[])
    context = TurnContext(tools=(tool for tool in [add]))
    played = stage.play(graph, "Go.", context=context)
    assert played.results() == {"c0": "1", "c1": "2", "c2": "3"}


def test_blank_directives_of_hooks_are_dropped(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("add", a=1, b=2)), says("Done.")))

    def say(_: dict[str, Any]) -> str:
        return " \n"

    hooks = TurnHooks(on_turn_start=say, on_first_round=say, before_round=say, on_tool_result=say)
    played = stage.play(stage.graph(provider), "Go.", context=TurnContext(hooks=hooks))
    assert [event["manifest"]["directives"] for event in played.of("context.assembled")] == [[], []]
    assert provider.requests[1]["messages"][1]["content"] == "Go."


def test_directives_end_with_their_turn(stage: Stage, fake_provider: Start) -> None:
    def finish() -> ToolOutput:
        """Finish."""
        return ToolOutput("The end.", terminate=True)

    provider = fake_provider(script(calls(call("finish")), says("Hello.")))
    graph = stage.graph(provider, tools=[finish])
    hooks = TurnHooks(on_tool_result=lambda _: "Be brief.")
    played = stage.play(graph, "Go.", context=TurnContext(hooks=hooks))
    assert played.answer == "The end."
    config = {"configurable": {"thread_id": "t"}}
    assert stage.state(graph, config)["turn"]["directives"] == []
    stage.play(graph, "Again.")
    assert "Be brief." not in str(provider.requests[1])


def test_a_tool_that_interrupts_without_a_saver_is_an_error(bare_stage: Stage, fake_provider: Start) -> None:
    def sign() -> str:
        """Have it signed."""
        return f"signed by {interrupt('sign here')}"

    provider = fake_provider(script(calls(call("sign")), says("Done.")))
    played = bare_stage.play(bare_stage.graph(provider, tools=[sign]), "Go.")
    assert "needs a graph with a checkpointer" in played.results()["c1"]
    assert [event["status"] for event in played.of("tool.result")] == ["error"]
    assert (played.answer, played.interrupts) == ("Done.", ())


@pytest.mark.timeout(60)
def test_a_turn_inside_a_tool_has_places_of_its_own(stage: Stage, fake_provider: Start) -> None:
    """The same graph, the same message: the outer call must not hold the only place of the inner one."""
    graph: Any = None
    given = {"messages": [HumanMessage("Go.", id="h1")]}
    depth = 0

    def dig() -> str:
        """Run a turn within this one."""
        nonlocal depth
        depth += 1
        return "ground" if depth > 1 else str(graph.invoke(given)["answer"])

    async def adig() -> str:
        """Run a turn within this one."""
        nonlocal depth
        depth += 1
        return "ground" if depth > 1 else str((await graph.ainvoke(given))["answer"])

    made = dig if stage.mode == "sync" else adig
    dug = calls(call(made.__name__))
    provider = fake_provider(script(dug, dug, says("Inner."), says("Outer.")))
    graph = stage.graph(provider, tools=[made], settings={"max_parallel_tools": 1, "tool_timeout": 10})
    played = stage.play(graph, given)
    assert played.results() == {"c1": "Inner."}
    assert played.answer == "Outer."
    assert depth == 2


@pytest.mark.timeout(60)
def test_threads_with_the_same_message_have_places_of_their_own(stage: Stage, fake_provider: Start) -> None:
    both = threading.Barrier(2)

    def meet() -> str:
        """Wait for the other turn's call."""
        both.wait(10)
        return "met"

    provider = fake_provider(script({**calls(call("meet")), "times": 2}, {**says("Done."), "times": 2}))
    graph = stage.graph(provider, tools=[meet], settings={"max_parallel_tools": 1})
    given = {"messages": [HumanMessage("Go.", id="h1")]}
    configs: list[Any] = [{"configurable": {"thread_id": name}} for name in ("a", "b")]
    found: list[Any] = []

    async def play_both() -> None:
        found.extend(await asyncio.gather(*(graph.ainvoke(given, config) for config in configs)))

    if stage.mode == "async":
        stage.run(play_both())
    else:
        threads = [
            threading.Thread(target=lambda c=config: found.append(graph.invoke(given, c)))
            for config in configs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert [state["messages"][2].content for state in found] == ["met", "met"]


def snapshot(*, values: dict[str, Any], then: tuple[str, ...]) -> StateSnapshot:
    return StateSnapshot(
        values=values,
        next=then,
        config={},
        metadata=None,
        created_at=None,
        parent_config=None,
        tasks=(),
        interrupts=(),
    )


def test_input_that_was_stored_and_not_begun_is_unfinished() -> None:
    user = HumanMessage("Go.", id="h1")
    ended = {"messages": [user], "turn": {"input_id": "h1", "phase": "ended"}}
    assert is_unfinished(snapshot(values={}, then=(START,)))
    assert is_unfinished(snapshot(values=ended, then=(START,)))
    assert not is_unfinished(snapshot(values=ended, then=()))
    assert not is_unfinished(snapshot(values={}, then=()))


def test_a_turn_that_has_ended_is_settled_already(tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("sync", "sqlite", tmp_path)
    graph = stage.graph(fake_provider(script(says("Hello."))))
    run_turn(graph, "Go.", thread_id="t")
    config: Any = {"configurable": {"thread_id": "t"}}
    before = graph.get_state(config)
    drive(_settle(Runner(graph, config, None, None, "sync")))
    after = graph.get_state(config)
    assert after == before
    assert after.values["outcome"]["status"] == "finished"
    stage.close()
