"""A reply that goes on after being cut off, and begins with its label once more."""

from __future__ import annotations

import re

from turnflow.graph.protocol import UNKNOWN
from turnflow.nodes.call_llm.label_reader import LabelPiece

_WINDOW = 68
"""Characters within which the label stands, if it does: blanks, backticks, a label, a colon, a line break."""


class RepeatedLabel:
    """Lets the rest of a body through, without the label that it may repeat in backticks.

    Args:
        label: The label of the part that was cut off, or UNKNOWN.
    """

    def __init__(self, label: str) -> None:
        self._openers = [] if label == UNKNOWN else [f"{'`' * count}{label.lower()}" for count in range(1, 5)]
        self._repeat = re.compile(
            rf"\s{{0,16}}`{{1,4}}{re.escape(label)}`{{1,4}}[ \t]{{0,4}}[:：—]?[ \t]{{0,4}}(?:\r?\n)?",
            re.IGNORECASE,
        )
        self._held: str | None = ""

    def feed(self, text: str) -> list[LabelPiece]:
        """Take the next text, in any cut."""
        if self._held is None:
            return [("body", text)] if text else []
        self._held += text
        head = self._held[:_WINDOW].lstrip().lower()
        is_open = any(opener.startswith(head) or head.startswith(opener) for opener in self._openers)
        return [] if is_open and len(self._held) < _WINDOW else self.close()

    def close(self) -> list[LabelPiece]:
        """End the text, or decide what was held back."""
        held, self._held = self._held or "", None
        repeat = self._repeat.match(held) if self._openers else None
        body = held[repeat.end() :] if repeat else held
        return [("body", body)] if body else []
