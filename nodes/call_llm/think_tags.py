"""Think tags: tells a reply's thoughts from its answer while the text arrives."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_ATTRIBUTES = 200
"""Characters of attributes that an opener may have, without the one that separates them from its name."""
MAX_HELD_OPENER = 210
"""Characters of an opener that are held back, at most, until its `>` arrives."""
MAX_HELD_CLOSER = 24
"""Characters of a closer that are held back, at most, until its `>` arrives."""

_BLANKS = " \t\r"


class Piece(NamedTuple):
    """What the scanner found next.

    `text` stands outside thinking and `thinking` inside; `closed` says that a thought ended here; `orphan`
    that a thought ended here whose opener never came, so that all `text` before was thinking. The latter two
    carry no text.
    """

    kind: Literal["text", "thinking", "closed", "orphan"]
    text: str = ""


class ThinkTagScanner:
    """Finds think tags in the content channel of a reply.

    `feed` and `close` are lazy. Route each piece before the next one is asked for: whether what looks like a
    tag is one or is quoted in code depends on the text before it.

    Args:
        names: The tags' names, lower case ASCII letters.
        in_code: Says whether the text routed so far ends inside code, where nothing is a tag.
        starts_thinking: The reply begins inside a thought.
        orphans: A closer without an opener ends a thought in the reply's first paragraph. Elsewhere, and if
            this is False, it is text.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        in_code: Callable[[], bool],
        starts_thinking: bool = False,
        orphans: bool = True,
    ) -> None:
        self._grammar = _grammar(tuple(names))
        self._in_code = in_code
        self._depth = 1 if starts_thinking else 0
        self._unsaid = starts_thinking  # nothing but blanks has come of a thought that the prompt opened
        self._paragraph = _FirstParagraph(ongoing=orphans)
        self._held = ""
        # What came since the last closer inside an open thought, that closer first. It is the answer if the
        # thought is never closed.
        self._tail: list[str] = []

    def feed(self, text: str) -> Iterator[Piece]:
        """Take the next text of the content channel, in any cut."""
        text = self._held + text
        at = 0
        for match in self._grammar.tag.finditer(text):
            before, tag = text[at : match.start()], match.group()
            at = match.end()
            self._paragraph.feed(before)
            yield from self._plain(before)
            yield from self._tag(tag)
            self._paragraph.feed(tag)
        cut = self._grammar.unfinished_from(text, at)
        rest, self._held = text[at:cut], text[cut:]
        self._paragraph.feed(rest)
        yield from self._plain(rest)

    def close(self) -> Iterator[Piece]:
        """End the text: what was held back is decided now."""
        held, self._held = self._held, ""
        yield from self._plain(held)
        if self._tail:
            # Taken as it is: an opener in it is part of an answer that speaks of tags.
            yield Piece("closed")
            yield Piece("text", "".join(self._tail[1:]))
            self._tail = []

    def thought_came_apart(self) -> None:
        """Note that thinking came outside the content channel.

        If it came first, the server itself split off the thought that the prompt had opened, and the content
        does not begin inside one.
        """
        if self._unsaid:
            self._unsaid = False
            self._depth = 0

    def _plain(self, text: str) -> Iterator[Piece]:
        """Text that is no tag or, inside a thought, a tag that does not end it."""
        if not text:
            return
        if not self._depth:
            yield Piece("text", text)
        elif self._tail:
            self._tail.append(text)
        else:
            self._unsaid = self._unsaid and text.isspace()
            yield Piece("thinking", text)

    def _tag(self, tag: str) -> Iterator[Piece]:
        if self._depth:
            yield from self._tag_in_thought(tag)
        elif self._in_code():
            yield from self._plain(tag)
        elif tag.startswith("</"):
            if self._paragraph.ongoing:
                yield Piece("orphan")
            else:
                yield from self._plain(tag)
        elif tag.endswith("/>"):
            yield Piece("closed")
        else:
            self._depth = 1

    def _tag_in_thought(self, tag: str) -> Iterator[Piece]:
        if tag.startswith("</"):
            self._unsaid = False
            self._depth -= 1
            thought, self._tail = "".join(self._tail), []
            if thought:
                yield Piece("thinking", thought)
            if self._depth:
                self._tail = [tag]
            else:
                yield Piece("closed")
        elif tag.endswith("/>"):
            yield from self._plain(tag)
        elif self._unsaid:
            self._unsaid = False  # the model wrote the opener again that the prompt already holds
        else:
            self._depth += 1
            yield from self._plain(tag)


class _Grammar:
    """The tags as patterns. No tag holds a second `<`, so only the last one in a text can be unfinished."""

    def __init__(self, names: tuple[str, ...]) -> None:
        openers = [rf"{name}(?:[\s/][^<>]{{0,{_attributes(name)}}})?" for name in names]
        closers = [rf"/{name}\s{{0,{MAX_HELD_CLOSER - len(name) - 2}}}" for name in names]
        body = "|".join([*openers, *closers]) or "(?!)"
        # ASCII, because "any case" would otherwise take other alphabets' letters for K and S.
        self.tag = re.compile(f"<(?:{body})>", re.ASCII | re.IGNORECASE)
        self._unfinished = re.compile(f"<(?:{body})", re.ASCII | re.IGNORECASE)
        self._heads = frozenset(
            start + name[:length]
            for name in names
            for start in ("<", "</")
            for length in range(len(name) + 1)
        )

    def unfinished_from(self, text: str, at: int) -> int:
        """Give where, from `at` on, `text` may end in the first part of a tag; its length if nowhere."""
        start = text.rfind("<", max(at, len(text) - MAX_HELD_OPENER))
        if start < 0:
            return len(text)
        tail = text[start:]
        return start if tail.lower() in self._heads or self._unfinished.fullmatch(tail) else len(text)


@lru_cache(maxsize=32)
def _grammar(names: tuple[str, ...]) -> _Grammar:
    return _Grammar(names)


def _attributes(name: str) -> int:
    """Give how many characters of attributes an opener of this name may have."""
    return min(MAX_ATTRIBUTES, MAX_HELD_OPENER - len(name) - 2)


class _FirstParagraph:
    """Follows a reply, tags and all, to the first blank line that is not a leading one."""

    def __init__(self, *, ongoing: bool) -> None:
        self.ongoing = ongoing
        self._begun = False
        self._blank_line = True

    def feed(self, text: str) -> None:
        if not self.ongoing:
            return
        first, *others = text.split("\n")
        self._read(first)
        for line in others:
            if self._begun and self._blank_line:
                self.ongoing = False
                return
            self._blank_line = True
            self._read(line)

    def _read(self, line: str) -> None:
        if line.strip(_BLANKS):
            self._blank_line = False
            self._begun = True
