"""Blocking work in threads that never hold up the program's exit."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from turnflow.graph.cancel import CancelToken

T = TypeVar("T")

SLICE_SECONDS = 0.25
"""Longest blocking wait at a stretch: a signal that arrives just before a wait begins does not end it, so
that what its handler did must be looked at again."""


class GivenUpError(Exception):
    """The work was given up: its time was over, or the turn was cancelled."""

    def __init__(self, *, cancelled: bool) -> None:
        super().__init__("cancelled" if cancelled else "timed out")
        self.cancelled = cancelled


def start(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a daemon thread of its own, with this thread's context variables.

    Whatever it raises, `SystemExit` included, ends up in the future. The thread may be abandoned.
    """
    future: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - the one who waits decides
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="turnflow", daemon=True).start()
    return future


def run_coroutine(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from a blocking caller, whether or not a loop runs in this thread."""
    return start(lambda: asyncio.run(make())).result()


class CoroutineThread(Generic[T]):
    """A coroutine in a loop and a daemon thread of its own; it can be given up."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None
        self._given_up = False
        self.future = start(lambda: asyncio.run(self._main()))

    async def _main(self) -> T:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._make())
        if self._given_up:
            self._task.cancel()
        return await self._task

    def give_up(self) -> None:
        """Cancel the coroutine; waits for nothing."""
        self._given_up = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop is closed: the coroutine has ended
                self._loop.call_soon_threadsafe(self._task.cancel)


def wait_done(future: Future[Any], *, timeout: float | None, cancel: CancelToken | None) -> None:
    """Wait, blocking, until a future is done.

    Raises:
        GivenUpError: `timeout` (seconds) is over, or the token was cancelled.
    """
    # Not an Event: a token may be cancelled by a signal handler within this very wait, and an Event's lock
    # would wait for itself. `put` of a SimpleQueue may be called from there.
    woken: queue.SimpleQueue[None] = queue.SimpleQueue()
    future.add_done_callback(lambda _: woken.put(None))
    remove = cancel.on_cancel(lambda: woken.put(None)) if cancel else None
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while not (future.done() or (cancel and cancel.cancelled)):
            left = SLICE_SECONDS if deadline is None else min(SLICE_SECONDS, deadline - time.monotonic())
            if left <= 0:
                break
            with suppress(queue.Empty):
                woken.get(timeout=left)
    finally:
        if remove:
            remove()
    _check_done(future, cancel)


async def await_done(future: Future[Any], *, timeout: float | None, cancel: CancelToken | None) -> None:  # noqa: ASYNC109
    """Wait, awaiting, until a future is done.

    Raises:
        GivenUpError: `timeout` (seconds) is over, or the token was cancelled.
    """
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        # A closed loop means that nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(woken.set)

    future.add_done_callback(lambda _: wake())
    remove = cancel.on_cancel(wake) if cancel else None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await woken.wait()
    finally:
        if remove:
            remove()
    _check_done(future, cancel)


def _check_done(future: Future[Any], cancel: CancelToken | None) -> None:
    if not future.done():
        raise GivenUpError(cancelled=cancel is not None and cancel.cancelled)


def follow(task: asyncio.Task[T]) -> Future[T]:
    """A future that is done when the task is, with its result or whatever it raised."""
    future: Future[T] = Future()

    def copy(done: asyncio.Task[T]) -> None:
        if done.cancelled():
            future.set_exception(asyncio.CancelledError())
        elif error := done.exception():
            future.set_exception(error)
        else:
            future.set_result(done.result())

    task.add_done_callback(copy)
    return future


def is_being_cancelled() -> bool:
    """Whether somebody cancels this very task, rather than what it called having raised on its own."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
