"""How long a reply may take, told chunk by chunk. No threads, no timers: it is asked, and it is pure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


class ReplyTimeoutError(TimeoutError):
    """The reply took too long."""


class FirstTokenTimeoutError(ReplyTimeoutError):
    """Nothing came of the reply at all."""


class IdleTimeoutError(ReplyTimeoutError):
    """A reply that had begun went silent."""


class RoundTimeoutError(ReplyTimeoutError):
    """The time of the whole round was over."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The time that a reply may take, in seconds.

    Attributes:
        first_token: Until the first output, from the request's start.
        idle: Between two chunks that bring output.
        usage: Silence after the finish reason that ends the reply.
        final: After the finish reason in all, whatever still comes.
        deadline: When the round is over, on the monotonic clock.
    """

    first_token: float
    idle: float
    usage: float
    final: float
    deadline: float = math.inf


class StreamClock:
    """Says when a stream has taken too long; after the finish reason that only means that it is over.

    The request starts with the clock. Output is text, a thought or a piece of a call: a chunk that has none,
    nor news of usage after the finish reason, is no sign of life.

    Silence is time in which the stream was waited for: between `stop` and `go` none passes, so that a caller
    who is busy does not take a chunk that nobody read for one that did not come. The deadline, and the time
    after the finish reason in all, know no such rest.

    Args:
        limits: The limits.
        now: Gives the time, in seconds that never go back.
    """

    def __init__(self, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self._started_at = self._alive_at = now()
        self._silence = limits.first_token
        self._has_begun = False
        self._is_finished = False
        self._final_at: float | None = None
        self._stopped_at: float | None = None
        self._left_out = 0.0

    def seen(self, *, has_output: bool, finish_reason: bool, usage: bool) -> None:
        """Take note of the chunk that came last.

        Args:
            has_output: It brings text, a thought or a piece of a call.
            finish_reason: The reply has a finish reason, by this chunk or an earlier one.
            usage: It says what the request took.
        """
        if finish_reason and not self._is_finished:
            self._is_finished = True
            self._silence = self._limits.usage
        elif not (has_output or (usage and self._is_finished)):
            return
        elif not self._has_begun and not self._is_finished:
            self._has_begun = True
            self._silence = self._limits.idle
        self._alive_at = self._counted(self._now())

    def left(self) -> float:
        """Seconds until it is late; 0 once it is."""
        return self._left(self._now())

    def expired(self) -> ReplyTimeoutError | None:
        """What to raise now; None while there is time, and for a reply that was finished: it is whole."""
        now = self._now()
        if self._is_finished or self._left(now):
            return None
        if now >= self._limits.deadline:
            took = max(0.0, now - self._started_at)
            return RoundTimeoutError(
                f"the round's time was over {_seconds(took)} after the request, and the reply was not"
            )
        if self._has_begun:
            return IdleTimeoutError(f"nothing came for {_seconds(self._limits.idle)}")
        return FirstTokenTimeoutError(f"no token came in {_seconds(self._limits.first_token)}")

    def overdue(self) -> bool:
        """Whether it is too late even for what has come already, as it may come without end."""
        now = self._now()
        return now >= self._limits.deadline or now >= self._final(now)

    def go(self) -> None:
        """The stream is waited for: time passes."""
        now = self._now()
        self._final(now)
        if self._stopped_at is not None:
            self._left_out += now - self._stopped_at
            self._stopped_at = None

    def stop(self) -> None:
        """The stream is not waited for: no time passes."""
        if self._stopped_at is None:
            self._stopped_at = self._now()

    def excuse(self, seconds: float) -> None:
        """Leave time out of the present silence in which nothing could come, as the process stood still."""
        silent = self._counted(self._now()) - self._alive_at
        self._left_out += max(0.0, min(seconds, silent))

    def _left(self, now: float) -> float:
        silence = self._alive_at + self._silence - self._counted(now)
        final = math.inf
        if self._is_finished:
            final = self._limits.final if self._final_at is None else self._final_at - now
        return max(0.0, min(silence, final, self._limits.deadline - now))

    def _final(self, now: float) -> float:
        """When the time after the finish reason is over; it starts once more is waited for."""
        if self._is_finished and self._final_at is None:
            self._final_at = now + self._limits.final
        return math.inf if self._final_at is None else self._final_at

    def _counted(self, now: float) -> float:
        """The time, without that which was left out."""
        return (now if self._stopped_at is None else self._stopped_at) - self._left_out


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"  # noqa: PLR2004 - 1e+03
