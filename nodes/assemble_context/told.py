"""What others want the model told in its next request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def told(turn: dict[str, Any], key: str, said: Sequence[str]) -> dict[str, Any]:
    """The `turn` channel with directives added, all under one key."""
    return {**turn, "directives": [*turn["directives"], *({"key": key, "text": text} for text in said)]}
