"""Markdown code, followed while the text arrives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_INDENT = 3
"""Spaces that a fence may be indented by (CommonMark 0.31, 4.5)."""
_MIN_FENCE = 3
"""Characters that a fence has at least (CommonMark 0.31, 4.5)."""

# Lines that begin with anything else cannot open or close a fence; they are passed over for speed.
_MAY_LEAD_TO_FENCE = " \n`~"
_LINE_OF_NOTE = re.compile(r"\n(?=[ \n`~]|\Z)")

_INDENT = re.compile(r"[ \n]*")
_INLINE = re.compile(r"`+|\n")
_RUN = {"`": re.compile("`+"), "~": re.compile("~+")}
_BLANKS = re.compile(r"[ \t\r]*")


class CodeTracker:
    """Knows whether the text fed so far ends inside a code span or a fenced block.

    There is no lookahead, so that an answer can be shown while it arrives: a run of backticks opens a span at
    once, and an equal run or the end of the line closes it. Fences, of backticks or of tildes, open and
    close at line starts only, by CommonMark's rules. Only a line feed ends a line.

    Args:
        text: Text that comes before what is fed.
    """

    def __init__(self, text: str = "") -> None:
        self._state: Callable[[str, int], int] = self._line_start
        self._indent = 0
        self._span = 0  # backticks that opened the span, or 0 outside
        self._fence = ""  # the run that opened the fence, or "" outside
        self._run_char = ""
        self._run_length = 0
        self._run_may_fence = False
        self.feed(text)

    @property
    def at_line_start(self) -> bool:
        """Whether nothing, not even a blank, stands on the current line yet."""
        return self._state == self._line_start and not self._indent

    def feed(self, text: str) -> None:
        """Take the next piece of text, in any cut."""
        at = 0
        while at < len(text):
            at = self._state(text, at)

    def in_code(self) -> bool:
        """Say whether a tag that comes next stands in code; a run of backticks before it ends there."""
        if self._state == self._run:
            self._end_run()
        return bool(self._span or self._fence)

    def start_over(self) -> None:
        """Forget all text."""
        self._fence = ""
        self._start_line()

    # The states: each reads some of `text` from `at` on and gives the place up to which it read.

    def _line_start(self, text: str, at: int) -> int:
        """Only spaces on the line so far."""
        end = _INDENT.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too
        newline = text.rfind("\n", at, end)
        self._indent = end - newline - 1 if newline >= 0 else self._indent + end - at
        if end == len(text):
            return end
        if self._indent <= _MAX_INDENT and text[end] in (self._fence[:1] or "`~"):
            self._start_run(text[end], may_fence=True)
        else:
            self._state = self._fence_rest if self._fence else self._line_rest
        return end

    def _line_rest(self, text: str, at: int) -> int:
        """The rest of a line outside fences."""
        for mark in _INLINE.finditer(text, at):
            if mark.group() == "\n":
                self._span = 0
                if text[mark.end() : mark.end() + 1] in _MAY_LEAD_TO_FENCE:
                    self._start_line()
                    return mark.end()
            elif mark.end() == len(text):  # the run may go on in the next piece
                self._start_run("`", may_fence=False)
                return mark.start()
            else:
                self._toggle_span(mark.end() - mark.start())
        return len(text)

    def _run(self, text: str, at: int) -> int:
        """A run of backticks or tildes whose end is not known yet."""
        run = _RUN[self._run_char].match(text, at)
        end = run.end() if run else at
        self._run_length += end - at
        if end < len(text):
            self._end_run()
        return end

    def _fence_info(self, text: str, at: int) -> int:
        """The line of a backtick fence's opener. A further backtick makes its run one that opened a span."""
        mark = _INLINE.search(text, at)
        if mark is None:
            return len(text)
        if mark.group() == "\n":
            self._start_line()
            return mark.end()
        self._span = len(self._fence)
        self._fence = ""
        self._state = self._line_rest
        return mark.start()

    def _fence_rest(self, text: str, at: int) -> int:
        """The rest of a line in a fence, or of a tilde fence's opener."""
        newline = _LINE_OF_NOTE.search(text, at)
        if newline is None:
            return len(text)
        self._start_line()
        return newline.end()

    def _fence_closing(self, text: str, at: int) -> int:
        """After a run that closes the fence if nothing but blanks follows it on its line."""
        end = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too
        if end == len(text):
            return end
        if text[end] != "\n":
            self._state = self._fence_rest
            return end
        self._fence = ""
        self._start_line()
        return end + 1

    # Changes of state.

    def _start_line(self) -> None:
        self._span = 0
        self._indent = 0
        self._state = self._line_start

    def _start_run(self, char: str, *, may_fence: bool) -> None:
        self._run_char = char
        self._run_length = 0
        self._run_may_fence = may_fence
        self._state = self._run

    def _end_run(self) -> None:
        if self._fence:
            closes = self._run_length >= len(self._fence)
            self._state = self._fence_closing if closes else self._fence_rest
        elif self._run_may_fence and self._run_length >= _MIN_FENCE:
            self._fence = self._run_char * self._run_length
            self._state = self._fence_info if self._run_char == "`" else self._fence_rest
        else:
            self._state = self._line_rest
            if self._run_char == "`":
                self._toggle_span(self._run_length)

    def _toggle_span(self, length: int) -> None:
        if not self._span:
            self._span = length
        elif self._span == length:
            self._span = 0
