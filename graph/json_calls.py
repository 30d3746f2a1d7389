"""Finds the tool calls of a JSON decision in the text, as the model wrote them. Pure, linear time.

Arguments are taken out as they stand, and a call is complete only if its closing bracket stands in the
text. What a library makes of broken text says neither.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from turnflow.graph.json_scan import MAX_DEPTH
from turnflow.graph.text import storable
from turnflow.graph.text_call import TextCall


class _Span(NamedTuple):
    """Where a value stands; `end` is -1 if its end does not."""

    start: int
    end: int


_BLANKS = r"(?:\s++|//[^\n]*+|\#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+"
_QUOTED = r""""(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'"""
_KEY = re.compile(rf"{_BLANKS}(?P<key>{_QUOTED}|[A-Za-z_]\w*+){_BLANKS}:{_BLANKS}", re.DOTALL)
_MARK = re.compile(rf"{_BLANKS}(?P<mark>[,{{}}\]])")
_STRING = re.compile(_QUOTED, re.DOTALL)
_BARE = re.compile(r"""[^\s,:{}\[\]"']+""")
_BRACKETS_AND_STRINGS = re.compile(rf"""{_QUOTED}|["'{{}}\[\]]""", re.DOTALL)
_IN_SINGLE_QUOTES = re.compile(r'\\.|"', re.DOTALL)


def written_calls(text: str, at: int) -> list[TextCall] | None:
    """The calls of the object, or of the list of objects, that begins at `at`.

    Returns:
        None if something else stands there. At the end of a list that was cut off, a call without a name is
        left out.
    """
    if text.startswith("{", at):
        fields, end = _fields(text, at)
        call = _call(text, fields, complete=end >= 0)
        return None if call is None else [call]
    if not text.startswith("[", at):
        return None
    calls: list[TextCall] = []
    at += 1
    while (start := _object_start(text, at)) >= 0:
        fields, end = _fields(text, start)
        call = _call(text, fields, complete=end >= 0)
        calls += [] if call is None else [call]
        if end < 0:
            return calls or None
        if call is None:
            return None
        at = end
        mark = _MARK.match(text, at)
        if mark is None or mark["mark"] != ",":
            break
        at = mark.end()
    return (calls or None) if _is_list_end(text, at) else None


def _object_start(text: str, at: int) -> int:
    mark = _MARK.match(text, at)
    return mark.end() - 1 if mark and mark["mark"] == "{" else -1


def _is_list_end(text: str, at: int) -> bool:
    """Whether the list's bracket comes, or the end of the text."""
    mark = _MARK.match(text, at)
    return mark["mark"] == "]" if mark else not text[at:].strip()


def _fields(text: str, at: int) -> tuple[dict[str, _Span], int]:
    """The values of the object at `at`, the first of each key, and the object's end; -1 if there is none."""
    fields: dict[str, _Span] = {}
    at += 1
    while key := _KEY.match(text, at):
        value = _Span(key.end(), _value_end(text, key.end()))
        name = key["key"] if key["key"][0] not in "\"'" else _unquoted(key["key"])
        fields.setdefault(name or "", value)
        if value.end < 0:
            return fields, -1
        mark = _MARK.match(text, value.end)
        if mark is None or mark["mark"] != ",":
            at = value.end
            break
        at = mark.end()
    mark = _MARK.match(text, at)
    return fields, mark.end() if mark and mark["mark"] == "}" else -1


def _value_end(text: str, at: int) -> int:
    first = text[at : at + 1]
    if first and first in "{[":
        return _brackets_end(text, at)
    match = (_STRING if first and first in "\"'" else _BARE).match(text, at)
    return match.end() if match else -1


def _brackets_end(text: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`; -1 if there is none, or if it is in doubt."""
    expected: list[str] = []
    for token in _BRACKETS_AND_STRINGS.finditer(text, at):
        mark = token[0]
        if mark in "{[" and len(expected) < MAX_DEPTH:
            expected.append("}" if mark == "{" else "]")
        elif mark in "}]" and mark == expected[-1]:
            expected.pop()
            if not expected:
                return token.end()
        elif len(mark) == 1:
            return -1
    return -1


def _call(text: str, fields: dict[str, _Span], *, complete: bool) -> TextCall | None:
    span = fields.get("tool_name")
    name = _unquoted(text[span.start : span.end]) if span and span.end >= 0 else None
    arguments = _arguments(text, fields.get("parameters"))
    if not (name and name.strip()) or arguments is None:
        return None
    return {"name": storable(name.strip()), "arguments": storable(arguments), "complete": complete}


def _arguments(text: str, span: _Span | None) -> str | None:
    """JSON text; None if the value can be no arguments."""
    if span is None:
        return "{}"
    if span.end < 0:
        return text[span.start :]
    value = text[span.start : span.end]
    if value in {"null", "None"}:
        return "{}"
    return value if value[0] == "{" else _unquoted(value)


def _unquoted(text: str) -> str | None:
    """The string that a text in quotes holds; None for anything else."""
    if text[:1] == "'":
        text = f'"{_IN_SINGLE_QUOTES.sub(_in_double_quotes, text[1:-1])}"'
    try:
        value: Any = json.loads(text, strict=False)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _in_double_quotes(piece: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(piece[0], piece[0])
