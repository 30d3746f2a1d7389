"""Values as a model is shown them in a complaint: short, on one line."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_SHOWN = 80
"""Characters of a value that are shown."""


def shown(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, str):
        return cut(repr(value[: MAX_SHOWN + 1]))
    return cut(json.dumps(value, ensure_ascii=False, default=repr))


def shown_json(value: Any, limit: int) -> str:
    """A JSON value in one line of at most `limit` characters, in which nothing hides or acts.

    Characters that show nothing, break lines or turn the direction of writing stand as escapes.
    """
    text = json.dumps(value, ensure_ascii=False)
    return cut(_HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text[: limit + 1]), limit)


_HIDDEN = re.compile(
    "[\\x7f-\\xa0\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f"
    "\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0"
    "\\ufff0-\\uffff\\U000e0000-\\U000e0fff\\ud800-\\udfff]"
)


def cut(text: str, limit: int = MAX_SHOWN) -> str:
    """A text in one line of at most `limit` characters."""
    line = " ".join(text[: limit + 1].split())
    return line if len(text) <= limit else f"{line[: limit - 1]}…"
