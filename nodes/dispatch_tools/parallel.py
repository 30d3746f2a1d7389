"""How many calls of a batch run at the same time."""

from __future__ import annotations

import asyncio
import threading
from weakref import WeakValueDictionary

_lock = threading.Lock()
_blocking: WeakValueDictionary[tuple[str, int], threading.Semaphore] = WeakValueDictionary()
_awaiting: WeakValueDictionary[tuple[str, int, int], asyncio.Semaphore] = WeakValueDictionary()


class Slot:
    """A place among the calls of a batch that run; waited for by a node's body, then released.

    Each task of a wave has its own `Slot`; those of one batch share a semaphore, which lives as long as one
    of them does, so that one slow call holds back no more than its own place.
    """

    def __init__(self, wave_key: str, limit: int) -> None:
        self._wave_key = wave_key
        self._limit = limit
        self._held: threading.Semaphore | asyncio.Semaphore | None = None

    def call(self) -> None:
        """Take the place, blocking."""
        with _lock:
            semaphore = _blocking.setdefault((self._wave_key, self._limit), threading.Semaphore(self._limit))
        semaphore.acquire()
        self._held = semaphore

    async def acall(self) -> None:
        """Take the place, awaiting."""
        key = (self._wave_key, self._limit, id(asyncio.get_running_loop()))
        with _lock:
            semaphore = _awaiting.setdefault(key, asyncio.Semaphore(self._limit))
        await semaphore.acquire()
        self._held = semaphore

    def release(self) -> None:
        """Give the place back, if it was taken."""
        if self._held is not None:
            self._held.release()
            self._held = None
