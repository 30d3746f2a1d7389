"""Calls with effects, by a graph that runs them, on every kind of saver: at most once, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from tests.graph.effects_stage import KINDS, Calls, Stage, opened, results
from tests.graph.saver_chat import thread
from turnflow.graph import effects

ROOT = Path(__file__).parents[2]

every_saver = pytest.mark.parametrize(("kind", "mode"), KINDS)
sync_and_async = pytest.mark.parametrize("mode", ["sync", "async"])
every_durability = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "effects.db"


@pytest.fixture(autouse=True)
def warnings_are_new() -> Iterator[None]:
    """What is said once in a process is said once in each test."""
    effects._warned.clear()
    effects._unsaved.clear()
    yield
    effects._warned.clear()
    effects._unsaved.clear()


def fail(_: str) -> str:
    raise RuntimeError("the line went dead")


def embedded(stage: Stage, saver: Any, *, own_saver: bool | None = None) -> Any:
    """A parent with the stage's graph for its only node."""
    builder = StateGraph(Calls)
    builder.add_node("turn", stage.builder.compile(checkpointer=own_saver))
    builder.add_edge(START, "turn")
    return builder.compile(checkpointer=saver)


# What happened before


@every_durability
@every_saver
async def test_a_call_runs_once_and_its_result_is_its_own(
    path: Path, kind: str, mode: str, durability: str
) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability=durability)
        values = await stage.go("a", "b")
        assert sorted(stage.ran) == ["a", "b"]
        assert stage.states == ["new", "new"]
        assert results(values) == {"a": "did a", "b": "did b"}


@pytest.mark.parametrize("durability", ["sync", "async"])
@every_saver
async def test_a_call_that_broke_off_is_not_run_again(
    path: Path, kind: str, mode: str, durability: str
) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability=durability)
        stage.act = fail
        with pytest.raises(RuntimeError, match="went dead"):
            await stage.go("a")
        values = await stage.go()
        assert stage.ran == ["a"]
        assert stage.states == ["new", "started"]
        assert results(values) == {"a": "started"}


@every_saver
async def test_a_call_that_may_be_run_again_is(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")
        stage.again, stage.act = True, fail
        with pytest.raises(RuntimeError):
            await stage.go("a")
        with pytest.raises(RuntimeError):
            await stage.go()
        stage.act = lambda call: f"did {call} again"
        assert results(await stage.go()) == {"a": "did a again"}
        assert stage.states == ["new"] * 3
        await stage.give(None, config=await stage.before_tools())
        assert stage.states[3:] == ["done"]


@every_saver
async def test_a_fork_uses_the_recorded_result(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")
        await stage.go("a", "b")
        stage.act = lambda _: "something else"
        values = await stage.give(None, config=await stage.before_tools())
        assert sorted(stage.ran) == ["a", "b"]
        assert results(values) == {"a": "did a", "b": "did b"}


@sync_and_async
async def test_a_fork_from_before_the_reply_was_read_uses_it_too(path: Path, mode: str) -> None:
    async with opened("ours", path) as saver:
        stage = Stage(saver, mode, durability="sync")
        await stage.go("a")
        before = [state for state in await stage.history() if state.next == ("looks",)]
        stage.act = lambda _: "something else"
        assert results(await stage.give(None, config=before[-1].config)) == {"a": "did a"}
        assert stage.states == ["new", "done"]


@every_saver
async def test_other_arguments_under_the_same_ids_are_another_call(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")
        await stage.go("a")
        stage.act = lambda _: "something else"
        await stage.go("a", key="another")
        assert stage.ran == ["a", "a"]
        assert results((await stage.state()).values) == {"a": "something else"}


@every_saver
async def test_a_tool_that_interrupts_itself_runs_from_its_top(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")

        def act(call: str) -> str:
            return f"{interrupt('first?')} {interrupt('second?')}" if call == "asks" else f"did {call}"

        stage.act = act
        await stage.go("asks", "a")
        await stage.give(Command(resume="one"))
        assert stage.looked == {}
        values = await stage.give(Command(resume="two"))
        assert stage.ran.count("asks") == 3
        assert stage.ran.count("a") == 1
        assert results(values) == {"asks": "one two", "a": "did a"}
        stage.act = lambda _: "something else"
        values = await stage.give(None, config=await stage.before_tools())
        assert results(values) == {"asks": "one two", "a": "did a"}


@every_saver
async def test_a_resumed_tool_that_breaks_off_is_not_run_again(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")
        stage.act = lambda _: fail(interrupt("sure?"))
        await stage.go("asks")
        with pytest.raises(RuntimeError):
            await stage.give(Command(resume="yes"))
        assert results(await stage.go()) == {"asks": "started"}
        assert stage.states == ["new", "new", "started"]


@every_saver
async def test_new_input_finds_what_became_of_the_calls_before(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")

        def act(call: str) -> str:
            if call == "asks":
                return str(interrupt("sure?"))
            return f"did {call}" if call == "a" else fail(call)

        stage.act = act
        await stage.go("asks", "a")
        with pytest.raises(RuntimeError):
            await stage.go("b")
        stage.act = lambda call: f"did {call}"
        await stage.go("c")
        found = {call: (one.state, one.result and one.result.text) for call, one in stage.looked.items()}
        # Our own saver remembers that a tool waits for its own answer.
        waiting = {"asks": ("waiting", None)} if kind == "ours" else {}
        assert found == {"a": ("done", "did a"), "b": ("started", None), **waiting}


@every_saver
async def test_threads_and_graphs_are_told_apart(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")
        await stage.go("a", config=thread("one"))
        await stage.go("a", config=thread("two"))
        assert stage.states == ["new", "new"]
        stage.graph = embedded(stage, saver)
        stage.act = fail
        with pytest.raises(RuntimeError):
            await stage.go("a", config=thread("one"))
        assert results(await stage.give(None, config=thread("one")))["a"] == "started"
        assert stage.states == ["new", "new", "new", "started"]
        assert stage.infos[-1].checkpoint_ns.count("|") == 1


@every_saver
async def test_a_threads_id_may_be_a_number(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="sync")
        stage.act = fail
        config: RunnableConfig = {"configurable": {"thread_id": 7}}
        with pytest.raises(RuntimeError):
            await stage.go("a", config=config)
        assert results(await stage.give(None, config=config)) == {"a": "started"}


@sync_and_async
async def test_without_a_saver_everything_is_new(path: Path, mode: str) -> None:
    async with opened("none", path) as saver:
        stage = Stage(saver, mode)
        await stage.go("a")
        await stage.go("a")
        assert stage.states == ["new", "new"]
        assert stage.looked == {}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize(("kind", "mode"), [one for one in KINDS if one[0] != "memory"])
async def test_a_call_in_which_the_process_died_is_not_run_again(
    path: Path, kind: str, mode: str, durability: str
) -> None:
    command = [sys.executable, "-m", "tests.graph.effects_stage", kind, mode, str(path), durability]
    run = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=False, capture_output=True)
    assert run.returncode == -signal.SIGKILL, run.stderr[-2000:]
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode)
        assert results(await stage.go()) == {"dies": "started"}
        assert stage.ran == []


# The checkpoint before the call


def put_late(monkeypatch: pytest.MonkeyPatch, saver: Any, mode: str, wait: Callable[[], bool]) -> None:
    """Let the saver take in checkpoints only once a condition holds."""
    name = "aput" if mode == "async" else "put"
    put = getattr(type(saver), name)

    def late_put(*arguments: Any) -> Any:
        while not wait():
            time.sleep(0.005)
        return put(*arguments)

    async def late_aput(*arguments: Any) -> Any:
        while not wait():  # noqa: ASYNC110 (it may be about time)
            await asyncio.sleep(0.005)
        return await put(*arguments)

    monkeypatch.setattr(type(saver), name, late_aput if mode == "async" else late_put)


def later(seconds: float) -> Callable[[], bool]:
    """Holds once these seconds have gone by since it was first asked."""
    begin: list[float] = []

    def holds() -> bool:
        begin.append(time.monotonic())
        return begin[-1] - begin[0] > seconds

    return holds


@every_saver
async def test_a_tool_runs_once_the_reply_that_called_it_is_stored(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    seen: list[bool] = []
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="async")

        def act(_: str) -> str:
            checkpoint_id = stage.infos[-1].checkpoint_id
            if kind == "memory":
                seen.append(checkpoint_id in saver.storage["t"][""])
                return "done"
            with closing(sqlite3.connect(path)) as other:
                found = other.execute("SELECT 1 FROM checkpoints WHERE checkpoint_id = ?", (checkpoint_id,))
                seen.append(bool(found.fetchall()))
            return "done"

        stage.act = act
        put_late(monkeypatch, saver, mode, later(0.1))
        await stage.go("a", "b")
    assert seen == [True, True]


@pytest.mark.parametrize("kind", ["ours", "memory", "aiosqlite"])
async def test_waiting_for_it_blocks_no_event_loop(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async with opened(kind, path) as saver:
        stage = Stage(saver, "async", durability="async")
        put_late(monkeypatch, saver, "async", later(0.3))
        run = asyncio.create_task(stage.go("a"))
        ticks = 0
        while not run.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert results(await run) == {"a": "did a"}
        assert ticks > 3


@every_saver
async def test_a_checkpoint_that_never_comes_is_waited_for_in_vain(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, mode: str
) -> None:
    monkeypatch.setattr(effects, "PATIENCE", 0.1)
    ran: list[str] = []
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="async")
        stage.act = ran.append
        put_late(monkeypatch, saver, mode, lambda: bool(ran))
        await stage.go("a")
    assert ran == ["a"]
    assert "before a call of send was not stored within 0.1 seconds" in caplog.text
    assert not effects._unsaved.get(saver), "a graph of its own is waited for again"


@every_saver
async def test_an_embedded_graph_without_checkpoints_is_waited_for_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, mode: str
) -> None:
    monkeypatch.setattr(effects, "PATIENCE", 0.1)
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="async")
        stage.graph = embedded(stage, saver, own_saver=False)
        for _ in range(3):
            await stage.go("a")
    assert stage.states == ["new"] * 3
    assert caplog.text.count("embedded with checkpointer=False") == 1


@every_saver
async def test_durability_exit_waits_for_nothing_and_is_warned_of_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, mode: str
) -> None:
    monkeypatch.setattr(effects, "PATIENCE", 60.0)
    begin = time.monotonic()
    async with opened(kind, path) as saver:
        stage = Stage(saver, mode, durability="exit")
        await stage.go("a", "b")
        await stage.go("c")
    assert time.monotonic() - begin < effects.PATIENCE / 2
    (warning,) = [record for record in caplog.records if record.name == "turnflow"]
    assert warning.levelno == logging.WARNING
    assert 'durability="exit"' in warning.message


@every_saver
async def test_other_durabilities_are_not_warned_of(
    path: Path, caplog: pytest.LogCaptureFixture, kind: str, mode: str
) -> None:
    async with opened(kind, path) as saver:
        await Stage(saver, mode, durability="sync").go("a")
        await Stage(saver, mode, durability="async").go("b")
    async with opened("none", path) as saver:
        await Stage(saver, mode).go("a")
    assert [record for record in caplog.records if record.name == "turnflow"] == []
