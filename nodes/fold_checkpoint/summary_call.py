"""One call of the summariser, waited for by the node's body."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.constants import TAG_NOSTREAM

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken

SUMMARY_SECONDS = 60.0
"""How long one call may take."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call ended: with a value, with what it raised, or given up."""

    value: Any = None
    error: BaseException | None = None
    given_up: daemon.GivenUpError | None = None


class SummaryCall:
    """One call; gives a `CallEnd` and raises nothing of the model's.

    Tracing sees it, and no stream of the graph does: its tag keeps it out of `stream_mode="messages"`.

    Args:
        model: The summariser.
        messages: The request.
        config: The node's configuration.
        cancel: The run's token.
        timeout: Seconds.
    """

    def __init__(
        self,
        model: Any,
        messages: list[BaseMessage],
        config: RunnableConfig,
        *,
        cancel: CancelToken | None,
        timeout: float,
    ) -> None:
        self._model = model
        self._messages = messages
        self._config = merge_configs(config, {"tags": [TAG_NOSTREAM]})
        self._cancel = cancel
        self._timeout = timeout

    def call(self) -> CallEnd:
        """Make it, blocking; a thread that is given up ends by itself."""
        future: Future[CallEnd] = daemon.start(self._invoke)
        try:
            daemon.wait_done(future, timeout=self._timeout, cancel=self._cancel)
        except daemon.GivenUpError as error:
            return CallEnd(given_up=error)
        return future.result()

    async def acall(self) -> CallEnd:
        """Make it, awaiting; a task that is given up is cancelled and not waited for."""
        task = asyncio.get_running_loop().create_task(self._ainvoke())
        try:
            await daemon.await_done(task, timeout=self._timeout, cancel=self._cancel)
        except daemon.GivenUpError as error:
            return CallEnd(given_up=error)
        finally:
            task.cancel()
        return task.result()

    def _invoke(self) -> CallEnd:
        try:
            return CallEnd(value=self._model.invoke(self._messages, self._config))
        except BaseException as error:  # noqa: BLE001 - whatever a model raises is how the call ended
            return CallEnd(error=error)

    async def _ainvoke(self) -> CallEnd:
        try:
            return CallEnd(value=await self._model.ainvoke(self._messages, self._config))
        except BaseException as error:  # noqa: BLE001 - whatever a model raises is how the call ended
            return CallEnd(error=error)
