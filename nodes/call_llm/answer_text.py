"""The text of a reply outside its thoughts, without the blank lines that follow a thought."""

from __future__ import annotations

from turnflow.nodes.call_llm.code_spans import CodeTracker

_BLANKS = " \t\r"


class AnswerText:
    """The text as the user sees it; follows which of it is code.

    Args:
        after: What the user saw before it.
    """

    def __init__(self, after: str = "") -> None:
        self._code = CodeTracker(after)
        self._parts: list[str] = []
        self._dropping = False
        self._blanks: list[str] = []  # since the thought, on a line that may turn out to be blank

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)

    def in_code(self) -> bool:
        """Whether the text so far ends in a code span or a fenced block."""
        return self._code.in_code()

    def add(self, text: str) -> str:
        """Take text; give what of it, and of text before it, can be shown now."""
        shown = self._without_blank_lines(text) if self._dropping else text
        self._code.feed(shown)
        self._parts.append(shown)
        return shown

    def drop_blank_lines(self) -> None:
        """Begin to leave out blank lines: a thought, or a call, ended here.

        Only lines that are blank to the user count. After a thought in the middle of a line, the rest of that
        line and its end are kept.
        """
        self._dropping = True

    def withdraw(self) -> tuple[str, str]:
        """Give up all text, what was shown and the blanks that were not: it was a thought."""
        shown, unshown = self.text, "".join(self._blanks)
        self._code.start_over()
        self._parts = []
        self._blanks = []
        self._dropping = True
        return shown, unshown

    def _without_blank_lines(self, text: str) -> str:
        kept = ""
        if not self._code.at_line_start:
            line, newline, text = text.partition("\n")
            kept = line + newline
            if line.strip(_BLANKS):
                self._dropping = False
                return kept + text
        blank = len(text) - len(text.lstrip(_BLANKS + "\n"))
        line_start = text.rfind("\n", 0, blank) + 1
        if line_start:
            self._blanks = []
        if blank == len(text):
            self._blanks.append(text[line_start:])
            return kept
        self._dropping = False
        unshown, self._blanks = "".join(self._blanks), []
        return kept + unshown + text[line_start:]
