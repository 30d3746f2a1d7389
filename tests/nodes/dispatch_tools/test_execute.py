"""Running one tool: what a coroutine does that was given up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from turnflow import CancelToken
from turnflow.nodes.dispatch_tools.execute import ToolEnd, ToolRun

CALL = {"type": "tool_call", "id": "c1", "name": "sleeper", "args": {}}


class Sleeper:
    """A tool that sleeps before it has its effect."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.begun = threading.Event()
        self.broken_off = threading.Event()

    @property
    def tool(self) -> BaseTool:
        async def sleeper() -> str:
            """Sleep, then act."""
            self.begun.set()
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                self.broken_off.set()
                raise
            self.effects.append("acted")
            return "late"

        return StructuredTool.from_function(coroutine=sleeper)

    def run(self, **options: Any) -> ToolRun:
        return ToolRun(self.tool, CALL, {}, **{"timeout": 20.0, "cancel": None, **options})


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_coroutine_whose_time_is_over_has_no_effect(mode: str) -> None:
    sleeper = Sleeper()

    async def awaited() -> ToolEnd:
        end = await sleeper.run(timeout=0.1).acall()
        await asyncio.sleep(0.05)  # the loop's own end would break it off too
        assert sleeper.broken_off.is_set()
        return end

    end = sleeper.run(timeout=0.1).call() if mode == "sync" else asyncio.run(awaited())
    assert end.given_up
    assert not end.given_up.cancelled
    assert sleeper.broken_off.wait(10)
    assert sleeper.effects == []


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_coroutine_whose_turn_is_cancelled_has_no_effect(mode: str) -> None:
    sleeper, token = Sleeper(), CancelToken()

    def cancel() -> None:
        sleeper.begun.wait(10)
        token.cancel()

    threading.Thread(target=cancel, daemon=True).start()

    async def awaited() -> ToolEnd:
        end = await sleeper.run(cancel=token).acall()
        await asyncio.sleep(0.05)  # the loop's own end would break it off too
        assert sleeper.broken_off.is_set()
        return end

    end = sleeper.run(cancel=token).call() if mode == "sync" else asyncio.run(awaited())
    assert end.given_up
    assert end.given_up.cancelled
    assert sleeper.broken_off.wait(10)
    assert sleeper.effects == []
