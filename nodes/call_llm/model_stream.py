"""A model's stream, waited for chunk by chunk, that a cancel token or a clock can break off."""

from __future__ import annotations

import asyncio
import math
import queue
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Literal

from langchain_core.messages import BaseMessage

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken
from turnflow.nodes.call_llm.line import Line
from turnflow.nodes.call_llm.stream_clock import StreamClock

Tail = Literal["end", "cancelled", "tick", "late"]
Chunk = BaseMessage | Tail

_HELD_UP = 0.1
"""Who wakes so many seconds after the time was held up; what did come could not be read either."""
_GRACE = 0.25
"""Seconds in which it is read then, before the silence counts."""
_TIMER_SLACK = 0.001
"""Seconds by which a timer that is set already may be late."""
_MOST_UNREAD = 64
"""Chunks that a model may give at a stretch, never waiting for anything, before others get their turn."""


class ModelStream:
    """The chunks of one request; a node's body waits for them one by one.

    A wait gives a chunk, `end` once there are no more, `cancelled` once the token is, `tick` when the time
    that `due` names is over, or `late` when the clock's is; what that means the clock says. What the model
    raises is raised to the one who waits. A chunk that has come is given, however late it is asked for,
    unless the round's time is over, or the time after the finish reason.

    It is read by a thread (or a task) of its own, so that a model that keeps silent holds up none of them.

    Args:
        open_stream: Opens the stream, blocking.
        aopen_stream: Opens the stream, awaiting.
        cancel: The token to look at.
        due: Seconds until the caller wants a `tick`, None while it wants none; absent for a caller that
            never does.
        clock: The clock to heed; the caller tells it what each chunk was.
    """

    def __init__(
        self,
        open_stream: Callable[[], Iterator[BaseMessage]],
        aopen_stream: Callable[[], AsyncIterator[BaseMessage]],
        *,
        cancel: CancelToken | None = None,
        due: Callable[[], float | None] | None = None,
        clock: StreamClock | None = None,
    ) -> None:
        self._open = open_stream
        self._aopen = aopen_stream
        self._cancel = cancel
        self._due = due
        self._clock = clock
        self._thread: _ThreadPump | None = None
        self._task: _TaskPump | None = None

    def call(self) -> Chunk:
        """The next chunk, blocking."""
        if self._thread is None:
            self._thread = _ThreadPump(self._open, self._cancel, self._clock)
        return self._thread.next(self._due)

    async def acall(self) -> Chunk:
        """The next chunk, awaiting."""
        if self._task is None:
            self._task = _TaskPump(self._aopen, self._cancel, self._clock)
        return await self._task.next(self._due)

    def close(self) -> None:
        """Give the stream up; waits for nothing."""
        for pump in (self._thread, self._task):
            if pump is not None:
                pump.close()


class _ThreadPump:
    """Reads a stream in a daemon thread.

    One that is given up hangs up, so that the thread ends, where the model says what line it is on; else the
    thread ends with the next chunk, or once its client has had enough of the silence.
    """

    def __init__(
        self,
        open_stream: Callable[[], Iterator[BaseMessage]],
        cancel: CancelToken | None,
        clock: StreamClock | None,
    ) -> None:
        self._open = open_stream
        self._cancel = cancel
        self._clock = clock
        # `put` of a SimpleQueue may be called from a signal handler.
        self._arrived: queue.SimpleQueue[Chunk | BaseException] = queue.SimpleQueue()
        self._line = Line()
        self._has_all = False
        self._is_over = False
        self._closed = False
        self._remove = cancel.on_cancel(lambda: self._arrived.put("cancelled")) if cancel else None
        daemon.start(self._pump)

    def next(self, due: Callable[[], float | None] | None) -> Chunk:
        if self._cancel is not None and self._cancel.cancelled:
            return "cancelled"
        if not self._arrived.empty():
            if self._clock is not None and not self._has_all and self._clock.overdue():
                return "late"
            return self._taken(self._arrived.get())
        if self._is_over:
            return "end"
        patience = due() if due is not None else None
        if self._clock is None:
            return self._wait(patience)
        self._clock.go()
        try:
            return self._wait(patience)
        finally:
            self._clock.stop()

    def close(self) -> None:
        self._closed = True
        if not self._has_all:
            self._line.hang_up()
        if self._remove:
            self._remove()

    def _wait(self, patience: float | None) -> Chunk:
        now = time.monotonic()
        tick_at = math.inf if patience is None else now + patience
        while not (self._cancel and self._cancel.cancelled):
            left = self._clock.left() if self._clock else math.inf
            if left <= 0:
                return "late"
            if tick_at <= now:
                return "tick"
            slice_ = min(daemon.SLICE_SECONDS, left, tick_at - now)
            with suppress(queue.Empty):
                return self._taken(self._arrived.get(timeout=slice_))
            before, now = now, time.monotonic()
            if self._clock and (held_up := now - before - slice_) > _HELD_UP:
                self._clock.excuse(held_up + _GRACE)
        return "cancelled"

    def _taken(self, arrived: Chunk | BaseException) -> Chunk:
        if isinstance(arrived, BaseException):
            self._is_over = True
            raise arrived
        self._is_over = arrived == "end"
        return arrived

    def _pump(self) -> None:
        arrived = self._arrived
        last: Literal["end"] | BaseException = "end"
        try:
            with self._line.in_use():
                chunks = self._open()
                for chunk in chunks:
                    if self._closed:
                        _close(chunks)
                        return
                    arrived.put(chunk)
        except BaseException as error:  # noqa: BLE001 - raised to the one who waits
            last = error
        self._has_all = True
        arrived.put(last)


class _TaskPump:
    """Reads a stream in a task.

    A task that is given up is cancelled, which closes what it reads from, and is not waited for.
    """

    def __init__(
        self,
        open_stream: Callable[[], AsyncIterator[BaseMessage]],
        cancel: CancelToken | None,
        clock: StreamClock | None,
    ) -> None:
        self._open = open_stream
        self._cancel = cancel
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[BaseMessage] = deque()
        self._last: Literal["end"] | BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rang_late = 0.0
        self._closed = False
        self._remove = cancel.on_cancel(self._wake) if cancel else None
        self._task = self._loop.create_task(self._pump())

    async def next(self, due: Callable[[], float | None] | None) -> Chunk:
        if self._cancel is not None and self._cancel.cancelled:
            return "cancelled"
        if not self._arrived and self._last is None:
            if (tail := await self._wait(due() if due is not None else None)) is not None:
                return tail
        elif self._clock is not None and self._last is None and self._clock.overdue():
            return "late"
        if self._arrived:
            return self._arrived.popleft()
        last, self._last = self._last, "end"
        if isinstance(last, BaseException):
            raise last
        return "end"

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._remove:
            self._remove()
        with suppress(RuntimeError):  # the loop is closed, and the task with it
            self._task.cancel()

    async def _wait(self, patience: float | None) -> Tail | None:
        """Wait until something has come; gives a tail in its place."""
        clock, loop = self._clock, self._loop
        tick_at = math.inf if patience is None else loop.time() + patience
        if clock is not None:
            clock.go()
        try:
            while True:
                left = math.inf if clock is None else clock.left()
                if left <= 0:
                    return "late"
                now = loop.time()
                if tick_at <= now:
                    return "tick"
                self._set_timer(min(tick_at, now + left))
                self._waiter = loop.create_future()
                await self._waiter
                if self._cancel is not None and self._cancel.cancelled:
                    return "cancelled"
                if self._arrived or self._last is not None:
                    return None
                held_up, self._rang_late = self._rang_late, 0.0
                if clock is not None and held_up > _HELD_UP:
                    clock.excuse(held_up + _GRACE)
        finally:
            self._waiter = None
            if clock is not None:
                clock.stop()

    def _set_timer(self, at: float) -> None:
        """Have the waiter woken at a time of the loop's, or earlier: one timer serves many waits."""
        if at == math.inf:
            return
        at = min(at, self._loop.time() + daemon.LONGEST_SECONDS)
        if self._timer is not None:
            if self._timer.when() <= at + _TIMER_SLACK:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._ring, at)

    def _ring(self, at: float) -> None:
        self._timer = None
        self._rang_late = self._loop.time() - at
        self._rouse()

    def _wake(self) -> None:
        # A closed loop means that nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rouse)

    def _rouse(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _pump(self) -> None:
        arrived = self._arrived
        try:
            chunks = self._open()
            async for chunk in chunks:
                if self._closed:  # the model took no notice that it was cancelled
                    await _aclose(chunks)
                    return
                arrived.append(chunk)
                if self._waiter is not None:
                    self._rouse()
                if len(arrived) > _MOST_UNREAD:
                    await asyncio.sleep(0)
        except BaseException as error:
            if not self._closed:
                self._last = error  # raised to the one who waits
            elif not isinstance(error, Exception):
                raise
        else:
            self._last = "end"
        self._rouse()


def _close(chunks: Iterator[BaseMessage]) -> None:
    if (close := getattr(chunks, "close", None)) is not None:
        close()


async def _aclose(chunks: AsyncIterator[BaseMessage]) -> None:
    if (aclose := getattr(chunks, "aclose", None)) is not None:
        await aclose()
