"""Finds the object of a JSON decision in a reply, prose, fences and slips of grammar around it. Pure.

What was read strictly before the object left JSON's grammar is never changed by mending the rest.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import json_repair

from turnflow.graph.json_scan import MAX_DEPTH, Member, ObjectScanner
from turnflow.graph.text import storable_json

KEYS = ("thought", "action", "action_input")
"""The keys of a decision."""

_MAX_STARTS = 1000
"""Places where the object may begin that are tried."""

_MAX_MENDED_CHARS = 100_000
"""Characters that are given to the library."""

_MAX_MENDING = 8_000_000
"""Characters times quotes and brackets: the library may look through all of the text at each of them."""

_START = re.compile(r"""\{\s*+(?=["'“‘A-Za-z_/#])""")
_STRICT_START = re.compile(r'\{[ \t\n\r]*"')
_EMPTY = re.compile(r"\{\s*+\}")
_KEY = re.compile(r"""(?:[{,]\s*|["'“‘])(?:thought|action_input|action)["'”’]?\s*:""")
_BRACKETS = re.compile(r"[{}\[\]()]")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\(.?)', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_FIRST_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


class FoundObject(NamedTuple):
    """The object that a reply holds.

    Attributes:
        values: Its values, of a key given twice the first; a string whose end was cut off as far as it came.
        input_at: Where in the text the value of `action_input` begins; -1 if that is in doubt.
        end: Where the object ends; -1 if it does not, or if that is in doubt.
    """

    values: dict[str, Any]
    input_at: int = -1
    end: int = -1


def find_object(text: str) -> FoundObject | None:
    """The first object that is or was meant to be a decision, else the first object, else None.

    The decision is the first object that has an action. An object that left the grammar is mended if it has
    a key of a decision, and is passed over, as prose, if not.
    """
    other: FoundObject | None = None
    start = _START.search(text)
    for _ in range(_MAX_STARTS):
        if start is None:
            break
        scanner = scan_at(text, start.start())
        is_cut_off = scanner.begun and not scanner.over
        has_key = any(key in scanner.members for key in KEYS)
        if (scanner.whole and "action" in scanner.members) or (is_cut_off and (has_key or scanner.is_nested)):
            return _strict(text, scanner)
        stop = len(text) if is_cut_off else scanner.stop or start.end()
        following = _START.search(text, stop)
        if scanner.whole:
            other = other or _strict(text, scanner)
        else:
            key = _KEY.search(text, start.start(), following.start() if following else len(text))
            if key or has_key:
                return _mended(text, start.start(), key.start() if key else -1, scanner)
        start = following
    return other or (FoundObject({}) if _EMPTY.search(text) else None)


def names_a_key(text: str) -> bool:
    """Whether a key of a decision stands in the text, whatever else does."""
    return bool(_KEY.search(text))


def scan_at(text: str, at: int) -> ObjectScanner:
    """A scanner that has read the object at `at`; it has not begun if none begins there."""
    scanner = ObjectScanner()
    if _STRICT_START.match(text, at):
        for _ in scanner.feed(text, at):
            pass
    return scanner


def _strict(text: str, scanner: ObjectScanner) -> FoundObject:
    values = {key: _value(text, member) for key, member in scanner.members.items()}
    given = scanner.members.get("action_input")
    return FoundObject(values, given.start if given else -1, scanner.stop if scanner.whole else -1)


def _value(text: str, member: Member) -> Any:
    """A value; of an object that was cut off, what came of its own values."""
    if member.kind == "text":
        return member.text
    if member.closed or member.kind == "scalar":
        return storable_json(member.value)
    if member.kind == "array":
        return []
    inner = scan_at(text, member.start).members
    return {key: value.text if value.kind == "text" else value.value for key, value in inner.items()}


def _mended(text: str, start: int, key: int, scanner: ObjectScanner) -> FoundObject | None:
    """The object at `start`, which is not strict JSON; or at the last `{` before the key, if it has none."""
    if scanner.bad_escape:
        escaped = _with_good_escapes(text[start:])
        again = scan_at(escaped, 0)
        if not again.broken:
            return _strict(escaped, again)._replace(input_at=-1, end=-1)
    read = {
        name: member
        for name, member in scanner.members.items()
        if member.settled or (member.closed and member.kind in {"object", "array"})
    }
    values = {name: _value(text, member) for name, member in read.items()}
    if not all(name in values for name in KEYS):
        mended = _library(text, start)
        last = text.rfind("{", start + 1, key + 1) if key >= 0 else -1
        if last > start and not (mended and "action" in mended):
            mended = _library(text, last) or mended
        if mended is None:
            return None
        values = {**mended, **values}
    return FoundObject(values, read["action_input"].start if "action_input" in read else -1)


def _library(text: str, start: int) -> dict[str, Any] | None:
    """The object that the library makes of the text from `start` on, if that does not take too long."""
    if len(text) - start > _MAX_MENDED_CHARS:
        return None
    part = without_cut_escape(text[start:])
    if len(part) * sum(map(part.count, "\"'“”{}[]()")) > _MAX_MENDING or _depth(part) > MAX_DEPTH:
        return None
    try:
        found = json_repair.loads(part, skip_json_loads=True)
    except Exception:  # noqa: BLE001 - whatever the library stumbles over is no decision
        return None
    found = storable_json(found)
    objects = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    with_action = [each for each in objects if "action" in each]
    return next(iter(with_action or objects), None)


def _depth(text: str) -> int:
    """How many brackets stand inside each other at most, those in strings counted too."""
    depth = deepest = 0
    for mark in _BRACKETS.finditer(text):
        depth = depth + 1 if mark[0] in "{[(" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def without_cut_escape(text: str) -> str:
    """The text without the first part of an escape, or of an escaped surrogate pair, at its end."""
    for cut_off in (_CUT_ESCAPE, _FIRST_HALF):
        found = cut_off.search(text, max(0, len(text) - 6))
        if found and _begins_escape(text, found.start()):
            text = text[: found.start()]
    return text


def _begins_escape(text: str, at: int) -> bool:
    """Whether the backslash at `at` is not escaped itself."""
    before = text[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 0


def _with_good_escapes(text: str) -> str:
    """The text with a backslash that begins no escape taken as it is, but for a quote's."""
    return _ESCAPE.sub(_good_escape, without_cut_escape(text))


def _good_escape(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    return "'" if escape[1] == "'" else f"\\\\{escape[1]}"
