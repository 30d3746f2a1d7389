"""Waiting for time to pass, which a cancel token ends."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait of so many seconds; gives whether the token was cancelled meanwhile, and then at once.

    Attributes:
        seconds: How long; 0 or less waits for nothing.
        cancel: The token to look at.
    """

    seconds: float
    cancel: CancelToken | None = None

    def call(self) -> bool:
        """Wait, blocking."""
        if self.seconds > 0:
            try:
                daemon.wait_done(Future(), timeout=self.seconds, cancel=self.cancel)
            except daemon.GivenUpError as error:
                return error.cancelled
        return self._is_cancelled

    async def acall(self) -> bool:
        """Wait, awaiting."""
        if self.seconds > 0:
            try:
                await daemon.await_done(Future(), timeout=self.seconds, cancel=self.cancel)
            except daemon.GivenUpError as error:
                return error.cancelled
        return self._is_cancelled

    @property
    def _is_cancelled(self) -> bool:
        return self.cancel is not None and self.cancel.cancelled
