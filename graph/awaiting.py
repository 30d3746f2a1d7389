"""Waiting for an awaitable of a caller's, a hook's say, no longer than the turn itself may go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from turnflow.graph.cancel import CancelToken
from turnflow.graph.daemon import CoroutineThread, await_done, wait_done

T = TypeVar("T")

LATE_SECONDS = 5.0
"""How long something may take that is called once the turn is cancelled."""


def wait_for(awaitable: Awaitable[T], cancel: CancelToken | None) -> T:
    """Wait, blocking, for an awaitable, which runs in a loop of its own.

    Raises:
        GivenUpError: The token was cancelled meanwhile; or it was before, and `LATE_SECONDS` are over.
    """
    thread = CoroutineThread(lambda: _of(awaitable))
    timeout, waker = _limits(cancel)
    try:
        wait_done(thread.future, timeout=timeout, cancel=waker)
    except BaseException:
        thread.give_up()
        raise
    return thread.future.result()


async def await_for(awaitable: Awaitable[T], cancel: CancelToken | None) -> T:
    """Wait, awaiting, for an awaitable.

    Raises:
        GivenUpError: The token was cancelled meanwhile; or it was before, and `LATE_SECONDS` are over.
    """
    if cancel is None:
        return await awaitable
    task = asyncio.get_running_loop().create_task(_of(awaitable))
    timeout, waker = _limits(cancel)
    try:
        await await_done(task, timeout=timeout, cancel=waker)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_look)  # what a task raises that is given up concerns nobody
    return task.result()


def _limits(cancel: CancelToken | None) -> tuple[float | None, CancelToken | None]:
    """The time limit, and the token that ends the wait."""
    if cancel is not None and cancel.cancelled:
        return LATE_SECONDS, None
    return None, cancel


async def _of(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _look(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
