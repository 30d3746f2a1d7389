"""Reads one JSON object from a model's text, strictly (docs/tools.md). Pure.

Text that is no JSON object is mended at most once, and only where it can mean one thing: every value and
every bracket of the mended object must stand in the text, in that order. Nothing is guessed, and nothing
that could not be read becomes `{}`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import json_repair

from turnflow.graph.shown import cut, shown
from turnflow.graph.text import is_storable

_MAX_DEPTH = 100
"""Brackets inside each other that are read: what checks and records arguments recurses."""

_MAX_MENDED_CHARS = 100_000
"""Characters of text that may be mended."""


def read_object(text: str) -> dict[str, Any]:
    """The object that the text holds.

    Raises:
        ValueError: The text does not hold one object, or not unambiguously.
        RecursionError: It is nested too deeply.
    """
    if not text.strip():
        return {}
    body = _without_fence(text)
    try:
        value = _load(body)
    except ValueError:
        value = _mend(body)
        if value is None:
            raise
    _refuse_lone_surrogates(value)
    if not isinstance(value, dict):
        raise ValueError(f"arguments are one JSON object, this is {shown(value)}")
    return value


def _without_fence(text: str) -> str:
    """The text inside a code fence that holds all of it, else the text."""
    fence, _, body = text.strip().partition("\n")
    is_fenced = fence.startswith("```") and body.endswith("```") and "`" not in fence[3:]
    return body.removesuffix("```") if is_fenced else text


def _load(text: str) -> Any:
    if text.count("{") + text.count("[") > _MAX_DEPTH:
        _refuse_depth(text)
    return json.loads(
        text,
        strict=False,  # a line break that stands in a string as it is has one meaning only
        object_pairs_hook=_unique,
        parse_constant=_refuse_constant,
        parse_float=_finite,
        parse_int=_integer,
    )


_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{\[]|[}\]]', re.DOTALL)


def _refuse_depth(text: str) -> None:
    depth = 0
    for token in _STRINGS_AND_BRACKETS.finditer(text):
        first = token[0][0]
        depth += (first in "{[") - (first in "}]")
        if depth > _MAX_DEPTH:
            raise RecursionError(f"nested more than {_MAX_DEPTH} brackets deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} is given twice")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {cut(digits)} is too large")
    return number


def _integer(digits: str) -> int:
    try:
        number = int(digits)
    except ValueError:
        raise ValueError(f"the number {cut(digits)} has too many digits") from None
    if not is_storable(number):
        raise ValueError(f"the number {cut(digits)} has more than 64 bits; write it as text")
    return number


def _refuse_lone_surrogates(value: Any) -> None:
    """Half of a character, an escaped d83d alone, can be neither stored nor sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair") from None


_Token = tuple[str, Any]
"""A mark (itself and None) or a scalar (the name of its type and its value)."""

_LEXEME = re.compile(
    r"""\s*(?:
        (?P<mark>[{}\[\],:])
      | (?P<text>"(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+')
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?=[\s,\]}]|$)
      | (?P<key>[A-Za-z_][A-Za-z0-9_-]*)(?=\s*:)
      | (?P<word>true|false|null|True|False|None)(?=[\s,\]}]|$)
    )\s*""",
    re.DOTALL | re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


def _mend(text: str) -> Any:
    """What the library makes of the text, or None if it had to drop, invent or guess anything."""
    if len(text) > _MAX_MENDED_CHARS:
        return None
    try:
        written = list(_lexemes(text))
        value = json_repair.loads(text, skip_json_loads=True)
        kept = list(_lexemes(json.dumps(value)))
    except (ValueError, RecursionError):
        return None
    meant = [token for place, token in enumerate(written) if not _is_trailing_comma(written, place)]
    return value if meant == kept else None


def _lexemes(text: str) -> Iterator[_Token]:
    """What stands in the text, piece by piece.

    Raises:
        ValueError: A piece that has no one meaning, an open quote or prose, say.
    """
    place = depth = 0
    while place < len(text):
        lexeme = _LEXEME.match(text, place)
        if lexeme is None:
            raise ValueError
        place, kind, found = lexeme.end(), lexeme.lastgroup, lexeme[lexeme.lastgroup or 0]
        if kind == "mark":
            depth += (found in "{[") - (found in "}]")
            if depth > _MAX_DEPTH:
                raise ValueError
            yield found, None
        elif kind == "text":
            yield _scalar(_quoted(found))
        elif kind == "number":
            yield _scalar(_load(found))
        else:
            yield _scalar(found if kind == "key" else _WORDS[found])


_IN_QUOTES = re.compile(r"""\\.|["]""", re.DOTALL)


def _quoted(text: str) -> str:
    """The text that stands between quotes of either kind; line breaks may stand in it as they are."""
    inner = _IN_QUOTES.sub(lambda m: {"\\'": "'", '"': '\\"'}.get(m[0], m[0]), text[1:-1])
    return str(json.loads(f'"{inner}"', strict=False))


def _is_trailing_comma(tokens: list[_Token], place: int) -> bool:
    if tokens[place][0] != "," or not 0 < place < len(tokens) - 1:
        return False
    return tokens[place + 1][0] in {"}", "]"} and tokens[place - 1][0] not in {"{", "[", ","}


def _scalar(value: Any) -> _Token:
    return type(value).__name__, value
