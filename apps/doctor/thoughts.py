"""Think tags in a content, told from the answer."""

from __future__ import annotations

import re
from typing import NamedTuple

from turnflow.graph.profile import THINK_TAGS

_NAMES = "|".join(THINK_TAGS)
_OPENER = re.compile(rf"\s*<({_NAMES})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_CLOSER = re.compile(rf"</({_NAMES})\s{{0,20}}>", re.IGNORECASE)


class Thought(NamedTuple):
    """How a content thinks aloud."""

    tag: str
    """Name of the tag; empty if there is none."""
    is_opened: bool
    is_closed: bool
    rest: str
    """The answer behind the thought."""


def thought_in(content: str) -> Thought:
    """Find the thought at the beginning of a content; one whose opener is missing counts too."""
    opener = _OPENER.match(content)
    closer = _CLOSER.search(content, opener.end() if opener else 0)
    if closer is not None:
        return Thought(closer[1].lower(), opener is not None, True, content[closer.end() :])
    if opener is not None:
        return Thought(opener[1].lower(), True, False, "")
    return Thought("", False, False, content)
