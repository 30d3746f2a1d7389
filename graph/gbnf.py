"""Pieces of grammars in llama.cpp's GBNF. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def alternatives(bodies: Iterable[str]) -> str:
    """One of these."""
    return f"({' | '.join(bodies)})"


def row(*parts: str) -> str:
    """One after the other."""
    return " ".join(parts)


def literal(text: str) -> str:
    """This text."""
    return f'"{"".join(_ESCAPES.get(char, char) for char in text)}"'


def one_of(chars: str, *, but: bool = False) -> str:
    """One of these characters, or of all but these."""
    escaped = (
        char if char.isprintable() and char not in r"[]\^- " else f"\\u{ord(char):04X}" for char in chars
    )
    return f"[{'^' if but else ''}{''.join(escaped)}]"
