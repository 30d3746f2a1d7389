"""A text cut into pieces that an embedding model reads whole. Pure."""

from __future__ import annotations

import re

PIECE_CHARS = 800
"""Characters of a piece: small models read about 256 tokens."""
MAX_PIECES = 8
"""Pieces of a text that are embedded; of a longer one those of the head and the tail."""

_BREAKS = (re.compile(r"\n\s*"), re.compile(r"(?<=[.!?。！？])\s*"), re.compile(r"\s+"))


def pieces(text: str) -> list[str]:
    """The pieces of a text, in order: at breaks between lines, sentences or words where there are any."""
    room = MAX_PIECES * PIECE_CHARS
    if len(text) <= room:
        return _pieces(text, MAX_PIECES)
    half = MAX_PIECES // 2
    return _pieces(text[: room // 2], half) + _pieces(text[len(text) - room // 2 :], half)


def _pieces(text: str, most: int) -> list[str]:
    found: list[str] = []
    start = 0
    while start < len(text):
        # What is left must go into the pieces that are left.
        least = max(PIECE_CHARS // 2, len(text) - start - (most - len(found) - 1) * PIECE_CHARS)
        end = _end(text, start, min(least, PIECE_CHARS))
        if piece := text[start:end].strip():
            found.append(piece)
        start = end
    return found


def _end(text: str, start: int, least: int) -> int:
    """Where a piece that begins at `start` ends: behind the last break between its least and its most."""
    most = start + PIECE_CHARS
    if most >= len(text):
        return len(text)
    for pattern in _BREAKS:
        ends = [found.end() for found in pattern.finditer(text, start + least, most)]
        if ends := [end for end in ends if start < end <= most]:
            return ends[-1]
    return most
