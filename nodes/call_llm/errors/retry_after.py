"""How long a provider asks to wait before the next request."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
_MAX_VALUE = 100
_TIME = (
    r"(?:\d{1,9}(?:\.\d{1,9})?\s?"
    r"(?:ms|milliseconds?|h|hours?|mins?|minutes?|m|secs?|seconds?|s)\s?){1,4}"
)
_WAIT = re.compile(
    rf"(?:try(?:ing)? again|retry|wait)\s(?:in|after|for|at least)\s{{1,3}}(?P<time>{_TIME})",
    re.IGNORECASE,
)
_WHOLE = re.compile(_TIME, re.IGNORECASE)
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?(ms|milli|h|m|s)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def retry_after(headers: Mapping[str, str], text: str = "", now: float | None = None) -> float | None:
    """Seconds to wait.

    Args:
        headers: Of the response, names in lower case: milliseconds, seconds, a time with units or a date.
        text: What the error says, for a provider that says it in words only ("try again in 1m30s").
        now: Seconds since the epoch, to count from where a date is given.

    Returns:
        0 or more; None where nothing is said that can be read.
    """
    for name in _MILLISECONDS:
        said = headers.get(name, "")[:_MAX_VALUE].strip()
        if (wait := _number(said)) is not None:
            return wait / 1000
        if _WHOLE.fullmatch(said):
            return _seconds(said)
    said = headers.get("retry-after", "")[:_MAX_VALUE].strip()
    if (wait := _number(said)) is not None:
        return wait
    if _WHOLE.fullmatch(said):
        return _seconds(said)
    if (wait := _until(said, time.time() if now is None else now)) is not None:
        return wait
    return _in_words(text)


def _number(value: str) -> float | None:
    try:
        number = float(value[:_MAX_VALUE])
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _until(value: str, now: float) -> float | None:
    try:
        date = parsedate_to_datetime(value)
        return max((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now, 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _in_words(text: str) -> float | None:
    match = _WAIT.search(text)
    return None if match is None else _seconds(match["time"])


def _seconds(said: str) -> float:
    """The seconds of a time with units, as `1m30s`."""
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in _PART.findall(said))
