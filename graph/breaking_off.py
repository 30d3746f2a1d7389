"""Ctrl-C and a cancelled task, turned into a cancelled token, so that a turn settles before it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from turnflow.graph.cancel import CancelToken

logger = logging.getLogger("turnflow")

T = TypeVar("T")

SETTLE_SECONDS = 5.0
"""How long a turn may take to settle in good order, and after that to be broken off."""


@contextmanager
def ctrl_c_cancels(token: CancelToken) -> Iterator[None]:
    """Within this block the first Ctrl-C cancels the token, and is raised once the block is over.

    A second one is raised at once. Only where Ctrl-C means what Python makes of it, in the main thread: a
    program that handles the signal in its own way, an event loop among them, is left to do so.

    Raises:
        KeyboardInterrupt: It was pressed; what the block gave or raised is lost with it.
    """
    pressed = False

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        token.cancel()

    if not _is_pythons_own():
        yield
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is press:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            raise KeyboardInterrupt


def _is_pythons_own() -> bool:
    """Whether this thread can handle Ctrl-C, and nobody else does."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    with suppress(ValueError):  # a subinterpreter handles no signals
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return True
    return False


async def settled_first(work: Coroutine[Any, Any, T], token: CancelToken) -> T:
    """Await work that a token cancels; if this task is cancelled the work settles before that is raised.

    The work runs in a task of its own: a cancel scope may cancel whoever awaits in it again and again, and a
    second cancel would break off what settles.

    Args:
        work: What is awaited.
        token: What cancels it in good order. If that takes longer than `SETTLE_SECONDS` its task is
            cancelled, and after as long again it is left to itself.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        token.cancel()
        if not await _ends(task):
            task.cancel()
            if not await _ends(task):
                logger.warning("a turn that was cancelled does not end; it is left to itself")
        if task.done() and not task.cancelled() and (error := task.exception()):
            logger.info("a turn that was cancelled ended with %s: %s", type(error).__name__, error)
        raise
    return task.result()


async def _ends(task: asyncio.Task[Any]) -> bool:
    """Wait until a task is done, `SETTLE_SECONDS` at most, however often this one is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    while not task.done() and (left := deadline - loop.time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
    return task.done()
