"""Patterns of a JSON Schema, applied in linear time. Pure.

Python's own engine can take time exponential in the text, so patterns run on Rust's, which pydantic brings
along. It knows neither look-around nor back-references.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_MAX_CHARS = 1000
"""Characters of a pattern that is applied."""
_MAX_SIZE = 30_000
"""Size of a pattern that is applied, its repetitions written out: `\\w{200}` has 24,201."""


@dataclass(frozen=True)
class Pattern:
    """A pattern that can be applied in linear time."""

    size: int
    """Units of at most about 5 microseconds that reading it takes."""
    width: int
    """Characters and classes in it, repetitions written out."""
    _validator: SchemaValidator

    def steps(self, text: str) -> int:
        """Units of at most about 5 microseconds that looking for it in a text takes."""
        return 1 + self.width * len(text) // 500

    def is_in(self, text: str) -> bool:
        """Whether it matches anywhere in the text."""
        return self._validator.isinstance_python(text)


@lru_cache(maxsize=64)
def read_pattern(text: str) -> Pattern | None:
    """The pattern that a text is, or None if it cannot be applied in linear time."""
    size, width = (_total(text, weigh) for weigh in (_size, _one))
    if size is None or width is None or size > _MAX_SIZE:
        return None
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=text, regex_engine="rust-regex"))
    except SchemaError:
        return None
    return Pattern(size, width, validator)


_MAY_IGNORE_CASE = re.compile(r"\(\?[a-zA-Z-]*i")


def is_pattern(text: object) -> bool:
    """Whether a value is a regular expression, as far as Python's reader knows it in short time."""
    if not isinstance(text, str) or len(text) > _MAX_CHARS or _MAY_IGNORE_CASE.search(text):
        return True
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


_TOKEN = re.compile(
    r"""(?P<possessive>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\+)
      | (?P<open>\((?:\?(?:P?<\w*>|[ims-]*:))?)
      | (?P<close>\))
      | \{(?P<times>[0-9]+(?:,[0-9]*)?)\}
      | (?P<atom>\\. | \[\^?\]?(?:\\.|[^\]\\])*\] | .)""",
    re.DOTALL | re.VERBOSE,
)
_READ_DIFFERENTLY = re.compile(r"&&|--|~~|.\[", re.DOTALL)
"""What means an operation on sets, in Rust's brackets alone."""
_LARGE = {"w": 120, "W": 120, "p": 120, "P": 120, "d": 20, "D": 20, "S": 12}
"""Sizes of classes that hold characters of many scripts."""


def _total(text: str, weigh: Callable[[str], int]) -> int | None:
    """Weight of all that a pattern matches, its repetitions written out; None where it is not read as one."""
    if len(text) > _MAX_CHARS:
        return None
    totals, last = [1], 0
    for token in _TOKEN.finditer(text):
        if token["possessive"]:  # Rust reads one more repetition
            return None
        if token["open"]:
            totals.append(1)
        elif token["close"]:
            if len(totals) == 1:
                return None
            last = totals.pop()
            totals[-1] += last
        elif token["times"]:
            more = last * max(0, *(int(times or 0) - 1 for times in token["times"].split(",")))
            totals[-1] += more
            last += more
        else:
            atom = token["atom"]
            if len(atom) > 1 and atom[0] == "[" and _READ_DIFFERENTLY.search(atom):
                return None
            last = weigh(atom)
            totals[-1] += last
    return totals[0] if len(totals) == 1 else None


def _one(_atom: str) -> int:
    return 1


def _size(atom: str) -> int:
    escapes = re.findall(r"\\(.)", atom, re.DOTALL)
    others = 12 if atom == "." or atom.startswith("[^") else 1
    return others + 4 * sum(c > "\x7f" for c in atom) + sum(_LARGE.get(letter, 0) for letter in escapes)
