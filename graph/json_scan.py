"""Scans one JSON object while its text arrives, and decodes the strings that are its values. Pure.

The scan is strict but for one thing: line breaks and other control characters may stand in strings as they
are. It takes linear time for any text in any cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from turnflow.graph.text import SurrogateJoiner, storable

MAX_DEPTH = 100
"""Brackets inside each other that are read."""

_MAX_SCALAR = 400
"""Characters that a number may have."""

_OPENING = re.compile(r'\{[ \t\n\r]*+(?:"|\Z)')
_BLANKS = re.compile(r"[ \t\n\r]*")
_STRING_RUN = re.compile(r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_BRACKETS_AND_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)
_NESTED_RUN = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR_RUN = re.compile(r"[-+.0-9A-Za-z]*")
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class TextPiece(NamedTuple):
    """A further piece of the string that is the value of `key`, decoded."""

    key: str
    text: str


@dataclass
class Member:
    """A value of the object.

    Attributes:
        kind: What it begins as.
        start: Where it begins in the text.
        closed: Whether its end has come.
        settled: Whether a further key has come after it, so that its end was none by accident.
        value: What it is, once closed; for a string, see `text`.
        parts: A string's decoded pieces.
    """

    kind: Literal["text", "object", "array", "scalar"]
    start: int
    closed: bool = False
    settled: bool = False
    value: Any = None
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The string so far."""
        return "".join(self.parts)


class ObjectScanner:
    """Reads the first object of a text: the first `{` that a `"` follows, with blanks at most in between.

    A key that comes a second time is passed over with its value.

    Attributes:
        members: What was read, by key, in the order of the text. The last one may be open.
        begun: Whether the object has begun.
        whole: Whether it has ended.
        broken: Whether the text left the grammar, which ends the scan.
        bad_escape: Whether it left the grammar by an escape that JSON does not have.
        start: Where the object begins in the text.
        stop: Where the scan ended, once `whole` or `broken`.
    """

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.begun = self.whole = self.broken = self.bad_escape = False
        self.start = self.stop = 0
        self._state: Callable[[str, int], int] = self._before
        self._base = 0  # where the text that is being fed begins
        self._held = ""  # the first part of an escape
        self._piece: TextPiece | None = None
        self._joiner = SurrogateJoiner()
        self._key = ""
        self._parts: list[str] = []  # of a key, a scalar, or an object or array
        self._member = Member("scalar", 0)
        self._depth = 0
        self._in_string = False
        self._is_first = True

    @property
    def over(self) -> bool:
        """Whether nothing more is read."""
        return self.whole or self.broken

    @property
    def is_nested(self) -> bool:
        """Whether a list or another object is open in the object."""
        return self._depth > 0

    def feed(self, text: str, at: int = 0) -> Iterator[TextPiece]:
        """Take the next text, from `at` on, in any cut.

        Lazy: `members` are those before the piece that was given last.
        """
        if self._held:
            text, at = self._held + text[at:], 0
            self._base -= len(self._held)
            self._held = ""
        while at < len(text) and not self.over:
            at = self._state(text, at)
            if self._piece:
                piece, self._piece = self._piece, None
                yield piece
        if self.over:
            self.stop = self.stop or self._base + at
        self._base += len(text)

    # The states: each reads some of `text` from `at` on and gives the place up to which it read.

    def _before(self, text: str, at: int) -> int:
        brace = _OPENING.search(text, at)
        if brace is None:
            return len(text)
        self.start = self._base + brace.start()
        self._state = self._opened
        return brace.start() + 1

    def _opened(self, text: str, at: int) -> int:
        at = _end_of(_BLANKS, text, at)
        if at == len(text):
            return at
        if text[at] != '"':
            self._state = self._before
            return at
        self.begun = True
        self._state = self._key_rest
        return at + 1

    def _before_key(self, text: str, at: int) -> int:
        return self._expect('"', self._key_rest, text, at)

    def _key_rest(self, text: str, at: int) -> int:
        end = self._string_run(text, at, self._parts)
        if end < len(text) and text[end] == '"':
            self._key = storable("".join(self._parts))
            self._parts = []
            self._state = self._colon
            return end + 1
        return end

    def _colon(self, text: str, at: int) -> int:
        return self._expect(":", self._value, text, at)

    def _value(self, text: str, at: int) -> int:
        at = _end_of(_BLANKS, text, at)
        if at == len(text):
            return at
        first, start = text[at], self._base + at
        if first == '"':
            self._open(Member("text", start), self._text)
            self._joiner = SurrogateJoiner()
            return at + 1
        if first in "{[":
            self._open(Member("object" if first == "{" else "array", start), self._nested)
        else:
            self._open(Member("scalar", start), self._scalar)
        return at

    def _text(self, text: str, at: int) -> int:
        parts: list[str] = []
        end = self._string_run(text, at, parts)
        piece = self._joiner.feed("".join(parts))
        if end < len(text) and text[end] == '"':
            piece += self._joiner.close()
            self._close()
            end += 1
        if piece:
            self._member.parts.append(piece)
            if self._is_first:
                self._piece = TextPiece(self._key, piece)
        return end

    def _nested(self, text: str, at: int) -> int:
        """An object or an array, by its brackets; what stands between them is checked at its end."""
        end = self._nested_end(text, at)
        self._parts.append(text[at : end - len(self._held)])
        if not (self._depth or self._in_string or self.broken):
            try:
                self._member.value = decoded("".join(self._parts))
            except ValueError:
                return self._break(end)
            self._parts = []
            self._close()
        return end

    def _nested_end(self, text: str, at: int) -> int:
        if self._in_string:
            at = _end_of(_NESTED_RUN, text, at)
            if at == len(text) or text[at] == "\\":
                self._held = text[at:]
                return len(text)
            self._in_string = False
            at += 1
        for token in _BRACKETS_AND_STRINGS.finditer(text, at):
            mark = token[0]
            if mark == '"':
                self._in_string = True
                return token.end()
            if mark in "{[":
                self._depth += 1
                if self._depth > MAX_DEPTH:
                    return self._break(token.end())
            elif mark in "}]":
                self._depth -= 1
                if not self._depth:
                    return token.end()
        return len(text)

    def _scalar(self, text: str, at: int) -> int:
        end = _end_of(_SCALAR_RUN, text, at)
        self._parts.append(text[at:end])
        written = "".join(self._parts)
        if end == len(text) and len(written) <= _MAX_SCALAR:
            self._parts = [written]
            return end
        if len(written) > _MAX_SCALAR or not _SCALAR.fullmatch(written):
            return self._break(at)
        self._parts = []
        self._member.value = decoded(written)
        self._close()
        return end

    def _next(self, text: str, at: int) -> int:
        at = _end_of(_BLANKS, text, at)
        if at < len(text) and text[at] == "}":
            self.whole = True
            return at + 1
        return self._expect(",", self._before_key, text, at)

    # What the states share.

    def _expect(self, mark: str, state: Callable[[str, int], int], text: str, at: int) -> int:
        """Pass over blanks and the mark that has to follow."""
        at = _end_of(_BLANKS, text, at)
        if at == len(text):
            return at
        if text[at] != mark:
            return self._break(at)
        self._state = state
        return at + 1

    def _string_run(self, text: str, at: int, parts: list[str]) -> int:
        """Decode a string into `parts`, to its end or as far as it goes."""
        end = _end_of(_STRING_RUN, text, at)
        run = text[at:end]
        parts.append(str(json.loads(f'"{run}"', strict=False)) if "\\" in run else run)
        if end == len(text) or text[end] == '"':
            return end
        if _CUT_ESCAPE.fullmatch(text, end):
            self._held = text[end:]
            return len(text)
        self.bad_escape = True
        return self._break(end)

    def _open(self, member: Member, state: Callable[[str, int], int]) -> None:
        self._member.settled = True
        self._member = member
        self._is_first = self._key not in self.members
        if self._is_first:
            self.members[self._key] = member
        self._state = state

    def _close(self) -> None:
        self._member.closed = True
        self._state = self._next

    def _break(self, at: int) -> int:
        self.broken = True
        return at


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a pattern that matches the empty text too ends."""
    match = pattern.match(text, at)
    return match.end() if match else at


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_SCALAR else float(digits)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(
    strict=False, parse_int=_integer, parse_constant=_refuse, object_pairs_hook=_first_wins
)


def decoded(text: str) -> Any:
    """The JSON value that the text is; of a key given twice the first.

    Raises:
        ValueError: It is none.
    """
    return _DECODER.decode(text)
