"""Text of models and tools, made safe for a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    """The text without control characters, escape sequences' own and those that turn its direction.

    Lone surrogates go too: no terminal's encoding takes them.

    Model output is untrusted: it must not move the cursor, set the title or paste into the shell.
    """
    return _CONTROL.sub("", text)


def visible(text: str) -> str:
    """The text with everything written out that a terminal would hide or obey, line breaks included.

    For text that somebody decides upon: what is read must be all that is there.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
