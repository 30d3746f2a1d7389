"""Whether something takes time in proportion to its input."""

from __future__ import annotations

from collections.abc import Callable

MAX_RATIO = 5
"""Four times the input takes four times as long; the rest is lost to the machine."""
LOST = 0.02
"""Seconds, lost to the machine whatever the input."""


def is_linear(seconds: Callable[[int], float], size: int) -> bool:
    """Whether `size` takes at most five times as long as a quarter of it.

    Args:
        seconds: CPU seconds of this thread that an input of a size takes, `time.thread_time`.
        size: The size, in whatever unit.

    Both are measured again side by side where the ratio is worse: a machine that others slow down meanwhile
    slows down both.
    """
    for _ in range(6):
        limit = MAX_RATIO * min(seconds(size // 4) for _ in range(2)) + LOST
        if seconds(size) <= limit:
            return True
    return False
