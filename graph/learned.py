"""What the providers of this process have taught: refusals, remembered once a request without them was taken.

It holds for the process alone, and for one model at one endpoint (docs/degradation.md).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

ModelKey = tuple[str, str, str]
"""The model's class, its endpoint and what it calls itself."""

_MOST_MODELS = 1000

_lock = threading.Lock()
_refusals: dict[ModelKey, tuple[str, ...]] = {}


def known_refusals(model: ModelKey | None) -> tuple[str, ...]:
    """What a model's provider is known to refuse, sorted; nothing for one that cannot be told from others."""
    return () if model is None else _refusals.get(model, ())


def learn_refusals(model: ModelKey | None, refusals: Iterable[str]) -> None:
    """Remember what a provider refuses; what was known before stays."""
    if model is None:
        return
    with _lock:
        _refusals[model] = tuple(sorted({*_refusals.get(model, ()), *refusals}))
        while len(_refusals) > _MOST_MODELS:
            del _refusals[next(iter(_refusals))]


def forget_learned(model: ModelKey | None = None) -> None:
    """Forget what this process has learned, as after a provider was changed.

    Args:
        model: Of which model; None: of all.
    """
    with _lock:
        if model is None:
            _refusals.clear()
        else:
            _refusals.pop(model, None)
