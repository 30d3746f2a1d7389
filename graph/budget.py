"""The arithmetic of a request's budget (docs/context.md)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

MAX_MARGIN = 256
"""Tokens that stay free, as no count is exact."""
SMALL_WINDOW = 1024
"""Up to this window nothing stays free."""
MAX_OUTPUT = 32_768
LEAST_OUTPUT = 4_000
"""Output that is not given up for history, where so much is asked for."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a request may take, in tokens.

    Attributes:
        window: What request and reply may take together; None where nothing limits them.
        usable: The window without the safety margin.
        most_output: The largest output that is asked for; None where no limit is sent.
        reserved: Output that stays free whatever the history.
        tools: What the tool definitions take.
    """

    window: int | None
    usable: int | None
    most_output: int | None
    reserved: int
    tools: int

    @property
    def room(self) -> int | None:
        """What the messages may take; negative where the tools alone are too much, None without a limit."""
        return None if self.usable is None else self.usable - self.reserved - self.tools

    def output(self, messages: int) -> int | None:
        """The limit of output to send with messages of so many tokens; None where none was asked for."""
        if self.most_output is None or self.usable is None:
            return self.most_output
        return max(self.reserved, min(self.most_output, self.usable - self.tools - messages))

    def fill(self, messages: int) -> float:
        """How full the request is with messages of so many tokens; over 1 something has to be left out."""
        if self.usable is None:
            return 0.0
        return (messages + self.tools) / max(1, self.usable - self.reserved)


def budget_of(window: int | None, requested: int | None, tools: int) -> Budget:
    """The budget of a request.

    Args:
        window: Tokens of request and reply together; None: no limit.
        requested: Output that is asked for; None: no limit is sent, and a part of the window is kept free.
        tools: Tokens of the tool definitions as they are sent.
    """
    most = None if requested is None else min(requested, MAX_OUTPUT)
    if window is None:
        return Budget(None, None, most, 0, tools)
    usable = window - _margin(window)
    if most is None:
        return Budget(window, usable, None, min(LEAST_OUTPUT, window // 4), tools)
    most = max(1, min(most, window // 2))
    return Budget(window, usable, most, min(LEAST_OUTPUT, most), tools)


def window_for(taken: int, requested: int | None) -> int:
    """The smallest window in which a request of so many tokens, tools included, has room.

    Args:
        taken: Tokens of the request.
        requested: Output that is asked for, as for `budget_of`.
    """

    def room(window: int) -> int:
        return budget_of(window, requested, 0).room or 0

    return bisect_left(range(2 * (taken + MAX_MARGIN) + 4), taken, key=room)


def _margin(window: int) -> int:
    """The safety margin. It sets in slowly, so that a larger window never has room for less."""
    return max(0, min(MAX_MARGIN, (window - SMALL_WINDOW + 1) // 2))
