"""Values as a model is shown them in a complaint: short, on one line."""

from __future__ import annotations

import json
from typing import Any

MAX_SHOWN = 80
"""Characters of a value that are shown."""


def shown(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, str):
        return cut(repr(value[: MAX_SHOWN + 1]))
    return cut(json.dumps(value, ensure_ascii=False, default=repr))


def cut(text: str, limit: int = MAX_SHOWN) -> str:
    """A text in one line of at most `limit` characters."""
    line = " ".join(text[: limit + 1].split())
    return line if len(text) <= limit else f"{line[: limit - 1]}…"
