"""A reply that is nothing but one JSON object which calls a tool, told from all others while it arrives."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal

from turnflow.graph.strict_json import read_object
from turnflow.graph.text_call import TextCall
from turnflow.nodes.call_llm.dialect_calls import call_in, members

if TYPE_CHECKING:
    from collections.abc import Collection

_KEYS = ("name", "arguments", "parameters", "id", "type")
"""What the object may have. It needs a name, and either arguments or parameters."""
_MAX_DEPTH = 100
"""Brackets inside each other; arguments that are nested deeper are not read either."""

_FENCE = "```"
_FENCE_LINE = "```json"
_HEAD = re.compile(r"[`a-z]+")
_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING_REST = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_SCALAR_REST = re.compile(r"[-+.0-9A-Za-z]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")


class LoneCall:
    """Holds a reply back as long as it can still be one JSON object that calls a registered tool.

    White space and a fence may stand around the object. Its arguments are an object or a string that holds
    one.

    Args:
        tool_names: The registered tools.
    """

    def __init__(self, tool_names: Collection[str]) -> None:
        self._held: list[str] = []
        self._object = _CallObject(tool_names)
        self._phase: Literal["head", "object", "after"] = "head"
        self._head = ""
        self._ticks = 0  # of the fence's end
        self._fence_ended = False
        self._call: TextCall | None = None
        self.is_possible = True

    @property
    def is_inside(self) -> bool:
        """Whether text that comes next would stand inside the object or its fence."""
        if self._phase == "object":
            return True
        return bool(self._head) and not self._fence_ended

    def feed(self, text: str) -> str:
        """Take the next text; give all of it, as soon as it cannot be a call any more."""
        if not self.is_possible:
            return text
        self._held.append(text)
        try:
            self._read(text)
        except _NoCallError:
            self.is_possible = False
            return self._give()
        return ""

    def close(self) -> tuple[str, TextCall | None]:
        """End the text: give what is held, and the call that it is."""
        is_whole = self._phase == "after" and self._ticks == (len(_FENCE) if self._head else 0)
        return self._give(), self._call if is_whole and self.is_possible else None

    def _give(self) -> str:
        held, self._held = "".join(self._held), []
        return held

    def _read(self, text: str) -> None:
        at = 0
        if self._phase == "head":
            at = self._read_head(text)
        if self._phase == "object":
            at = self._object.feed(text, at)
            if self._object.ended:
                self._call = self._object.call()
                self._phase = "after"
        if self._phase == "after":
            for char in text[at:]:
                self._read_after(char)

    def _read_head(self, text: str) -> int:
        at = 0
        while at < len(text):
            blanks = _past_blanks(text, at)
            if blanks > at and self._head not in {"", _FENCE, _FENCE_LINE}:
                raise _NoCallError
            if blanks > at and self._head:
                self._head = _FENCE_LINE  # its line may not go on after a blank
            at = blanks
            if at == len(text):
                break
            if text[at] == "{" and self._head in {"", _FENCE, _FENCE_LINE}:
                self._phase = "object"
                break
            head = _HEAD.match(text, at)
            self._head += head[0] if head else "?"
            if not _FENCE_LINE.startswith(self._head):
                raise _NoCallError
            at = head.end() if head else at
        return at

    def _read_after(self, char: str) -> None:
        if char in " \t\r\n":
            if 0 < self._ticks < len(_FENCE):
                raise _NoCallError
            self._fence_ended = self._fence_ended or (self._ticks > 0 and char == "\n")
        elif char == "`" and self._head and self._ticks < len(_FENCE):
            self._ticks += 1
        else:
            raise _NoCallError


class _NoCallError(Exception):
    """The text is no call."""


class _CallObject:
    """Reads a JSON object by its grammar, in one pass over its parts, and stops at what cannot be a call."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self._tool_names = tool_names
        self._longest_name = 12 * max(map(len, tool_names), default=0)  # with each character escaped
        self._parts: list[str] = []
        self._brackets: list[str] = []
        self._expected: Literal["value", "key", "colon", "next"] = "value"
        self._is_first = False  # directly after a bracket, where its end may come
        self._inside: Literal["", "string", "scalar"] = ""
        self._escaped = False
        self._token: list[str] = []  # of a scalar, or of a string that is looked at
        self._key = ""
        self._keys: set[str] = set()

    @property
    def ended(self) -> bool:
        return bool(self._parts) and not self._brackets

    def feed(self, text: str, at: int) -> int:
        """Read on; give the place of the object's end, or the text's.

        Raises:
            _NoCallError: It is no call.
        """
        start = at
        while at < len(text):
            if self._inside == "string":
                at = self._string(text, at)
            elif self._inside == "scalar":
                at = self._scalar(text, at)
            else:
                at = _past_blanks(text, at)
                if at < len(text):
                    at += self._mark(text[at])
            if not self._brackets:
                break
        self._parts.append(text[start:at])
        return at

    def call(self) -> TextCall:
        """The call that the whole object is.

        Raises:
            _NoCallError: It is none.
        """
        try:
            written = members("".join(self._parts), 0)[0]
            call = call_in(written)
            read_object(call["arguments"])
        except (ValueError, RecursionError):
            raise _NoCallError from None
        arguments = written.get("arguments", written.get("parameters", ""))
        if "{" not in arguments or call["name"] not in self._tool_names:
            raise _NoCallError
        return call

    @property
    def _is_looked_at(self) -> bool:
        """Whether the string that is read is a key of the call or its name."""
        return len(self._brackets) == 1 and (self._expected == "key" or self._key == "name")

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            end = at + 1
        else:
            end = _STRING_REST.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too
            if text[end : end + 1] == "\\":  # the last character
                self._escaped = True
                end += 1
        if self._is_looked_at:
            self._token.append(text[at:end])
            self._look("".join(self._token))
        if text[end : end + 1] != '"' or self._escaped:
            return end
        self._inside = ""
        if self._expected == "key":
            self._end_key()
        else:
            self._end_value()
        return end + 1

    def _look(self, text: str) -> None:
        """Refuse a beginning with which no key, or no registered name, begins."""
        plain = text.partition("\\")[0]
        wanted = _KEYS if self._expected == "key" else self._tool_names
        if len(text) > max(self._longest_name, 100) or not any(one.startswith(plain) for one in wanted):
            raise _NoCallError

    def _end_key(self) -> None:
        if len(self._brackets) == 1:
            self._key = "".join(self._token)
            if self._key not in _KEYS or self._key in self._keys:
                raise _NoCallError
            self._keys.add(self._key)
            if {"arguments", "parameters"} <= self._keys:
                raise _NoCallError
        self._expected = "colon"

    def _end_value(self) -> None:
        if len(self._brackets) == 1 and self._key == "name":
            try:
                name = json.loads(f'"{"".join(self._token)}"', strict=False)
            except ValueError:
                raise _NoCallError from None
            if name not in self._tool_names:
                raise _NoCallError
        self._expected = "next"

    def _scalar(self, text: str, at: int) -> int:
        end = _SCALAR_REST.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too
        self._token.append(text[at:end])
        if end < len(text):
            if not _SCALAR.fullmatch("".join(self._token)):
                raise _NoCallError
            self._inside = ""
            self._end_value()
        return end

    def _mark(self, char: str) -> int:
        """Begin a token; give how many characters were read: a scalar's first is read with the rest."""
        is_first, self._is_first = self._is_first, False
        if char in "}]":
            self._end_bracket(char, is_first=is_first)
        elif self._expected == "colon" and char == ":":
            self._expected = "value"
        elif self._expected == "next" and char == ",":
            self._expected = "key" if self._brackets[-1] == "{" else "value"
        elif self._expected in {"key", "value"} and char == '"':
            self._refuse_value(char)
            self._inside = "string"
            self._token = []
        elif self._expected == "value" and char in "{[":
            self._refuse_value(char)
            self._begin_bracket(char)
        elif self._expected == "value":
            self._refuse_value(char)
            self._inside = "scalar"
            self._token = []
            return 0
        else:
            raise _NoCallError
        return 1

    def _refuse_value(self, char: str) -> None:
        """Refuse a value of the call that begins with what a name or arguments do not begin with."""
        if len(self._brackets) != 1 or self._expected != "value":
            return
        if self._key == "name" and char != '"':
            raise _NoCallError
        if self._key in {"arguments", "parameters"} and char not in '{"':
            raise _NoCallError

    def _begin_bracket(self, char: str) -> None:
        if len(self._brackets) == _MAX_DEPTH:
            raise _NoCallError
        self._brackets.append(char)
        self._expected = "key" if char == "{" else "value"
        self._is_first = True

    def _end_bracket(self, char: str, *, is_first: bool) -> None:
        may_end = is_first or self._expected == "next"
        if not may_end or self._brackets.pop() != {"}": "{", "]": "["}[char]:
            raise _NoCallError
        self._expected = "next"


def _past_blanks(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too
