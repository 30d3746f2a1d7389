"""The label reader: finds the label of a reply while the text arrives, and lets the body through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from turnflow.graph.label_grammar import LabelLine, LabelLineEnd, label_grammar, leading_blank
from turnflow.graph.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection

LabelPiece = tuple[Literal["label", "passed", "body"], str]
"""`passed` is an unlabelled line before the label, its newline included; `label` is a label or UNKNOWN."""


class LabelReader:
    """Tells the label of one reply from its body.

    Once the label is decided come the line that was passed over, if any, the label, and the body as it
    arrives. Until then all text is held back: the blanks that the reply begins with, and fewer than 64
    characters after them. Joined, the body is what `classify_label` makes of the whole text, however it was
    cut; without a label it is the text as it came.

    Args:
        allowed: All labels.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        self._grammar = label_grammar(allowed)
        self._leading: list[str] = []  # blanks and blank lines before anything else
        self._window = ""  # what follows them, while the label is not decided
        self._label: str | None = None
        self._line_end: LabelLineEnd | None = None
        self._closed = False

    @property
    def label(self) -> str | None:
        """The label or UNKNOWN; None while it is not decided."""
        return self._label

    @property
    def decided(self) -> bool:
        """Whether the label is fixed."""
        return self._label is not None

    def feed(self, text: str) -> list[LabelPiece]:
        """Take the next text outside thinking, in any cut.

        Raises:
            RuntimeError: The reader is closed.
        """
        if self._closed:
            raise RuntimeError("This reader is closed: a LabelReader reads one reply, make a new one.")
        if self._label is not None:
            return self._body(text)
        if not self._window:
            blank = leading_blank(text)
            self._leading.append(text[:blank])
            text = text[blank:]
        if not text:
            return []
        self._window += text
        return self._decide(final=False)

    def close(self) -> list[LabelPiece]:
        """End the text: a label that is not decided yet is decided now. Closing again gives nothing."""
        if self._closed:
            return []
        self._closed = True
        return [] if self._label is not None else self._decide(final=True)

    def _decide(self, *, final: bool) -> list[LabelPiece]:
        found = self._grammar.find(self._window, final=final)
        if found is None:
            return []
        text, leading = self._window, self._leading
        self._window, self._leading = "", []
        self._label = found.label
        if found.label == UNKNOWN:
            return [("label", UNKNOWN), *self._body("".join(leading) + text)]
        self._line_end = LabelLineEnd(separated=found.separated)
        return [*_passed(text, found), ("label", found.label), *self._body(text[found.end :])]

    def _body(self, text: str) -> list[LabelPiece]:
        body = self._line_end.feed(text) if self._line_end else text
        return [("body", body)] if body else []


def _passed(text: str, found: LabelLine) -> list[LabelPiece]:
    start, end = found.passed
    return [("passed", text[start:end])] if end > start else []
