"""Turns that are broken off from outside: cancelled tasks, time limits, cancel scopes, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.turns import test_cancel_points as points
from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Played, Stage, check_laws
from tests.turns.test_cancel_points import CANCELLED, HANG, SOON, Scene
from turnflow import CancelToken, TurnContext, TurnHooks, arun_turn, run_turn
from turnflow.graph import breaking_off
from turnflow.graph.breaking_off import settled_first
from turnflow.graph.record import read_record
from turnflow.graph.run import is_unfinished

THREAD: Any = {"configurable": {"thread_id": "t"}}

POINTS: list[Callable[[], Scene]] = [
    points.before_headers,
    points.in_the_text,
    points.in_a_thought,
    points.in_the_arguments,
    points.in_held_live_text,
    points.in_a_continuation,
    points.in_the_second_round,
    points.under_a_label_whose_text_is_held,
    points.in_the_pause_before_a_retry,
    points.in_a_blocking_tool,
    points.in_a_coroutine_tool_that_goes_on,
    points.in_a_batch,
    points.in_a_hook,
    points.in_a_contributor,
]

Break = Callable[[asyncio.Event, Any], Any]


async def cancel_the_task(reached: asyncio.Event, turn: Any) -> None:
    task = asyncio.create_task(turn)
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancel_it_again_and_again(reached: asyncio.Event, turn: Any) -> None:
    task = asyncio.create_task(turn)
    await reached.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.002)
    assert task.cancelled()


async def give_it_little_time(reached: asyncio.Event, turn: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(None) as limit:
            moves.append(asyncio.create_task(_expire(reached, limit)))
            await turn

    moves: list[asyncio.Task[None]] = []
    with pytest.raises(TimeoutError):
        await limited()
    await moves[0]


async def _expire(reached: asyncio.Event, limit: asyncio.Timeout) -> None:
    await reached.wait()
    limit.reschedule(0)


async def cancel_its_scope(reached: asyncio.Event, turn: Any) -> None:
    """anyio cancels whoever awaits in a cancelled scope, until it has left the scope."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel, reached, scope)
            await turn
    assert scope.cancelled_caught


async def _cancel(reached: asyncio.Event, scope: anyio.CancelScope) -> None:
    await reached.wait()
    scope.cancel()


def check_settled(events: list[dict[str, Any]], snapshot: Any, scene: Scene) -> Played:
    """The turn is over, and what went out is what is stored."""
    assert not is_unfinished(snapshot)
    values = snapshot.values
    played = Played(events, values={key: values[key] for key in ("messages", "answer", "outcome")})
    check_laws(played)
    assert played.status == "cancelled"
    assert played.answer == (scene.text or CANCELLED)
    assert played.shape() == ["human", *scene.shape, "ai"]
    found = played.results()
    for call_id, beginning in scene.results.items():
        assert found[call_id].startswith(beginning)
    return played


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "breaks", [cancel_the_task, cancel_it_again_and_again, give_it_little_time, cancel_its_scope]
)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
def test_a_task_that_is_cancelled_settles_first(
    tmp_path: Path, fake_provider: Start, kind: Any, breaks: Break, point: Callable[[], Scene]
) -> None:
    stage, scene = Stage("async", kind, tmp_path), point()
    provider = fake_provider(script(*scene.steps, says("Hello again.")))
    graph = stage.graph(provider, **scene.options)
    events: list[dict[str, Any]] = []

    def watch(event: dict[str, Any]) -> None:
        events.append(event)
        if scene.event and [e["type"] for e in events].count(scene.event) == scene.after:
            scene.reached.set()

    async def main() -> float:
        reached = asyncio.Event()

        async def wait() -> None:
            if scene.requests:
                await asyncio.to_thread(provider.wait_for_requests, scene.requests, timeout=HANG)
            else:
                await asyncio.to_thread(scene.reached.wait, HANG)
            await asyncio.sleep(0.15)
            reached.set()

        waiting = asyncio.create_task(wait())
        context = TurnContext(hooks=scene.hooks)
        began = time.monotonic()
        await breaks(reached, arun_turn(graph, "Go.", thread_id="t", context=context, on_event=watch))
        await waiting
        return time.monotonic() - began

    assert stage.run(main()) < SOON * 2
    check_settled(events, stage.run(graph.aget_state(THREAD)), scene)
    again = stage.play(graph, "Again.", context=TurnContext(protocol="native"))
    assert (again.status, again.answer) == ("finished", "Hello again.")
    stage.close()


def test_a_task_that_is_cancelled_before_it_began_leaves_nothing(
    tmp_path: Path, fake_provider: Start
) -> None:
    stage = Stage("async", "sqlite", tmp_path)
    graph = stage.graph(fake_provider(script(says("Hello."))))

    async def main() -> None:
        task = asyncio.create_task(arun_turn(graph, "Go.", thread_id="t"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await graph.aget_state(THREAD)).values == {}
        assert (await arun_turn(graph, "Again.", thread_id="t")).answer == "Hello."

    stage.run(main())
    stage.close()


def test_the_token_of_other_runs_is_left_alone(tmp_path: Path, fake_provider: Start) -> None:
    stage, token = Stage("async", "memory", tmp_path), CancelToken()
    scene = points.in_the_text()
    graph = stage.graph(fake_provider(script(*scene.steps)))

    async def main() -> None:
        task = asyncio.create_task(
            arun_turn(graph, "Go.", context=TurnContext(cancel=token), on_event=lambda _: None)
        )
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    stage.run(main())
    assert not token.cancelled
    assert token._wakers == []
    stage.close()


def test_a_graph_that_is_cancelled_by_itself_is_settled_by_the_next_message(
    tmp_path: Path, fake_provider: Start
) -> None:
    """The text that was shown is kept for that in this process."""
    stage, scene = Stage("async", "sqlite", tmp_path), points.in_a_continuation()
    graph = stage.graph(fake_provider(script(*scene.steps, says("Hello again."))))

    async def main() -> None:
        shown: list[str] = []
        enough = asyncio.Event()

        async def read() -> None:
            given: Any = {"messages": [("user", "Go.")]}
            async for event in graph.astream(given, THREAD, stream_mode="custom", durability="sync"):
                shown.extend([event["text"]] if event["type"] == "content.delta" else [])
                if len(shown) == scene.after:
                    enough.set()

        reading = asyncio.create_task(read())
        await enough.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        result = await arun_turn(graph, "Again.", thread_id="t")
        assert result.answer == "Hello again."
        _, partial, _, _ = result.messages
        assert partial.content == "".join(shown) == scene.text
        assert partial.additional_kwargs["turnflow"]["partial"]
        ends = [fact for fact in read_record(stage.saver, "t") if fact["type"] == "turn.ended"]
        assert [end["outcome"]["status"] for end in ends] == ["cancelled", "finished"]

    stage.run(main())
    stage.close()


def test_a_graph_that_is_cancelled_by_itself_takes_the_next_message(
    tmp_path: Path, fake_provider: Start
) -> None:
    stage, scene = Stage("async", "sqlite", tmp_path), points.in_a_coroutine_tool()
    graph = stage.graph(fake_provider(script(*scene.steps, says("Hello again."))), **scene.options)

    async def main() -> None:
        running = asyncio.create_task(graph.ainvoke({"messages": [("user", "Go.")]}, THREAD))
        await asyncio.to_thread(scene.reached.wait, HANG)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    stage.run(main())
    again = stage.play(graph, "Again.")
    assert (again.status, again.answer) == ("finished", "Hello again.")
    assert again.results()["c1"].startswith("It is not known whether this call took effect")
    stage.close()


@pytest.fixture
def pythons_own_handler() -> Iterator[None]:
    """Ctrl-C as a plain program has it, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("pythons_own_handler")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
def test_ctrl_c_settles_first(
    tmp_path: Path, fake_provider: Start, kind: Any, point: Callable[[], Scene]
) -> None:
    stage, scene = Stage("sync", kind, tmp_path), point()
    provider = fake_provider(script(*scene.steps, says("Hello again.")))
    graph = stage.graph(provider, **scene.options)
    events: list[dict[str, Any]] = []

    def watch(event: dict[str, Any]) -> None:
        events.append(event)
        if scene.event and [e["type"] for e in events].count(scene.event) == scene.after:
            scene.reached.set()

    def wait() -> None:
        if scene.requests:
            provider.wait_for_requests(scene.requests, timeout=HANG)
        else:
            scene.reached.wait(HANG)
        time.sleep(0.15)
        press()

    threading.Thread(target=wait, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_turn(graph, "Go.", thread_id="t", context=TurnContext(hooks=scene.hooks), on_event=watch)
    assert time.monotonic() - began < SOON * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    check_settled(events, graph.get_state(THREAD), scene)
    again = stage.play(graph, "Again.", context=TurnContext(protocol="native"))
    assert (again.status, again.answer) == ("finished", "Hello again.")
    stage.close()


def test_a_handler_of_ones_own_that_raises_settles_too(tmp_path: Path, fake_provider: Start) -> None:
    """The node is broken off within its wait: what it had read is kept for the run that settles."""
    stage, scene = Stage("sync", "sqlite", tmp_path), points.in_the_second_round()
    graph = stage.graph(fake_provider(script(*scene.steps, says("Hello again."))))

    def stop(_number: int, _frame: Any) -> None:
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(SystemExit):
            run_turn(graph, "Go.", thread_id="t")
    finally:
        signal.signal(signal.SIGTERM, before)
    snapshot = graph.get_state(THREAD)
    assert snapshot.values["outcome"]["status"] == "cancelled"
    assert snapshot.values["answer"] == scene.text
    assert snapshot.values["messages"][-1].additional_kwargs["turnflow"]["partial"]
    assert stage.play(graph, "Again.").answer == "Hello again."
    stage.close()


@pytest.mark.usefixtures("pythons_own_handler")
def test_a_second_ctrl_c_breaks_off(tmp_path: Path, fake_provider: Start) -> None:
    """A blocking hook cannot be given up; the second Ctrl-C is raised within it."""
    stage = Stage("sync", "sqlite", tmp_path)
    graph = stage.graph(fake_provider(script(says("Hello again."))))
    began = threading.Event()

    def hook(info: dict[str, Any]) -> None:
        began.set()
        time.sleep(HANG)

    def press_twice() -> None:
        began.wait(HANG)
        for _ in range(2):
            time.sleep(0.2)  # a signal that comes just before a wait begins does not end it
            press()

    threading.Thread(target=press_twice, daemon=True).start()
    at = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_turn(graph, "Go.", thread_id="t", context=TurnContext(hooks=TurnHooks(before_round=hook)))
    assert time.monotonic() - at < SOON * 2
    assert graph.get_state(THREAD).values["outcome"]["status"] == "cancelled"
    assert stage.play(graph, "Again.").answer == "Hello again."
    stage.close()


_PROGRAM = """
import asyncio, sys
from turnflow import OpenAICompatibleChat, arun_turn, build_turn_graph, open_saver, run_turn

mode, base_url, file = sys.argv[1:]
model = OpenAICompatibleChat(model="fake", base_url=base_url, api_key="x")

def tell(event):
    if event["type"] in ("content.delta", "turn.ended"):
        print(event.get("text") or event["outcome"]["status"], flush=True)

with open_saver(file) as saver:
    graph = build_turn_graph(model, checkpointer=saver)
    try:
        if mode == "sync":
            run_turn(graph, "Go.", thread_id="t", on_event=tell)
        else:
            asyncio.run(arun_turn(graph, "Go.", thread_id="t", on_event=tell))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    state = graph.get_state({"configurable": {"thread_id": "t"}}).values
    print(state["outcome"]["status"], repr(state["answer"]), flush=True)
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_ctrl_c_in_a_program(tmp_path: Path, fake_provider: Start, mode: str) -> None:
    scene = points.in_the_text()
    provider = fake_provider(script(*scene.steps))
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, mode, provider.base_url, str(tmp_path / "threads.sqlite")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "The answer \n"
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=HANG)
    assert out.splitlines() == ["cancelled", "interrupted", "cancelled 'The answer '"]


def test_work_that_heeds_no_token_is_broken_off_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking_off, "SETTLE_SECONDS", 0.1)
    seen: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(HANG)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def deaf() -> None:
        for _ in range(5):
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                seen.append("cancelled")

    async def main(work: Any) -> None:
        token = CancelToken()
        task = asyncio.create_task(settled_first(work(), token))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert token.cancelled

    at = time.monotonic()
    asyncio.run(main(stubborn))
    assert seen == ["cancelled"]
    asyncio.run(main(deaf))
    assert "cancelled" in seen[1:]
    assert time.monotonic() - at < 4


def test_a_model_that_raises_what_ctrl_c_raises_ends_the_run(tmp_path: Path, fake_provider: Start) -> None:
    stage = Stage("sync", "memory", tmp_path)

    def wrong() -> str:
        """Raise."""
        raise KeyboardInterrupt

    graph = stage.graph(fake_provider(script(calls(call("wrong")), says("Done."))), tools=[wrong])
    result = run_turn(graph, "Go.", thread_id="t")
    assert result.answer == "Done."
    stage.close()
