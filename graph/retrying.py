"""How long to wait before a request is sent again (docs/retries.md)."""

from __future__ import annotations

import random
from typing import Any

from tenacity import RetryCallState, wait_exponential

from turnflow.graph.settings import TurnSettings

FIRST_SECONDS = 0.5
"""The wait before the first retry; it doubles with each further one."""

MOST_SECONDS = 30.0
"""The longest wait that is not the provider's own wish."""

JITTER = 0.25
"""So large a part of a wait is left to chance, so that many clients do not come back at once."""

_backoff = wait_exponential(multiplier=FIRST_SECONDS, exp_base=2, max=MOST_SECONDS)


def pause_before(retry: int, retry_after: float | None, settings: TurnSettings) -> float | None:
    """Seconds to wait before a retry; None if the provider asks for more than the settings allow.

    As long as the provider asks for, and a little more by chance, else a wait that grows with each retry; and
    never more than `max_retry_wait`.

    Args:
        retry: Which retry of the round it is, from 1 on.
        retry_after: Seconds that the provider asks for; None if it says nothing.
        settings: The settings of the turn.
    """
    chance = random.uniform(0, JITTER)  # noqa: S311 - no secret
    if retry_after is not None and retry_after > 0:
        if retry_after > settings.max_retry_wait:
            return None
        return min(retry_after * (1 + chance), settings.max_retry_wait)
    return min(_backoff(_retry_state(retry)) * (1 - chance), settings.max_retry_wait)


def _retry_state(retry: int) -> RetryCallState:
    """What tenacity's strategies look at: the number of the attempt that failed."""
    unused: Any = None
    state = RetryCallState(retry_object=unused, fn=None, args=(), kwargs={})
    state.attempt_number = max(1, retry)
    return state
