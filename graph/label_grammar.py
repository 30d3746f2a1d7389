"""The label that a reply carries on its first line: how it may be written, and what goes with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from turnflow.graph.protocol import UNKNOWN

WINDOW = 64
"""Characters, counted from the first that is not blank, within which the label is found or given up."""

# Blanks within a line, as the inside of a character class. A carriage return is one, so that CRLF ends a line
# as LF does. The second line has no width: U+FEFF is a byte order mark, U+2060 a word joiner, and so on.
_B = (
    " \t\r\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
    "\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
)
_COLONS = ":："
_SEPARATORS = _COLONS + "—"
_STOPS = ".。!！"
_CLOSING_QUOTES = "\"'“”‘’"
_CLOSING_BRACKETS = r"\])】）］」』"

_BLANK = re.compile(f"[{_B}]*")
_BLANK_LINES = re.compile(f"[{_B}\n]*")
_MARGIN = re.compile(f"(?:(?:>|#{{1,6}})[{_B}]*)*")
_SEPARATOR = re.compile(f"[{_B}]*([{_SEPARATORS}])")
_INNER_MARK = re.compile(f"[{_B}]*([{_SEPARATORS}{_STOPS}])")
_OPENER = re.compile(
    rf"(?:(?P<ticks>`{{1,4}})(?!`)"
    rf"|(?P<stars>\*{{2,3}}|\*(?![{_B}]))"  # a single one before a blank is a bullet
    r"|(?P<underscores>_{1,3})"
    r"|(?P<quote>[\"'“”‘’])"
    rf"|(?P<bracket>[\[(【（［「『]))[{_B}]*"
)
_UNOPENED_CLOSERS = re.compile(
    rf"(?:[{_B}]*(?:`{{1,4}}(?!`)|\*{{1,3}}|_{{1,3}}|[{_CLOSING_QUOTES}{_CLOSING_BRACKETS}]))*"
)
_WORD = "(?:label|标签|標籤)"
_ANNOUNCED = re.compile(f"{_WORD}[{_B}]*[{_COLONS}][{_B}]*", re.IGNORECASE)
# The word may stand in a wrapper of its own: `**Label:** FINISH`, `[Label]: FINISH`.
_CLOSER = rf"[`*_{_CLOSING_QUOTES}{_CLOSING_BRACKETS}]"
_ANNOUNCED_IN_WRAPPER = re.compile(
    f"{_WORD}[{_B}]*({_CLOSER}*)[{_B}]*[{_COLONS}]({_CLOSER}*)[{_B}]*", re.IGNORECASE
)
_FENCE_BLANKS = " \t\r"


class LabelLine(NamedTuple):
    """What was decided about the label of a text. All places are offsets in that text.

    Attributes:
        label: The label as the protocol spells it, or UNKNOWN.
        passed: Where the unlabelled line that was passed over begins, and where it ends, its newline
            included; the two are equal if there is none.
        end: Where the label with its wrapper ends. What follows is for `LabelLineEnd`. 0 if UNKNOWN.
        separated: Whether the wrapper held the one colon or em dash that goes with the label.
    """

    label: str
    passed: tuple[int, int] = (0, 0)
    end: int = 0
    separated: bool = False


class LabelLineEnd:
    """Takes off what ends a label's line: blanks, one colon or em dash, blanks, and one newline.

    Args:
        separated: The colon or em dash came already; another one belongs to the body.
    """

    def __init__(self, *, separated: bool) -> None:
        self._may_separate = not separated
        self._passed = False

    def feed(self, text: str) -> str:
        """Take the next text after the label, in any cut; give what of it belongs to the body."""
        if self._passed:
            return text
        at = _skip(_BLANK, text, 0)
        if self._may_separate and at < len(text):
            self._may_separate = False
            if text[at] in _SEPARATORS:
                at = _skip(_BLANK, text, at + 1)
        if at == len(text):
            return ""
        self._passed = True
        return text[at + 1 :] if text[at] == "\n" else text[at:]


class LabelGrammar:
    """Finds one of some labels in a text.

    Args:
        labels: The labels, in any order; the longest that fits is taken.
    """

    def __init__(self, labels: Collection[str]) -> None:
        longest_first = sorted(labels, key=len, reverse=True)
        self._labels = [(label, re.compile(re.escape(label), re.IGNORECASE)) for label in longest_first]
        self._line_of_note = _line_of_note(longest_first)

    def find(self, text: str, *, final: bool) -> LabelLine | None:
        """Decide about the label of a text; None while more text could still decide.

        The decision falls when the label's line is complete, at the last character of the window, or at the
        end of the text if it is `final`. What comes later changes nothing.
        """
        start = leading_blank(text)
        window = text[start : start + WINDOW]
        ends = final and len(window) < WINDOW
        first = _line(window, 0, ends=ends)
        if first is None:
            return None
        if found := self._label_of(first):
            return LabelLine(found.label, end=start + found.end, separated=found.separated)
        if not first.newline:
            return LabelLine(UNKNOWN)
        after = len(first.text) + 1
        next_start = _skip(_BLANK_LINES, window, after)
        second = _line(window, next_start, ends=ends)
        if second is None:
            return None
        found = self._label_of(second, in_ticks=True)
        if found is None:
            return LabelLine(UNKNOWN)
        return LabelLine(
            found.label, (start, start + after), start + next_start + found.end, separated=found.separated
        )

    def find_second(self, body: str) -> str | None:
        """Find a further label in the body of a labelled reply (see `find_second_label`)."""
        fence = ""
        for line in self._line_of_note.finditer(body):
            run = line["fence"]
            if run and not fence:
                fence = run
            elif run and _closes(fence, run, line["info"]):
                fence = ""
            elif not run and not fence:
                written = line["alone"] or line["ticked"] or line["bare"]
                found = [label for label, pattern in self._labels if pattern.fullmatch(written)]
                return written if written in found else found[0]
        return None

    def _label_of(self, line: _Line, *, in_ticks: bool = False) -> _Found | None:
        """The label of a line that begins with no blank; `in_ticks` takes one wrapped in backticks only."""
        for head in _heads(line.text, plain=in_ticks):
            # First those that are spelled exactly so: letters of other alphabets may differ by case only.
            spelled = [each for each in self._labels if line.text.startswith(each[0], head.end)]
            for label, pattern in [*spelled, *self._labels]:
                written = pattern.match(line.text, head.end)
                if written is None:
                    continue
                close = _close(line.text, written.end(), head.openers)
                if in_ticks and not close.in_ticks:
                    continue
                end = _accepted_end(line, head, close, exact=written.group() == label)
                if end is not None:
                    return _Found(label, end, bool(close.separator))
        return None


def classify_label(text: str, allowed: Collection[str], *, final: bool = False) -> tuple[str, str] | None:
    """Tell the label of a reply from its body. Pure.

    The label is decided on the shortest beginning of the text that decides: its line is complete, or 64
    characters came, counted from the first that is not blank, or the text ends. Within these 64 characters
    one line without a label is passed over if a label wrapped in backticks begins the next line.

    Args:
        text: The reply, or its beginning, without thoughts.
        allowed: All labels.
        final: Whether the text is whole.

    Returns:
        The label as `allowed` spells it, and the body without the label's line; UNKNOWN and the text as it
        is, if there is no label; None if that is not decided yet, which a final text never gives.
    """
    found = label_grammar(allowed).find(text, final=final)
    if found is None:
        return None
    if found.label == UNKNOWN:
        return UNKNOWN, text
    return found.label, LabelLineEnd(separated=found.separated).feed(text[found.end :])


def find_second_label(body: str, allowed: Collection[str]) -> str | None:
    """Find a further label in the body of a labelled reply. Pure, in time linear in the body.

    It is a line outside code fences, indented by three spaces at most, that is nothing but a label wrapped in
    backticks, in any case, or begins with a label, bare or wrapped in backticks, and a colon.

    Returns:
        The first such label, as `allowed` spells it.
    """
    return label_grammar(allowed).find_second(body)


def leading_blank(text: str) -> int:
    """How many blanks, newlines and characters without width the text begins with."""
    return _skip(_BLANK_LINES, text, 0)


def label_grammar(allowed: Collection[str]) -> LabelGrammar:
    """The grammar of these labels; it is made once."""
    return _grammar(tuple(sorted(allowed)))


@lru_cache(maxsize=32)
def _grammar(labels: tuple[str, ...]) -> LabelGrammar:
    return LabelGrammar(labels)


class _Line(NamedTuple):
    """A line without its newline. It is complete if it is known to end there."""

    text: str
    newline: bool
    complete: bool


class _Head(NamedTuple):
    """What stands before a label: the kinds and lengths of wrappers, and whether `Label:` is there."""

    end: int
    openers: tuple[tuple[str, int], ...]
    announced: bool


class _Close(NamedTuple):
    """What closes a label's wrappers.

    `separator` is the colon or em dash inside them, `paired` says that the innermost has both sides, `whole`
    that all have them, in equal lengths, and `in_ticks` that one of backticks is among the closed ones.
    """

    end: int
    separator: str
    paired: bool
    whole: bool
    in_ticks: bool


class _Found(NamedTuple):
    label: str
    end: int
    separated: bool


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Give where the pattern's match at `at` ends; `at` if there is none."""
    match = pattern.match(text, at)
    return match.end() if match else at


def _line(window: str, start: int, *, ends: bool) -> _Line | None:
    """The line of the window that begins at `start`; None if it may still grow within the window."""
    newline = window.find("\n", start)
    if newline >= 0:
        return _Line(window[start:newline], newline=True, complete=True)
    if ends or len(window) == WINDOW:
        return _Line(window[start:], newline=False, complete=ends)
    return None


def _heads(line: str, *, plain: bool) -> Iterator[_Head]:
    """The ways to read what stands before a label, at most two; `plain` allows for wrappers only.

    There are two where a label is itself spelled like the word in `Label:`.
    """
    at, openers = _read_openers(line, 0 if plain else _skip(_MARGIN, line, 0))
    word = None if plain else (_ANNOUNCED_IN_WRAPPER if openers else _ANNOUNCED).match(line, at)
    if word:
        still_open = () if any(word.groups()) else openers
        after, more = _read_openers(line, word.end())
        yield _Head(after, still_open + more, announced=True)
    yield _Head(at, openers, announced=False)


def _read_openers(line: str, at: int) -> tuple[int, tuple[tuple[str, int], ...]]:
    openers = []
    while match := _OPENER.match(line, at):
        kind = match.lastgroup or ""
        openers.append((kind, len(match[kind])))
        at = match.end()
    return at, tuple(openers)


def _close(line: str, at: int, openers: tuple[tuple[str, int], ...]) -> _Close:
    """Read what closes the wrappers of a label that ends at `at`; one mark may stand among it."""
    closed, mark = [], ""
    whole = bool(openers)
    for kind, length in reversed(openers):
        closer = _closer(kind, length)
        match = closer.match(line, at)
        if not match and not mark and (inner := _INNER_MARK.match(line, at)):
            match = closer.match(line, inner.end())
            mark = inner[1] if match else ""
        whole = whole and match is not None and len(match[1]) >= length
        at = match.end() if match else at
        closed.append(kind if match else "")
    paired = bool(closed and closed[0])
    end = at if paired else _skip(_UNOPENED_CLOSERS, line, at)
    return _Close(end, mark.strip(_STOPS), paired, whole, in_ticks=paired and "ticks" in closed)


@lru_cache(maxsize=32)
def _closer(kind: str, length: int) -> re.Pattern[str]:
    """What closes a wrapper of this kind whose opener has this length."""
    closers = {
        "ticks": "`{1,4}(?!`)",
        "stars": rf"\*{{1,{length}}}",
        "underscores": rf"_{{1,{length}}}(?!\w)",  # inside a word it is a letter of it
        "quote": f"[{_CLOSING_QUOTES}]",
        "bracket": f"[{_CLOSING_BRACKETS}]",
    }
    return re.compile(f"[{_B}]*({closers[kind]})")


def _accepted_end(line: _Line, head: _Head, close: _Close, *, exact: bool) -> int | None:
    """Give where a label ends, its wrapper included; None if it is a word of the text and no label."""
    outside = _SEPARATOR.match(line.text, close.end)
    separator = close.separator or (outside[1] if outside else "")
    read = outside.end() if outside else close.end
    if head.openers and not close.whole and not line.complete and read == len(line.text):
        return None  # cut by the window, so the rest of the wrapper would be left in the body
    alone = line.complete and _is_blank(line.text, close.end)
    any_case = exact or head.announced
    if close.paired:
        colon = separator != "" and separator in _COLONS
        return close.end if any_case or close.in_ticks or alone or colon else None
    if alone or (separator and any_case):
        return close.end
    stop = line.text[close.end : close.end + 1]
    if stop and stop in _STOPS and line.complete and _is_blank(line.text, close.end + 1):
        return close.end + 1
    return None


def _is_blank(line: str, at: int) -> bool:
    """Whether nothing but blanks follows."""
    return _skip(_BLANK, line, at) == len(line)


def _closes(fence: str, run: str, info: str) -> bool:
    """Whether a line that begins with `run` closes the fence (CommonMark 0.31, 4.5)."""
    return run[0] == fence[0] and len(run) >= len(fence) and not info.strip(_FENCE_BLANKS)


def _line_of_note(labels: list[str]) -> re.Pattern[str]:
    """The lines of a body that are a further label, unless a fence holds them, or may bound a fence."""
    label = "|".join(re.escape(each) for each in labels) or "(?!)"
    opener, closer = f"`{{1,4}}[{_B}]*+", f"[{_B}]*+`{{1,4}}"
    alone = rf"{opener}(?P<alone>(?i:{label})){closer}[{_B}]*+$"
    ticked = rf"{opener}(?P<ticked>{label})(?:{closer}[{_B}]*+[{_COLONS}]|[{_B}]*+[{_COLONS}]{closer}(?!`))"
    bare = rf"(?P<bare>{label})[{_B}]*+[{_COLONS}]"
    fence = r"(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)(?P<info>[^\n]*+)"
    return re.compile(rf"^\ {{0,3}}(?:{alone}|{ticked}|{bare}|{fence})", re.MULTILINE)
