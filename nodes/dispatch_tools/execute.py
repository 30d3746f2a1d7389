"""Runs one tool, with its time limit, so that nothing that it does can break the turn."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken


@dataclass(frozen=True)
class ToolEnd:
    """How a call ended: with a value, with what it raised, or given up."""

    value: Any = None
    error: BaseException | None = None
    given_up: daemon.GivenUpError | None = None


class ToolRun:
    """One call of a tool; waited for by a node's body, gives a `ToolEnd` and raises nothing of the tool's.

    A blocking tool runs in a daemon thread that is abandoned once its time is over: it never blocks the
    event loop nor the program's exit. A coroutine runs in a task that is cancelled and not waited for.
    """

    def __init__(
        self,
        tool: BaseTool,
        call: dict[str, Any],
        config: RunnableConfig,
        *,
        timeout: float,
        cancel: CancelToken | None,
    ) -> None:
        self._tool = tool
        self._call = call
        self._config = config
        self._timeout = timeout
        self._cancel = cancel

    def call(self) -> ToolEnd:
        """Run it, blocking."""
        if has_sync(self._tool):
            return self._wait(daemon.start(self._invoke))
        thread = daemon.CoroutineThread(self._ainvoke)
        end = self._wait(thread.future)
        if end.given_up:
            thread.give_up()
        return end

    def _wait(self, future: Future[ToolEnd]) -> ToolEnd:
        try:
            daemon.wait_done(future, timeout=self._timeout, cancel=self._cancel)
        except daemon.GivenUpError as error:
            return ToolEnd(given_up=error)
        return future.result()

    async def acall(self) -> ToolEnd:
        """Run it, awaiting."""
        running: Future[ToolEnd] | asyncio.Task[ToolEnd]
        if has_async(self._tool):
            running = asyncio.get_running_loop().create_task(self._ainvoke())
        else:
            running = daemon.start(self._invoke)
        try:
            await daemon.await_done(running, timeout=self._timeout, cancel=self._cancel)
        except daemon.GivenUpError as error:
            return ToolEnd(given_up=error)
        finally:
            if isinstance(running, asyncio.Task):
                running.cancel()
        return running.result()

    def _invoke(self) -> ToolEnd:
        try:
            return ToolEnd(value=self._tool.invoke(self._call, self._config))
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its result
            return ToolEnd(error=error)

    async def _ainvoke(self) -> ToolEnd:
        try:
            return ToolEnd(value=await _guarded(self._tool).ainvoke(self._call, self._config))
        except _ExitError as error:
            return ToolEnd(error=error.__cause__)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its result
            return ToolEnd(error=error)


class _ExitError(Exception):
    """Stands for a `SystemExit` or `KeyboardInterrupt` that a coroutine raised, its cause."""


def _guarded(tool: BaseTool) -> BaseTool:
    """The tool with a coroutine that cannot end the event loop.

    LangChain runs it in a task of its own, and asyncio lets these two exceptions of a task end the loop.
    """
    run = tool._arun  # noqa: SLF001 - the documented method to override

    @functools.wraps(run)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return await run(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _ExitError from error

    copy = tool.model_copy()
    object.__setattr__(copy, "_arun", guarded)
    return copy


def has_sync(tool: BaseTool) -> bool:
    """Whether the tool can be called without a loop."""
    return not (isinstance(tool, StructuredTool) and tool.func is None)


def has_async(tool: BaseTool) -> bool:
    """Whether the tool is a coroutine of its own, not a blocking call in a thread."""
    if isinstance(tool, StructuredTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - the documented method to override
