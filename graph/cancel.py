"""A token that cancels a running turn from any thread or task."""

from __future__ import annotations

import threading
from collections.abc import Callable


class CancelToken:
    """Cancels the turn that it was given to, through `TurnContext(cancel=token)`.

    The turn settles at its next await point: partial text is kept and marked, open calls are answered
    "cancelled", and the outcome's status is `cancelled`. A token is used for one turn and stays set.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._wakers: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel the turn. Safe to call from any thread, from a signal handler, and more than once."""
        # A signal handler may interrupt this very thread inside `on_cancel`: never wait for the lock.
        self._cancelled = True
        for wake in list(self._wakers):
            wake()

    def on_cancel(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once the token is cancelled, at once if it is already.

        Args:
            wake: A callable that only wakes a waiter: it must not block or raise, and may be called twice.

        Returns:
            A callable that takes `wake` off again.
        """
        with self._lock:
            self._wakers.append(wake)
        if self._cancelled:
            wake()

        def remove() -> None:
            with self._lock:
                if wake in self._wakers:
                    self._wakers.remove(wake)

        return remove
