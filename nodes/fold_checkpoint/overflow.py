"""What a refusal for length teaches: how much fits. Pure."""

from __future__ import annotations

import re
from typing import Any

from turnflow.graph.budget import window_for

LEARNED_PART = 0.85
"""Of what failed, so much is taken to fit."""
MOST_OVERFLOWS = 6
"""Refusals in one turn; at the next it ends."""
LEAST_WINDOW = 256

_MOST_WINDOW = 10**7
_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)"
_LIMITS = tuple(
    re.compile(pattern.replace("#", _NUMBER), re.IGNORECASE)
    for pattern in (
        r"\d \+ \d+ > #",
        r"maximum context (?:length|window|size)[^\d]{0,40}#",
        r"context (?:length|window|size|limit)(?: of| is|:| \(|=| only)*\s*(?:only |exactly |at most )?#",
        r"maximum number of tokens allowed[^\d]{0,10}#",
        r"\btokens? > # (?:maximum|limit)",
        r"> #\s*\Z",
        r"\bn_ctx\W{1,6}#",
        r"range of input length should be \[\d+, ?#\]",
        r"`?max_new_tokens`?\s*must be <=\s*#",
        r"(?:exceeds?|over) the (?:limit|maximum) of #\s*tokens",
    )
)


def named_limit(text: str) -> int | None:
    """The number of tokens that an error's text says fit; None where it says none that can be one."""
    for pattern in _LIMITS:
        if found := pattern.search(text):
            digits = found[1].replace(",", "")
            limit = int(digits) if len(digits) <= len(str(_MOST_WINDOW)) else 0
            return limit if LEAST_WINDOW <= limit <= _MOST_WINDOW else None
    return None


def learned_window(
    failed: int, error: str, before: int, *, requested: int | None = None, accepted: int = 0
) -> int:
    """The window as it is known after a refusal; never larger than before.

    The number in the error counts where it is smaller than what failed. Else our own count was too small,
    and its measure is what the planner plans with: the window in which 85 % of what failed has room beside
    the reply, or what was accepted, where that is more.

    Args:
        failed: Tokens of the request that was refused, by our own count.
        error: The provider's text.
        before: The window as it was known.
        requested: Output that is asked for; None where no limit is sent.
        accepted: Tokens of the largest request that was taken, by our own count; 0 where none is known. One
            that is as large as what failed says nothing.
    """
    named = named_limit(error)
    if named is not None and named < failed:
        return min(before, max(named, LEAST_WINDOW))
    fits = max(int(failed * LEARNED_PART), accepted if accepted < failed else 0)
    return min(before, max(window_for(fits, requested), LEAST_WINDOW))


def after_overflow(
    turn: dict[str, Any], *, failed: int, error: str, before: int, requested: int | None, model: str
) -> dict[str, Any] | None:
    """The turn after a refusal, with what it taught; None where it is in vain to go on.

    It is after six, and where neither the window nor the request is smaller than at the last refusal.

    Args:
        turn: The turn.
        failed: Tokens of the request that was refused, by our own count.
        error: The provider's text.
        before: The window as it was known.
        requested: Output that is asked for; None where no limit is sent.
        model: What the model calls itself: what is learned holds for it alone.
    """
    times = turn.get("overflows", 0) + 1
    known = turn.get("learned") or {}
    known = known if known.get("model") == model else {}
    window = learned_window(failed, error, before, requested=requested, accepted=known.get("accepted", 0))
    shrinks = window < before or failed < turn.get("overflow_tokens", failed + 1)
    if times > MOST_OVERFLOWS or not shrinks:
        return None
    learned = {**known, "model": model, "window": window}
    if learned.get("accepted", 0) >= failed:
        del learned["accepted"]
    rest = {key: value for key, value in turn.items() if key != "error"}
    return {**rest, "learned": learned, "overflows": times, "overflow_tokens": failed}
