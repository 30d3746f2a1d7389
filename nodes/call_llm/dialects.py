"""Tool calls written as text: finds blocks of call markup while the text arrives."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from turnflow.graph.text_call import TextCall
from turnflow.nodes.call_llm.dialect_calls import (
    INVOKE,
    INVOKE_CLOSER,
    PARAMETER,
    PARAMETER_AS,
    PARAMETER_CLOSER,
    TOKEN_CALL,
    TOKEN_CALL_CLOSER,
    BlockKind,
    Mender,
    Units,
    cut_off_call,
    read_block,
    units,
)
from turnflow.nodes.call_llm.lone_json import LoneCall

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from turnflow.graph.profile import Dialect


class Found(NamedTuple):
    """What the scanner found next: text that belongs to no call, or a call, which carries no text.

    The first call of a block brings the block's `markup`, as it came.
    """

    kind: Literal["text", "call"]
    text: str
    call: TextCall | None
    markup: str = ""


class DialectScanner:
    """Finds tool calls written as text in what a reply says outside thinking.

    `feed` and `close` are lazy. Route each piece before the next one is asked for: whether what looks like
    call markup is it or is quoted in code depends on the text before it.

    An opener holds the text back until its block is closed, which is read then. Quotes hide closers and
    openers, so that the text of an argument may speak of markup. An opener that is not hidden, inside a
    block, makes text of what that block held.

    Args:
        dialects: How calls may be written; with none, all is text.
        tool_names: The registered tools, for the dialect `json`. The others' calls may have any name.
        in_code: Says whether the text routed so far ends inside code, where nothing is call markup.
    """

    def __init__(
        self,
        dialects: Sequence[Dialect],
        *,
        tool_names: Collection[str] = (),
        in_code: Callable[[], bool],
    ) -> None:
        self._grammar = _grammar(frozenset(dialects) - {"json"})
        self._tool_names = frozenset(tool_names) if "json" in dialects else frozenset()
        self._in_code = in_code
        self._begin()

    def _begin(self) -> None:
        self._lone = LoneCall(self._tool_names) if self._tool_names else None
        self._block: _Block | None = None
        self._mender = Mender()
        self._tail = ""  # the first part of a mark, or of an escape in a string

    @property
    def in_block(self) -> bool:
        """Whether text is held that may be a call's, so that a think tag that comes next is text."""
        return self._block is not None or (self._lone is not None and self._lone.is_inside)

    def feed(self, text: str) -> Iterator[Found]:
        """Take the next text outside thinking, in any cut."""
        if self._lone is not None:
            text = self._lone.feed(text)
            if not self._lone.is_possible:
                self._lone = None
        yield from self._scan(text)

    def close(self, *, cut_off: bool = False) -> Iterator[Found]:
        """End the text: what was held back is decided now.

        Args:
            cut_off: A limit ended the reply: a block that is still open is a call that was not finished. Its
                strings are not looked through for a closer, as they may quote calls.
        """
        lone, self._lone = self._lone, None
        if lone is not None:
            held, call = lone.close()
            if call is None and cut_off:
                call = self._cut_off_alone(held)
            if call is not None and not self._in_code():
                yield Found("call", "", call, held)
            else:
                yield from self._scan(held)
        open_block = self._block
        if open_block is not None and not cut_off and self._may_be_read_again(open_block):
            # A quote was none. Once this has happened, quotes hide nothing more.
            held, self._tail = self._held()[len(open_block.opener) :], ""
            self._block = _Block(open_block.kind, open_block.opener, literal=True)
            yield from self._scan(held, literal=True)
        rest, block = self._held(), self._block
        self._block, self._tail = None, ""
        if block is not None and cut_off:
            body = rest[len(block.opener) :]
            yield Found("call", "", cut_off_call(block.kind, block.opener, body), rest)
        elif cut_off and _HALF_OPENER.match(rest) and not self._in_code():
            yield Found("call", "", {"name": "", "arguments": "", "complete": False}, rest)
        else:
            yield from _text(rest)

    def _cut_off_alone(self, text: str) -> TextCall | None:
        """The lone call whose end is missing, if its name and its arguments have begun."""
        found = _LONE_HEAD.match(text)
        if found is None or found["name"] not in self._tool_names:
            return None
        return {"name": found["name"], "arguments": text[found.end() :], "complete": False}

    def _may_be_read_again(self, block: _Block) -> bool:
        """Whether a quote may have hidden the closer of the open block.

        Not where single quotes did: an apostrophe is no quote, but it must not let quoted calls out either.
        """
        return not block.has_single_quotes and self._grammar.closes(block.kind, self._held())

    def start_over(self) -> str:
        """Forget all text and give what of it was held back: it was a thought."""
        lone_text = "" if self._lone is None else self._lone.close()[0]
        held = lone_text + self._held()
        self._begin()
        return held

    def _held(self) -> str:
        """What is held back, without what may be a lone call."""
        return (self._block.text if self._block else "") + self._tail

    def _scan(self, text: str, *, literal: bool = False) -> Iterator[Found]:
        text = self._tail + text
        self._tail = ""
        at = kept = 0  # places up to which `text` was read, and was given or put into the block
        cut = len(text)
        while at < cut:
            block = self._block
            mark = (self._grammar.opener if block is None else block.pattern(self._grammar)).search(text, at)
            if mark is None:
                break
            if mark.lastgroup == "part":
                cut = mark.start("part")
                break
            at = mark.end()
            if block is not None and mark.lastgroup in _INSIDE:
                block.state = _INSIDE[mark.lastgroup]
                block.has_single_quotes |= block.state == "single"
                continue
            before, kept = text[kept : mark.start()], at
            if block is not None:
                before = block.text + before
                self._block = None
            if block is not None and mark.lastgroup == "close":
                yield from self._read(block, before, mark[0])
                continue
            yield from _text(before)
            if self._in_code():
                yield from _text(mark[0])
            else:
                self._block = _Block(cast("BlockKind", mark.lastgroup), mark[0], literal=literal)
        rest, self._tail = text[kept:cut], text[cut:]
        if self._block is None:
            yield from _text(rest)
        else:
            self._block.parts.append(rest)

    def _read(self, block: _Block, text: str, closer: str) -> Iterator[Found]:
        calls = read_block(block.kind, block.opener, text[len(block.opener) :], self._mender)
        if calls is None:
            yield from _text(text + closer)
        else:
            for number, call in enumerate(calls):
                yield Found("call", "", call, "" if number else text + closer)


_HALF_OPENER = re.compile(r"<(?:tool_|[｜|]\w)")
"""The beginning of an opener that is hardly anything else."""

_LONE_HEAD = re.compile(
    r"""\s*(?:```\w{0,8}\s*)?\{\s*"name"\s*:\s*"(?P<name>[^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:"""
)

_State = Literal["plain", "string", "single", "parameter", "literal"]


class _Block:
    """A block that is open.

    Attributes:
        kind: What it is.
        opener: The markup that opened it.
        parts: Its text, the opener first.
        state: What was read last: whether quotes, or a parameter's markup, hide what comes next.
        has_single_quotes: Whether a string in it began with a single quote, as they do in Python.
    """

    def __init__(self, kind: BlockKind, opener: str, *, literal: bool) -> None:
        self.kind = kind
        self.opener = opener
        self.parts = [opener]
        self.state: _State = "literal" if literal else "plain"
        self.has_single_quotes = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def pattern(self, grammar: _Grammar) -> re.Pattern[str]:
        return grammar.inside[self.kind, self.state]


_INSIDE: dict[str | None, _State] = {
    "quote": "string",
    "single": "single",
    "unquote": "plain",
    "data": "parameter",
    "end": "plain",
}
"""The state after a mark that stands inside a block and goes on with it."""


def _text(text: str) -> Iterator[Found]:
    if text:
        yield Found("text", text, None)


class _Shape(NamedTuple):
    dialect: Dialect
    openers: tuple[Units, ...]
    closers: tuple[Units, ...]
    items: BlockKind | None = None
    """What of its items may stand alone too."""
    has_parameters: bool = False


_SHAPES: dict[BlockKind, _Shape] = {
    "hermes": _Shape("hermes", (tuple("<tool_call>"),), (tuple("</tool_call>"),)),
    "dsml_calls": _Shape(
        "deepseek",
        (units("<|DSML|function_calls>"), units("<|DSML|tool_calls>")),
        (units("</|DSML|function_calls>"), units("</|DSML|tool_calls>")),
        items="dsml_invoke",
        has_parameters=True,
    ),
    "dsml_invoke": _Shape("deepseek", (INVOKE,), (INVOKE_CLOSER,), has_parameters=True),
    "token_calls": _Shape(
        "deepseek_tokens",
        (units("<|tool▁calls▁begin|>"),),
        (units("<|tool▁calls▁end|>"),),
        items="token_call",
    ),
    "token_call": _Shape("deepseek_tokens", (TOKEN_CALL,), (TOKEN_CALL_CLOSER,)),
}


class _Grammar:
    """The marks of some dialects as patterns.

    Each pattern has a group for every kind of mark that matters where it is used, and `part` for a text's end
    that may be the first part of one; no such part is longer than a few hundred characters.
    """

    def __init__(self, dialects: frozenset[Dialect]) -> None:
        kinds = {kind: shape for kind, shape in _SHAPES.items() if shape.dialect in dialects}
        openers: dict[str, tuple[Units, ...]] = {kind: shape.openers for kind, shape in kinds.items()}
        self.opener = _pattern(openers)
        self.inside: dict[tuple[BlockKind, _State], re.Pattern[str]] = {}
        for kind, shape in kinds.items():
            marks: dict[str, tuple[Units, ...]] = {"close": shape.closers}
            marks |= {other: openers[other] for other in openers if other != shape.items}
            data = {"data": (PARAMETER, PARAMETER_AS)} if shape.has_parameters else {}
            self.inside[kind, "literal"] = _pattern(marks)
            # A parameter's text needs no quotes, and may hold an apostrophe.
            single = () if shape.has_parameters else ("(?P<single>')",)
            self.inside[kind, "plain"] = _pattern(marks | data, '(?P<quote>")', *single)
            self.inside[kind, "string"] = _UNQUOTE
            self.inside[kind, "single"] = _UNQUOTE_SINGLE
            self.inside[kind, "parameter"] = _pattern({"end": (PARAMETER_CLOSER,)})

    def closes(self, kind: BlockKind, text: str) -> bool:
        """Say whether a closer of the kind stands in the text, hidden or not."""
        return any(re.search("".join(closer), text) for closer in _SHAPES[kind].closers)


@lru_cache(maxsize=32)
def _grammar(dialects: frozenset[Dialect]) -> _Grammar:
    return _Grammar(dialects)


_UNQUOTE = re.compile(r'(?:[^"\\]|\\.)*+(?:(?P<unquote>")|(?P<part>\\?\Z))', re.DOTALL)
"""The rest of a string; a backslash at the end of the text may escape what comes next."""


_UNQUOTE_SINGLE = re.compile(r"(?:[^'\\]|\\.)*+(?:(?P<unquote>')|(?P<part>\\?\Z))", re.DOTALL)


def _pattern(marks: dict[str, tuple[Units, ...]], *others: str) -> re.Pattern[str]:
    if not marks:
        return re.compile("(?!)")
    groups = [f"(?P<{name}>{_any(''.join(mark[1:]) for mark in same)})" for name, same in marks.items()]
    parts = _any(_beginning(mark[1:]) for same in marks.values() for mark in same)
    return re.compile("|".join([f"<{_any(groups)}", rf"(?P<part><{parts}\Z)", *others]))


def _any(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _beginning(mark: Units) -> str:
    """A pattern for any first part of a mark, the empty one too."""
    pattern = ""
    for unit in reversed(mark):
        pattern = f"(?:{unit}{pattern})?"
    return pattern
