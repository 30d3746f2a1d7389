"""A model's stream, waited for chunk by chunk, that a cancel token can break off."""

from __future__ import annotations

import asyncio
import math
import queue
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Literal

from langchain_core.messages import BaseMessage

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken

Tail = Literal["end", "cancelled", "tick"]
Chunk = BaseMessage | Tail


class ModelStream:
    """The chunks of one request; a node's body waits for them one by one.

    A wait gives a chunk, `end` once there are no more, `cancelled` once the token is, or `tick` when the
    time that `due` names is over. What the model raises is raised to the one who waits.

    A stream that nobody can cancel and that has no ticks is read directly. Any other is read by a thread
    (or a task) of its own, so that a model that keeps silent holds up neither.

    Args:
        open_stream: Opens the stream, blocking.
        aopen_stream: Opens the stream, awaiting.
        cancel: The token to look at.
        due: Seconds until the caller wants a `tick`, None while it wants none; absent for a caller that
            never does.
    """

    def __init__(
        self,
        open_stream: Callable[[], Iterator[BaseMessage]],
        aopen_stream: Callable[[], AsyncIterator[BaseMessage]],
        *,
        cancel: CancelToken | None = None,
        due: Callable[[], float | None] | None = None,
    ) -> None:
        self._open = open_stream
        self._aopen = aopen_stream
        self._cancel = cancel
        self._due = due
        self._chunks: Iterator[BaseMessage] | None = None
        self._achunks: AsyncIterator[BaseMessage] | None = None
        self._thread: _ThreadPump | None = None
        self._task: _TaskPump | None = None

    def call(self) -> Chunk:
        """The next chunk, blocking."""
        if self._is_watched:
            self._thread = self._thread or _ThreadPump(self._open, self._cancel)
            return self._thread.next(self._patience())
        self._chunks = self._chunks or self._open()
        return next(self._chunks, "end")

    async def acall(self) -> Chunk:
        """The next chunk, awaiting."""
        if self._is_watched:
            self._task = self._task or _TaskPump(self._aopen, self._cancel)
            return await self._task.next(self._patience())
        self._achunks = self._achunks or self._aopen()
        return await anext(self._achunks, "end")

    def close(self) -> None:
        """Give the stream up; waits for nothing."""
        for pump in (self._thread, self._task):
            if pump is not None:
                pump.close()

    @property
    def _is_watched(self) -> bool:
        return self._cancel is not None or self._due is not None

    def _patience(self) -> float | None:
        return self._due() if self._due else None


class _ThreadPump:
    """Reads a stream in a daemon thread; a thread that is given up ends with the next chunk."""

    def __init__(self, open_stream: Callable[[], Iterator[BaseMessage]], cancel: CancelToken | None) -> None:
        self._open = open_stream
        self._cancel = cancel
        # `put` of a SimpleQueue may be called from a signal handler.
        self._arrived: queue.SimpleQueue[Chunk | BaseException] = queue.SimpleQueue()
        self._closed = False
        self._remove = cancel.on_cancel(lambda: self._arrived.put("cancelled")) if cancel else None
        daemon.start(self._pump)

    def next(self, patience: float | None) -> Chunk:
        deadline = math.inf if patience is None else time.monotonic() + patience
        while not (self._cancel and self._cancel.cancelled):
            left = max(0.0, deadline - time.monotonic())
            try:
                return _unwrap(self._arrived.get(timeout=min(daemon.SLICE_SECONDS, left)))
            except queue.Empty:
                if left <= daemon.SLICE_SECONDS:
                    return "tick"
        return "cancelled"

    def close(self) -> None:
        self._closed = True
        if self._remove:
            self._remove()

    def _pump(self) -> None:
        try:
            for chunk in self._open():
                if self._closed:
                    return
                self._arrived.put(chunk)
        except BaseException as error:  # noqa: BLE001 - raised to the one who waits
            self._arrived.put(error)
        else:
            self._arrived.put("end")


class _TaskPump:
    """Reads a stream in a task; a task that is given up is cancelled and not waited for."""

    def __init__(
        self, open_stream: Callable[[], AsyncIterator[BaseMessage]], cancel: CancelToken | None
    ) -> None:
        self._open = open_stream
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Chunk | BaseException] = asyncio.Queue()
        self._closed = False
        self._remove = cancel.on_cancel(self._wake) if cancel else None
        self._task = self._loop.create_task(self._pump())

    async def next(self, patience: float | None) -> Chunk:
        if self._cancel and self._cancel.cancelled:
            return "cancelled"
        try:
            async with asyncio.timeout(patience):
                return _unwrap(await self._arrived.get())
        except TimeoutError:
            return "tick"

    def close(self) -> None:
        self._closed = True
        self._task.cancel()
        if self._remove:
            self._remove()

    def _wake(self) -> None:
        # A closed loop means that nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, "cancelled")

    async def _pump(self) -> None:
        try:
            async for chunk in self._open():
                self._arrived.put_nowait(chunk)
        except BaseException as error:
            if self._closed:
                raise
            self._arrived.put_nowait(error)  # raised to the one who waits
        else:
            self._arrived.put_nowait("end")


def _unwrap(arrived: Chunk | BaseException) -> Chunk:
    if isinstance(arrived, BaseException):
        raise arrived
    return arrived
