"""`run_turn` and `arun_turn`: pauses, stale answers, unfinished turns, breaking off."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command, interrupt

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Stage, check_transcript
from turnflow import CancelToken, TurnContext, TurnError, TurnHooks, TurnResult, arun_turn, run_turn
from turnflow.graph.run import is_unfinished


def run(stage: Stage, graph: Any, given: Any, **options: Any) -> TurnResult:
    """Run a turn in the stage's mode."""
    if stage.mode == "sync":
        return run_turn(graph, given, **options)
    return stage.run(arun_turn(graph, given, **options))


def test_result(stage: Stage, fake_provider: Start) -> None:
    events: list[dict[str, Any]] = []
    graph = stage.graph(fake_provider("narration_then_tool"))
    result = run(stage, graph, "Go.", thread_id="t", on_event=events.append)
    assert (result.answer, result.status, result.thread_id) == ("They make 40.", "finished", "t")
    assert [m.type for m in result.messages] == ["human", "ai", "tool", "ai"]
    assert [events[0]["type"], events[-1]["type"]] == ["turn.started", "turn.ended"]
    assert {e["session_id"] for e in events} == {"t"}


def test_a_thread_of_its_own(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("One."), says("Two."))))
    first = run(stage, graph, HumanMessage("a"))
    second = run(stage, graph, [HumanMessage("b")])
    assert first.thread_id
    assert first.thread_id != second.thread_id


def test_pause_and_answer(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Ok."))))
    paused = run(stage, graph, "Go.", thread_id="t")
    assert (paused.status, paused.answer) == ("paused", "Which?")
    with pytest.raises(ValueError, match="does not fit the question"):
        run(stage, graph, Command(resume={"answers": []}), thread_id="t")
    with pytest.raises(ValueError, match="is not open; open are"):
        run(stage, graph, Command(resume={"0" * 32: "x"}), thread_id="t")
    done = run(stage, graph, Command(resume={paused.interrupts[0].id: "this"}), thread_id="t")
    assert done.answer == "Ok."
    with pytest.raises(ValueError, match="no question is open"):
        run(stage, graph, Command(resume="again"), thread_id="t")


@pytest.mark.parametrize("given", ["", " \n", []])
def test_empty_input_is_refused(stage: Stage, fake_provider: Start, given: Any) -> None:
    with pytest.raises(ValueError, match="message"):
        run(stage, stage.graph(fake_provider(script())), given)


def test_resuming_needs_a_saver(bare_stage: Stage, fake_provider: Start) -> None:
    graph = bare_stage.graph(fake_provider(script()))
    both: list[Any] = [None, Command(resume="x")]
    for given in both:
        with pytest.raises(ValueError, match="checkpointer"):
            run(bare_stage, graph, given)


def test_going_on_with_nothing_is_refused(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("One."))))
    for _ in range(2):
        with pytest.raises(ValueError, match="no unfinished turn"):
            run(stage, graph, None, thread_id="t")
        if not stage.saver.get_tuple({"configurable": {"thread_id": "t"}}):
            run(stage, graph, "Go.", thread_id="t")


def test_a_failed_turn_is_reported_once_and_can_be_tried_again(stage: Stage, fake_provider: Start) -> None:
    failure = {"error": {"status": 400, "message": "no"}}
    graph = stage.graph(fake_provider(script(failure, failure, says("At last."), says("Hello."))))
    with pytest.raises(TurnError) as raised:
        run(stage, graph, "Go.", thread_id="t")
    assert raised.value.outcome["status"] == "provider_error"
    with pytest.raises(TurnError):
        run(stage, graph, None, thread_id="t")
    assert run(stage, graph, None, thread_id="t").answer == "At last."
    assert run(stage, graph, "And now?", thread_id="t").answer == "Hello."


def test_new_input_after_a_failed_turn(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script({"error": {"status": 400, "message": "no"}}, says("Hello.")))
    graph = stage.graph(provider)
    with pytest.raises(TurnError):
        run(stage, graph, "Go.", thread_id="t")
    result = run(stage, graph, "Again.", thread_id="t")
    assert result.answer == "Hello."
    assert provider.requests[1]["messages"][1]["content"] == "Go.\n\nAgain."


def test_an_unfinished_turn_is_finished_first(stage: Stage, fake_provider: Start) -> None:
    class Crash(BaseException):
        pass

    crash = True

    def fragile() -> str:
        """Break the first time."""
        return "whole"

    def before(info: dict[str, Any]) -> None:
        nonlocal crash
        if info["round"] == 2 and crash:
            crash = False
            raise Crash

    provider = fake_provider(script(calls(call("fragile")), says("First."), says("Second.")))
    graph = stage.graph(provider, tools=[fragile])
    context = TurnContext(hooks=TurnHooks(before_round=before))
    with pytest.raises(Crash):
        run(stage, graph, "one", thread_id="t", context=context)
    result = run(stage, graph, "two", thread_id="t", context=context)
    contents = [m.content for m in result.messages]
    assert contents == ["one", "", "whole", "First.", "two", "Second."]


@pytest.mark.parametrize("when", ["model", "tool"])
def test_token_cancels(stage: Stage, fake_provider: Start, when: str) -> None:
    token = CancelToken()
    release = threading.Event()

    def hang() -> str:
        """Hang."""
        token.cancel()
        release.wait(20)
        return "late"

    if when == "tool":
        provider = fake_provider(script(calls(call("hang", "c1"), asks("x?", call_id="c2"), content="Wait.")))
    else:
        provider = fake_provider("hangs_mid_answer")

    def watch(event: dict[str, Any]) -> None:
        if event["type"] == "content.delta" and when == "model":
            threading.Timer(0.05, token.cancel).start()

    graph = stage.graph(provider, tools=[hang])
    started = time.monotonic()
    result = run(stage, graph, "Go.", thread_id="t", context=TurnContext(cancel=token), on_event=watch)
    release.set()
    assert time.monotonic() - started < 10
    assert (result.status, result.outcome["stop_reason"]) == ("cancelled", "cancelled")
    check_transcript(result.messages)
    if when == "model":
        assert result.answer == "The answer "
        assert result.outcome["partial"]
        assert result.messages[-1].additional_kwargs["turnflow"]["partial"]
    else:
        assert result.answer == "The turn was cancelled."
        assert str([m.content for m in result.messages if m.type == "tool"][1]).startswith("Cancelled")


def test_a_cancelled_thread_takes_the_next_message(stage: Stage, fake_provider: Start) -> None:
    token = CancelToken()
    token.cancel()
    graph = stage.graph(fake_provider(script(says("Hello."))))
    assert run(stage, graph, "Go.", thread_id="t", context=TurnContext(cancel=token)).status == "cancelled"
    assert run(stage, graph, "Again.", thread_id="t").answer == "Hello."


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_task_cancelled_from_outside_is_settled(kind: Any, tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("async", kind, tmp_path)
    graph = stage.graph(fake_provider("hangs_mid_answer"))

    async def main() -> None:
        seen = asyncio.Event()
        task = asyncio.create_task(arun_turn(graph, "Go.", thread_id="t", on_event=lambda e: seen.set()))
        await seen.wait()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        snapshot = await graph.aget_state({"configurable": {"thread_id": "t"}})
        assert snapshot.values["outcome"]["status"] == "cancelled"
        assert not is_unfinished(snapshot)
        check_transcript(snapshot.values["messages"])

    stage.run(main())
    stage.close()


def test_ctrl_c_settles_and_goes_on(tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("sync", "sqlite", tmp_path)
    graph = stage.graph(fake_provider(script(says("Hello."))))

    def press(info: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_turn(graph, "Go.", thread_id="t", context=TurnContext(hooks=TurnHooks(before_round=press)))
    state = graph.get_state({"configurable": {"thread_id": "t"}})
    assert state.values["outcome"]["status"] == "cancelled"
    assert run_turn(graph, "Again.", thread_id="t").answer == "Hello."
    stage.close()


def test_graph_refuses_an_input_without_a_new_user_message(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("One."))))
    first = run(stage, graph, "Go.", thread_id="t")
    with pytest.raises(ValueError, match="no new user message"):
        run(stage, graph, [first.messages[0]], thread_id="t")
    with pytest.raises(ValueError, match="no user message to answer"):
        run(stage, graph, [("ai", "hello")], thread_id="u")


def test_a_tool_that_interrupts_by_itself_is_a_pause_too(stage: Stage, fake_provider: Start) -> None:
    def sign() -> str:
        """Have it signed."""
        return f"signed by {interrupt('sign here')}"

    graph = stage.graph(fake_provider(script(calls(call("sign")), says("Done."))), tools=[sign])
    paused = run(stage, graph, "Go.", thread_id="t")
    assert (paused.status, paused.outcome["stop_reason"]) == ("paused", "interrupt")
    assert run(stage, graph, Command(resume="ann"), thread_id="t").answer == "Done."


def test_calls_that_wait_for_a_place_are_not_run_once_cancelled(stage: Stage, fake_provider: Start) -> None:
    token = CancelToken()
    ran: list[int] = []

    def work(number: int) -> str:
        """Work."""
        ran.append(number)
        token.cancel()
        time.sleep(0.1)
        return "done"

    batch = calls(*(call("work", f"c{n}", number=n) for n in range(4)))
    graph = stage.graph(fake_provider(script(batch)), tools=[work], settings={"max_parallel_tools": 1})
    result = run(stage, graph, "Go.", thread_id="t", context=TurnContext(cancel=token))
    assert result.status == "cancelled"
    assert len(ran) == 1


def test_none_tells_an_open_pause_again(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Ok."))))
    paused = run(stage, graph, "Go.", thread_id="t")
    with pytest.raises(ValueError, match="does not fit"):
        run(stage, graph, Command(resume=3), thread_id="t")
    again = run(stage, graph, None, thread_id="t")
    assert (again.status, again.answer, again.interrupts) == ("paused", "Which?", paused.interrupts)
    assert run(stage, graph, Command(resume="x"), thread_id="t").answer == "Ok."


def test_an_answered_turn_no_longer_says_that_it_is_paused(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Ok."))))
    run(stage, graph, "Go.", thread_id="t")
    seen: list[tuple[str, Any]] = []
    config: Any = {"configurable": {"thread_id": "t"}}
    options: Any = {"stream_mode": "values"}

    async def watch() -> None:
        seen.extend(
            [(v["answer"], v["outcome"]) async for v in graph.astream(Command(resume="x"), config, **options)]
        )

    if stage.mode == "sync":
        seen.extend((v["answer"], v["outcome"]) for v in graph.stream(Command(resume="x"), config, **options))
    else:
        stage.run(watch())
    assert ("", {}) in seen
    assert all(outcome != "paused" for _, outcome in seen[1:-1])


def test_breaking_off_keeps_what_finished_calls_gave(tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("async", "sqlite", tmp_path)
    release = threading.Event()

    def fast() -> str:
        """Finish at once."""
        return "sold"

    def slow() -> str:
        """Take long."""
        release.wait(20)
        return "late"

    graph = stage.graph(fake_provider(script(calls(call("fast"), call("slow", "c2")))), tools=[fast, slow])

    async def main() -> None:
        sold = asyncio.Event()

        def watch(event: dict[str, Any]) -> None:
            if event["type"] == "tool.result":
                sold.set()

        task = asyncio.create_task(arun_turn(graph, "Go.", thread_id="t", on_event=watch))
        await sold.wait()
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        values = (await graph.aget_state({"configurable": {"thread_id": "t"}})).values
        assert values["outcome"]["status"] == "cancelled"
        results = [str(m.content) for m in values["messages"] if m.type == "tool"]
        assert results[0] == "sold"
        assert results[1].startswith("Cancelled")

    stage.run(main())
    release.set()
    stage.close()


@pytest.mark.parametrize("when", ["turn.started", "context.assembled"])
def test_breaking_off_in_the_first_step_settles_too(tmp_path: Path, fake_provider: Start, when: str) -> None:
    stage = Stage("async", "sqlite", tmp_path)
    graph = stage.graph(fake_provider(script(says("Hello."))))

    async def main() -> None:
        def watch(event: dict[str, Any]) -> None:
            if event["type"] == when:
                task.cancel()

        task = asyncio.create_task(arun_turn(graph, "first", thread_id="t", on_event=watch))
        with pytest.raises(asyncio.CancelledError):
            await task
        state = await graph.aget_state({"configurable": {"thread_id": "t"}})
        assert state.values["outcome"]["status"] == "cancelled"
        done = await arun_turn(graph, "second", thread_id="t")
        assert [m.type for m in done.messages] == ["human", "ai", "human", "ai"]

    stage.run(main())
    stage.close()
