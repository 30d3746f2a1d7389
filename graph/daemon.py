"""Blocking work in threads that never hold up the program's exit."""

from __future__ import annotations

import asyncio
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from turnflow.graph.cancel import CancelToken

T = TypeVar("T")

SLICE_SECONDS = 0.1
"""Longest blocking wait at a stretch: a signal that arrives just before a wait begins does not end it, so
that what its handler did must be looked at again."""

LONGEST_SECONDS = 24 * 3600.0
"""Longest timer that an event loop is given; not every loop can count as far as a limit of time may go."""


class GivenUpError(Exception):
    """The work was given up: its time was over, or the turn was cancelled."""

    def __init__(self, *, cancelled: bool) -> None:
        super().__init__("cancelled" if cancelled else "timed out")
        self.cancelled = cancelled


def start(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a daemon thread, with this thread's context variables.

    Whatever it raises, `SystemExit` included, ends up in the future. The thread may be abandoned: it does no
    other work before this one ends.
    """
    future: Future[T] = Future()
    # It runs from now on: one who waits may stop waiting, as a cancelled task does, but not call it off.
    future.set_running_or_notify_cancel()
    job = _Job(work, future, copy_context())
    try:
        _idle.pop().put(job)
    except IndexError:
        threading.Thread(target=_serve, args=(job,), name="turnflow", daemon=True).start()
    return future


@dataclass(frozen=True)
class _Job:
    work: Callable[[], Any]
    future: Future[Any]
    context: Context

    def run(self, jobs: _Jobs) -> bool:
        """Do the work; whether the thread, to which `jobs` leads, stays for another job.

        It is idle before anyone hears of the end, so that whoever waits for it can have the thread next.
        """
        try:
            result = self.context.run(self.work)
        except BaseException as error:  # noqa: BLE001 - the one who waits decides
            stays = _offer(jobs)
            self.future.set_exception(error)
        else:
            stays = _offer(jobs)
            self.future.set_result(result)
        return stays


_Jobs = queue.SimpleQueue[_Job]
_idle: list[_Jobs] = []
"""Where threads without work wait for some. `append` and `pop` of a list need no lock."""

_MOST_IDLE = 32


def _offer(jobs: _Jobs) -> bool:
    """Make a thread one of the idle ones, if there are not enough of them."""
    if len(_idle) >= _MOST_IDLE:
        return False
    _idle.append(jobs)
    return True


def _serve(job: _Job) -> None:
    """Do a job, then those that come: what a thread does."""
    jobs: _Jobs = queue.SimpleQueue()
    while job.run(jobs):
        del job  # and with it what it worked on
        job = jobs.get()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


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


async def await_done(
    future: Future[Any] | asyncio.Task[Any],
    *,
    timeout: float | None,  # noqa: ASYNC109
    cancel: CancelToken | None,
) -> None:
    """Wait, awaiting, until a future, or a task of this loop, is done.

    Raises:
        GivenUpError: `timeout` (seconds) is over, or the token was cancelled.
    """
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    deadline = math.inf if timeout is None else loop.time() + timeout

    def wake() -> None:
        # A closed loop means that nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(woken.set)

    if isinstance(future, asyncio.Task):
        future.add_done_callback(lambda _: woken.set())  # in this thread: the loop need not be woken
    else:
        future.add_done_callback(lambda _: wake())
    remove = cancel.on_cancel(wake) if cancel else None
    try:
        while True:
            left = deadline - loop.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else min(left, LONGEST_SECONDS)):
                    await woken.wait()
            if woken.is_set() or loop.time() >= deadline:
                break
    finally:
        if remove:
            remove()
    _check_done(future, cancel)


def _check_done(future: Future[Any] | asyncio.Task[Any], cancel: CancelToken | None) -> None:
    if not future.done():
        raise GivenUpError(cancelled=cancel is not None and cancel.cancelled)


def is_being_cancelled() -> bool:
    """Whether somebody cancels this very task, rather than what it called having raised on its own."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
