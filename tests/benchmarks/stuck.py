"""`python -m tests.benchmarks.stuck`: what a tool that never returns costs the turns beside its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolCall
from langchain_core.messages.tool import ToolCallChunk
from rich import box
from rich.console import Console
from rich.table import Table

from tests.benchmarks.cases import ANSWER, MODES, Mode
from tests.benchmarks.fake_model import InstantChat
from turnflow import arun_turn, build_turn_graph, open_saver, run_turn

DOUBLE, HANG = "double", "hang"

_TURNS = 50
_REPS = 5
_TIMEOUT = 3600.0
"""Seconds that the stuck tool may take: longer than anything here lasts."""


class NamedChat(InstantChat):
    """Calls the tool that the user's message names, once, then answers."""

    rounds: int = 1
    calls: int = 1

    def _calls(self, messages: list[BaseMessage]) -> list[ToolCall]:
        name = next(str(m.content) for m in reversed(messages) if isinstance(m, HumanMessage))
        return [ToolCall({**call, "name": name}) for call in super()._calls(messages)]

    def _reply(self, messages: list[BaseMessage]) -> AIMessageChunk:
        calls = self._calls(messages)
        chunks = [
            ToolCallChunk(
                type="tool_call_chunk",
                id=call["id"],
                name=call["name"],
                args=json.dumps(call["args"]),
                index=n,
            )
            for n, call in enumerate(calls)
        ]
        return AIMessageChunk(content="" if calls else ANSWER, tool_call_chunks=chunks)


@dataclass
class Gate:
    """Where the stuck tool waits."""

    entered: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)


def blocking_tools(gate: Gate) -> list[Callable[..., Any]]:
    """A quick tool and one that is stuck, both plain functions."""

    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    def hang(number: int) -> str:
        """Wait for the gate."""
        gate.entered.set()
        gate.opened.wait()
        return f"late {number}"

    return [double, hang]


def coroutine_tools(gate: Gate) -> list[Callable[..., Any]]:
    """The same as coroutine functions."""

    async def double(number: int) -> int:
        """Double a number."""
        return number * 2

    async def hang(number: int) -> str:
        """Wait for the gate."""
        opened = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait() -> None:
            gate.opened.wait()
            with suppress(RuntimeError):  # the loop is closed: the call was given up
                loop.call_soon_threadsafe(opened.set)

        threading.Thread(target=wait, daemon=True).start()
        gate.entered.set()
        await opened.wait()
        return f"late {number}"

    return [double, hang]


def measure(mode: Mode, others: int, folder: Path, *, stuck: bool) -> list[float]:
    """Seconds that each of `others` turns takes, all at once on one graph and one SQLite saver.

    With `stuck` there is one turn more, whose tool is entered before they start and left when all are done.

    Raises:
        ValueError: A turn ended without its answer.
    """
    gate = Gate()
    tools = blocking_tools(gate) if mode == "sync" else coroutine_tools(gate)
    with open_saver(folder / f"{mode}-{stuck}-{time.time_ns()}.sqlite") as saver:
        graph = build_turn_graph(
            NamedChat(), tools, checkpointer=saver, policies={HANG: {"timeout": _TIMEOUT}}
        )
        run_turn(graph, DOUBLE)
        if mode == "sync":
            return _in_threads(graph, gate, others, stuck=stuck)
        return asyncio.run(_in_tasks(graph, gate, others, stuck=stuck))


def _in_threads(graph: Any, gate: Gate, others: int, *, stuck: bool) -> list[float]:
    def timed() -> float:
        start = time.perf_counter()
        _check(run_turn(graph, DOUBLE).answer)
        return time.perf_counter() - start

    with ThreadPoolExecutor(others + 1) as pool:
        try:
            hanging = pool.submit(run_turn, graph, HANG) if stuck else None
            if hanging:
                gate.entered.wait()
            seconds = [future.result() for future in [pool.submit(timed) for _ in range(others)]]
        finally:
            gate.opened.set()
        if hanging:
            _check(hanging.result().answer)
    return seconds


async def _in_tasks(graph: Any, gate: Gate, others: int, *, stuck: bool) -> list[float]:
    async def timed() -> float:
        start = time.perf_counter()
        _check((await arun_turn(graph, DOUBLE)).answer)
        return time.perf_counter() - start

    hanging = asyncio.create_task(arun_turn(graph, HANG)) if stuck else None
    try:
        if hanging:
            await asyncio.to_thread(gate.entered.wait)
        seconds = await asyncio.gather(*(timed() for _ in range(others)))
    finally:
        gate.opened.set()
    if hanging:
        _check((await hanging).answer)
    return seconds


def _check(answer: str) -> None:
    if answer != ANSWER:
        raise ValueError(f"a turn ran otherwise than it should; its answer is {answer!r}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the turns' medians and 90th percentiles."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stuck", description=main.__doc__)
    parser.add_argument("--turns", type=int, default=_TURNS, help="turns at once (default: %(default)s)")
    parser.add_argument("--reps", type=int, default=_REPS, help="times (default: %(default)s)")
    options = parser.parse_args(arguments)
    others = options.turns - 1
    table = Table("mode", "one of the tools", box=box.MARKDOWN)
    for column in ("turns", "median ms", "p90"):
        table.add_column(column, justify="right")
    for mode in MODES:
        seconds: dict[bool, list[float]] = {False: [], True: []}
        with tempfile.TemporaryDirectory() as folder:
            for rep in range(options.reps):
                # In turns, and each first half of the times: what slows the machine down slows both.
                for stuck in (False, True) if rep % 2 == 0 else (True, False):
                    seconds[stuck] += measure(mode, others, Path(folder), stuck=stuck)
        for stuck, measured in seconds.items():
            p90 = statistics.quantiles(measured, n=10, method="inclusive")[-1]
            times = [f"{1000 * number:.1f}" for number in (statistics.median(measured), p90)]
            table.add_row(mode, "is stuck" if stuck else "all return", f"{len(measured)}", *times)
    Console(width=100, highlight=False).print(table)


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    main()
