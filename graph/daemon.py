"""Blocking work in threads that never hold up the program's exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from turnflow.graph.cancel import CancelToken

T = TypeVar("T")


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


def wait_done(future: Future[Any], *, timeout: float | None, cancel: CancelToken | None) -> None:
    """Wait, blocking, until a future is done.

    Raises:
        GivenUpError: `timeout` (seconds) is over, or the token was cancelled.
    """
    woken = threading.Event()
    future.add_done_callback(lambda _: woken.set())
    remove = cancel.on_cancel(woken.set) if cancel else None
    try:
        woken.wait(timeout)
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
