"""A tool that never returns holds up its own turn, and that no longer than its time; all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from tests.benchmarks.cases import ANSWER
from tests.benchmarks.stuck import DOUBLE, HANG, Gate, NamedChat, blocking_tools, coroutine_tools, main
from turnflow import TurnResult, arun_turn, build_turn_graph, open_saver, run_turn

OTHERS = [f"other-{n}" for n in range(49)]
NEVER = 3600.0
SOON = 0.2


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture(params=["blocking", "coroutine"])
def tools(request: pytest.FixtureRequest, gate: Gate) -> list[Any]:
    return blocking_tools(gate) if request.param == "blocking" else coroutine_tools(gate)


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Any]:
    with open_saver(tmp_path / "threads.sqlite") as saver:
        yield saver


def graph_of(tools: list[Any], saver: Any, timeout: float) -> Any:
    return build_turn_graph(NamedChat(), tools, checkpointer=saver, policies={HANG: {"timeout": timeout}})


def check(result: TurnResult, content: str) -> None:
    assert (result.status, result.answer) == ("finished", ANSWER)
    (message,) = (m for m in result.messages if isinstance(m, ToolMessage))
    assert str(message.content).startswith(content)


def run_sync(graph: Any, gate: Gate, *, lets_go: bool) -> tuple[TurnResult, list[TurnResult], list[str]]:
    """The stuck turn's result, those of the others, and the threads in the order in which they ended."""
    ended: list[str] = []

    def turn(text: str, thread_id: str) -> TurnResult:
        result = run_turn(graph, text, thread_id=thread_id)
        ended.append(thread_id)
        return result

    with ThreadPoolExecutor(len(OTHERS) + 1) as pool:
        try:
            stuck: Future[TurnResult] = pool.submit(turn, HANG, "stuck")
            assert gate.entered.wait(30)
            others = [future.result() for future in [pool.submit(turn, DOUBLE, name) for name in OTHERS]]
            if lets_go:
                assert not stuck.done()
                gate.opened.set()
            return stuck.result(), others, ended
        finally:
            gate.opened.set()


async def run_async(
    graph: Any, gate: Gate, *, lets_go: bool
) -> tuple[TurnResult, list[TurnResult], list[str]]:
    ended: list[str] = []

    async def turn(text: str, thread_id: str) -> TurnResult:
        result = await arun_turn(graph, text, thread_id=thread_id)
        ended.append(thread_id)
        return result

    stuck = asyncio.create_task(turn(HANG, "stuck"))
    try:
        assert await asyncio.to_thread(gate.entered.wait, 30)
        others = await asyncio.gather(*(turn(DOUBLE, name) for name in OTHERS))
        if lets_go:
            assert not stuck.done()
            gate.opened.set()
        return await stuck, others, ended
    finally:
        gate.opened.set()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_all_others_end_while_it_waits(mode: str, tools: list[Any], gate: Gate, saver: Any) -> None:
    graph = graph_of(tools, saver, NEVER)
    if mode == "sync":
        stuck, others, ended = run_sync(graph, gate, lets_go=True)
    else:
        stuck, others, ended = asyncio.run(run_async(graph, gate, lets_go=True))
    for result in others:
        check(result, "0")
    assert sorted(ended[:-1]) == sorted(OTHERS)
    assert ended[-1] == "stuck"
    check(stuck, "late 0")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_its_turn_goes_on_once_its_time_is_over(mode: str, tools: list[Any], gate: Gate, saver: Any) -> None:
    graph = graph_of(tools, saver, SOON)
    if mode == "sync":
        stuck, others, _ = run_sync(graph, gate, lets_go=False)
    else:
        stuck, others, _ = asyncio.run(run_async(graph, gate, lets_go=False))
    for result in others:
        check(result, "0")
    check(stuck, f"The tool gave no result within {SOON} seconds and was given up")


def test_the_benchmark_has_a_row_for_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--turns", "3", "--reps", "2"])
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    assert [row[1:4] for row in rows if row[1:2] in (["sync"], ["async"])] == [
        ["sync", "all return", "4"],
        ["sync", "is stuck", "4"],
        ["async", "all return", "4"],
        ["async", "is stuck", "4"],
    ]
