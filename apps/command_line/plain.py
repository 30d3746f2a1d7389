"""Text of models, tools and providers, made safe for a terminal."""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_ODD = re.compile(r"[^ -~]+")
_BLANK = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0000-\U000e0fff]"
)
"""What Python calls printable and no terminal shows: default ignorable characters, fillers, blank symbols."""
_MARKS = {"Mn", "Me"}
_MAX_MARKS = 3
"""Marks on one letter; no script needs more, and piled up they cover the lines above."""


def plain(text: str) -> str:
    """The text without control characters, escape sequences' own and those that turn its direction.

    Lone surrogates go too: no terminal's encoding takes them.

    Model output is untrusted: it must not move the cursor, set the title or paste into the shell.
    """
    return _CONTROL.sub("", text)


def json_line(value: Any) -> str:
    """The value as one line of JSON; what `plain` takes out of a text is written as an escape."""
    line = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda found: json.dumps(found.group())[1:-1], line)


def visible(text: str) -> str:
    """The text with everything written out that a terminal would hide or obey, line breaks included.

    For text that somebody decides upon: what is read must be all that is there. Marks that are set on a
    letter are written out as well, but for those of its own script: without them no Hindi could be read.
    """
    return _ODD.sub(lambda found: "".join(_written(found.group())), text)


def _written(run: str) -> Iterator[str]:
    script, marks = "", 0
    for char in run:
        is_mark = unicodedata.category(char) in _MARKS
        marks = marks + 1 if is_mark else 0
        name = unicodedata.name(char, "").partition(" ")[0]
        is_stray = is_mark and (name != script or marks > _MAX_MARKS)
        if is_stray or not char.isprintable() or _BLANK.match(char):
            script = ""
            yield char.encode("unicode_escape").decode("ascii")
        else:
            script = name
            yield char


class PlainFormatter(logging.Formatter):
    """Formats log records: they may quote what a provider or a tool said."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines, safe for a terminal."""
        return plain(super().format(record))
