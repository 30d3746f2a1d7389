"""Calls that were broken off are reported and never run twice, whoever goes on with the turn."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command, interrupt

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Mode, Stage
from turnflow import CancelToken, ToolOutput, TurnContext, arun_turn, run_turn
from turnflow.apps.fake_provider import FakeProvider

POLICIES: dict[str, Any] = {
    "look": {"read_only": True, "parallel_safe": False},
    "again": {"idempotent": True},
}


class Breaking:
    """Tools of which the first run breaks off, as if the process had died in them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.breaks = True

    def tools(self) -> list[Any]:
        def once(text: str) -> str:
            """Do something once."""
            return self.run(f"once {text}")

        def look(text: str) -> str:
            """Look at something."""
            return self.run(f"look {text}")

        def again(text: str) -> str:
            """Do something that may be done again."""
            return self.run(f"again {text}")

        return [once, look, again]

    def run(self, name: str) -> str:
        self.ran.append(name)
        if self.breaks:
            raise AssertionError
        return f"did {name}"


class BrokenOffError(BaseException):
    """Stands for the death of the process: nothing of a task's is stored."""


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    """Tools whose task is broken off while they run, as long as `breaks` is set."""
    from turnflow.nodes.dispatch_tools import run_tool

    tools = Breaking()
    real: Any = run_tool.ToolRun  # type: ignore[attr-defined]

    class BreakingRun(real):  # type: ignore[misc]
        def call(self) -> Any:
            end = super().call()
            if isinstance(end.error, AssertionError):
                raise BrokenOffError
            return end

        async def acall(self) -> Any:
            end = await super().acall()
            if isinstance(end.error, AssertionError):
                raise BrokenOffError
            return end

    monkeypatch.setattr(run_tool, "ToolRun", BreakingRun)
    return tools


def broken_turn(stage: Stage, provider: FakeProvider, breaking: Breaking) -> Any:
    graph = stage.graph(provider, tools=breaking.tools(), policies=POLICIES)
    with pytest.raises(BrokenOffError):
        stage.play(graph, "Go.", laws=False)
    breaking.breaks = False
    return graph


@pytest.mark.parametrize(
    ("name", "runs", "result"),
    [("once", 1, "It is not known whether"), ("look", 2, "did look x"), ("again", 2, "did again x")],
)
def test_what_becomes_of_a_call_that_was_broken_off(
    stage: Stage, fake_provider: Start, breaking: Breaking, name: str, runs: int, result: str
) -> None:
    provider = fake_provider(script(calls(call(name, text="x")), says("I see.")))
    graph = broken_turn(stage, provider, breaking)
    played = stage.play(graph, None)
    assert played.results()["c1"].startswith(result)
    assert len(breaking.ran) == runs
    assert played.status == "finished"
    (told,) = played.of("tool.result")
    assert told["status"] == ("indeterminate" if name == "once" else "ok")
    if name == "once":
        assert played.of("tool.started") == []


def test_new_input_reports_what_was_broken_off(
    stage: Stage, fake_provider: Start, breaking: Breaking
) -> None:
    batch = calls(call("once", "c1", text="x"), call("look", "c2", text="y"))
    graph = broken_turn(stage, fake_provider(script(batch, says("Fine."))), breaking)
    played = stage.play(graph, "Something else.")
    assert played.results()["c1"].startswith("It is not known whether")
    assert played.results()["c2"].startswith("Cancelled: the user went on")
    assert breaking.ran.count("once x") == 1


def test_a_finished_call_keeps_its_result_when_new_input_comes(stage: Stage, fake_provider: Start) -> None:
    ran: list[str] = []

    def work(text: str) -> str:
        """Do some work."""
        ran.append(text)
        return f"did {text}"

    def sign() -> str:
        """Have it signed."""
        return str(interrupt({"sign": "it"}))

    batch = calls(call("work", "c1", text="a"), call("sign", "c2"))
    graph = stage.graph(fake_provider(script(batch, says("Fine."))), tools=[work, sign])
    stage.play(graph, "Go.", laws=False)
    played = stage.play(graph, "Something else.")
    assert played.results()["c1"] == "did a"
    assert played.results()["c2"].startswith("Cancelled: the user went on before this call had a result")
    assert ran == ["a"]


def test_a_tool_that_interrupts_runs_again_from_its_top(stage: Stage, fake_provider: Start) -> None:
    ran: list[int] = []

    def sign() -> str:
        """Have it signed."""
        ran.append(1)
        return f"{interrupt('first')} {interrupt('second')}"

    graph = stage.graph(fake_provider(script(calls(call("sign")), says("Signed."))), tools=[sign])
    stage.play(graph, "Go.", laws=False)
    stage.play(graph, Command(resume="one"), laws=False)
    played = stage.play(graph, Command(resume="two"))
    assert played.results() == {"c1": "one two"}
    assert len(ran) == 3


def test_a_fork_does_not_run_a_call_again(tmp_path: Path, fake_provider: Start) -> None:
    ran: list[str] = []

    def work(text: str) -> str:
        """Do some work."""
        ran.append(text)
        return f"did {text}"

    for mode in ("sync", "async"):
        (tmp_path / mode).mkdir()
        stage = Stage(mode, "sqlite", tmp_path / mode)
        provider = fake_provider(script(calls(call("work", text=mode)), says("Done."), says("Done again.")))
        graph = stage.graph(provider, tools=[work])
        stage.play(graph, "Go.")
        config: Any = {"configurable": {"thread_id": "t"}}
        before = next(s for s in graph.get_state_history(config) if s.next == ("dispatch_tools",))
        result = graph.invoke(None, before.config)
        assert (result["answer"], ran.count(mode)) == ("Done again.", 1)
        assert next(m.content for m in result["messages"] if m.type == "tool") == f"did {mode}"
        stage.close()


def test_a_call_that_was_left_indeterminate_can_be_asked_about(
    stage: Stage, fake_provider: Start, breaking: Breaking
) -> None:
    from turnflow import AskIfUncertain

    again = calls(call("once", "c2", text="x"))
    provider = fake_provider(script(calls(call("once", "c1", text="x")), again, says("Done.")))
    graph = stage.graph(provider, tools=breaking.tools(), policies=POLICIES, permissions=[AskIfUncertain()])
    with pytest.raises(BrokenOffError):
        stage.play(graph, "Go.", laws=False)
    breaking.breaks = False
    paused = stage.play(graph, None)
    assert paused.outcome["stop_reason"] == "approval"
    assert "broken off before" in paused.interrupts[0].value["action_requests"][0]["description"]
    played = stage.play(graph, Command(resume={"decisions": [{"type": "approve"}]}))
    assert played.results()["c2"] == "did once x"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_turn_that_is_cancelled_says_what_had_begun(
    tmp_path: Path, fake_provider: Start, mode: Mode
) -> None:
    stage = Stage(mode, "sqlite", tmp_path)
    token = CancelToken()

    def first() -> str:
        """Cancel the turn, and go on."""
        token.cancel()
        return "too late"

    def second() -> str:
        """Never run."""
        raise AssertionError

    batch = calls(call("first", "c1"), call("second", "c2"))
    graph = stage.graph(
        fake_provider(script(batch)),
        tools=[first, second],
        policies={name: {"parallel_safe": False} for name in ("first", "second")},
    )
    context = TurnContext(cancel=token)
    if mode == "sync":
        result = run_turn(graph, "Go.", thread_id="t", context=context)
    else:
        result = stage.run(arun_turn(graph, "Go.", thread_id="t", context=context))
    texts = {m.tool_call_id: str(m.content) for m in result.messages if m.type == "tool"}
    assert result.status == "cancelled"
    # Whether the tool or the token is seen first is a matter of luck.
    assert texts["c1"] == "too late" or "Whether it took effect is not known" in texts["c1"]
    assert texts["c2"] == "Cancelled: the turn was cancelled before this call was started. It had no effect."
    stage.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_durability_exit_is_warned_of(
    tmp_path: Path, fake_provider: Start, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    from turnflow.graph import effects

    effects._warned.clear()
    stage = Stage(mode, "sqlite", tmp_path)
    graph = stage.graph(fake_provider(script(calls(call("echo", text="x")), says("Done."))))
    config: Any = {"configurable": {"thread_id": "t"}}
    given: Any = {"messages": [("user", "Go.")]}
    with caplog.at_level(logging.WARNING, "turnflow"):
        if mode == "sync":
            graph.invoke(given, config, durability="exit")
        else:
            stage.run(graph.ainvoke(given, config, durability="exit"))
    assert [r.message for r in caplog.records if 'durability="exit"' in r.message]
    stage.close()


def test_a_cancelled_task_leaves_its_call_indeterminate(tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("async", "memory", tmp_path)
    stage.run(cancelled_in_a_call(stage, fake_provider))
    stage.close()


async def cancelled_in_a_call(stage: Stage, fake_provider: Start) -> None:
    began = asyncio.Event()

    async def hang() -> str:
        """Hang."""
        began.set()
        await asyncio.sleep(60)
        return "never"

    graph = stage.graph(fake_provider(script(calls(call("hang")))), tools=[hang])
    running = asyncio.create_task(arun_turn(graph, "Go.", thread_id="t"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    values = (await graph.aget_state({"configurable": {"thread_id": "t"}})).values
    result = next(m for m in values["messages"] if m.type == "tool")
    assert "Whether it took effect is not known" in result.content
    assert values["outcome"]["status"] == "cancelled"


def test_a_recorded_result_says_all_that_it_said(tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("sync", "sqlite", tmp_path)

    def final() -> ToolOutput:
        """Say the final word."""
        return ToolOutput("that is all", terminate=True, sources=["a book"])

    graph = stage.graph(fake_provider(script(calls(call("final")))), tools=[final])
    stage.play(graph, "Go.")
    config: Any = {"configurable": {"thread_id": "t"}}
    before = next(s for s in graph.get_state_history(config) if s.next == ("dispatch_tools",))
    result = graph.invoke(None, before.config)
    assert (result["answer"], result["outcome"]["sources"]) == ("that is all", ["a book"])
    stage.close()


def test_forks_with_other_arguments_run_each_once(tmp_path: Path, fake_provider: Start) -> None:
    stage, ran = Stage("sync", "sqlite", tmp_path), []

    def work(text: str) -> str:
        """Do some work."""
        ran.append(text)
        return f"did {text}"

    replies = [says("Done.") for _ in range(5)]
    graph = stage.graph(fake_provider(script(calls(call("work", text="a")), *replies)), tools=[work])
    stage.play(graph, "Go.")
    config: Any = {"configurable": {"thread_id": "t"}}
    before = next(s for s in graph.get_state_history(config) if s.next == ("dispatch_tools",))
    batch = before.values["batch"]
    for text in ("b", "a", "b", "a"):
        changed = {"id": batch["id"], "calls": {"c1": {"args": {"text": text}}}}
        fork = graph.update_state(before.config, {"batch": changed}, as_node="classify_label")
        values = graph.invoke(None, fork)
        assert next(m.content for m in values["messages"] if m.type == "tool") == f"did {text}"
    assert ran == ["a", "b"]
    stage.close()


def test_what_finished_calls_said_is_kept_when_the_turn_is_cancelled(
    stage: Stage, fake_provider: Start
) -> None:
    token = CancelToken()

    def first() -> ToolOutput:
        """Find something, and load a tool."""
        return ToolOutput("found", sources=["a book"], load=["extra"])

    def second() -> str:
        """Cancel the turn."""
        token.cancel()
        return "done"

    def third() -> str:
        """Never run."""
        raise AssertionError

    def extra() -> str:
        """Do something else."""
        return "x"

    batch = calls(call("first", "c1"), call("second", "c2"), call("third", "c3"))
    alone = {name: {"parallel_safe": False} for name in ("first", "second", "third")}
    graph = stage.graph(
        fake_provider(script(batch)),
        tools=[first, second, third, extra],
        policies={**alone, "extra": {"deferred": True}},
    )
    played = stage.play(graph, "Go.", context=TurnContext(cancel=token))
    assert (played.status, played.outcome["sources"]) == ("cancelled", ["a book"])
    config = {"configurable": {"thread_id": "t"}}
    assert stage.state(graph, config)["session"]["loaded"] == {"extra": True}
    assert played.results()["c3"].endswith("before this call was started. It had no effect.")
