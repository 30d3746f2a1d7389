"""The laws of tool calls written as text: chunk invariance, nothing is lost, no call in code, linear time."""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.profile import Dialect
from turnflow.graph.strict_json import read_object
from turnflow.graph.text_call import TextCall
from turnflow.nodes.call_llm.code_spans import CodeTracker
from turnflow.nodes.call_llm.dialects import DialectScanner, Found

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "1500")), deadline=None)

ALL: tuple[Dialect, ...] = ("hermes", "deepseek", "deepseek_tokens", "json")
TOOLS = ("a", "search", "天气")

MARKS = [
    "<tool_call>",
    "</tool_call>",
    "<｜DSML｜function_calls>",
    "</｜DSML｜function_calls>",
    "<|DSML|tool_calls>",
    "</|DSML|tool_calls>",
    '<｜DSML｜invoke name="a">',
    "</｜DSML｜invoke>",
    '<｜DSML｜parameter name="x" string="true">',
    '<|DSML|parameter name="y">',
    "</｜DSML｜parameter>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<|tool_call_end|>",
    "<｜tool▁sep｜>",
]
BLOCKS = [
    '<tool_call>{"name": "a", "arguments": {"x": "</tool_call>"}}</tool_call>',
    '<tool_call>[{"name": "b"}, {"name": "天气"}]</tool_call>',
    '<tool_call>{"name": "a", </tool_call>',
    '<｜DSML｜invoke name="a"><｜DSML｜parameter name="x">"</｜DSML｜parameter></｜DSML｜invoke>',
    '<｜DSML｜tool_calls><｜DSML｜invoke name="a">{"x": "<tool_call>"}</｜DSML｜invoke></｜DSML｜tool_calls>',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n```json\n{}\n```<｜tool▁call▁end｜>",
    '{"name": "a", "arguments": {"x": [1, "\\""]}}',
]
BODIES = [
    '{"name": "a"}',
    '{"name": "',
    '", "arguments": ',
    '{"x": 1}',
    '"',
    "\\",
    '\\"',
    "[",
    "]",
    "{",
    "}",
    ",",
]
NEAR = ["<", "<tool", "_call>", "<｜", '<｜DSML｜invoke name="', ">", "</", "function", "a", "1.5", "null"]
CODE = ["`", "``", "```", "```json\n", "\n```\n", "\n~~~\n"]
OTHER = ["\n", " ", "\t", "。", "🙂", "b"]

PARTS = st.lists(
    st.one_of(
        *(st.sampled_from(parts) for parts in (MARKS, MARKS, BLOCKS, BODIES, BODIES, NEAR, CODE, OTHER)),
        st.text(alphabet='<>|"\\{}:a`\n ', max_size=4),
    ),
    max_size=16,
).map("".join)
LONE = st.lists(
    st.sampled_from(
        [*BODIES, ":", '"name": "a"', '"arguments": {', '"x"', "1", "true", "-", " ", "\n", "```", "\\u0061"]
    ),
    max_size=14,
).map("".join)
LONE_HEADS = st.sampled_from(
    ['{"name": "a", "arguments": {', "```json\n{", '{"arguments": "', "{", "\n", '{"name":']
)
REPLIES = st.one_of(PARTS, PARTS, st.builds(str.__add__, LONE_HEADS, st.one_of(LONE, PARTS)))
DIALECTS = st.one_of(
    st.just(ALL),
    st.lists(st.sampled_from(ALL), unique=True, max_size=3).map(tuple),
)


class Routed(NamedTuple):
    """A piece, and whether the text routed before it ended in code."""

    found: Found
    in_code: bool


class Consumer:
    """Routes what a scanner finds, as the reader does."""

    def __init__(self, dialects: Sequence[Dialect], *, cut_off: bool = False) -> None:
        self._code = CodeTracker()
        self.scanner = DialectScanner(dialects, tool_names=TOOLS, in_code=self._code.in_code)
        self._cut_off = cut_off
        self.routed: list[Routed] = []
        self.parts: list[str] = []

    def feed(self, text: str) -> None:
        for found in self.scanner.feed(text):
            self._route(found)

    def close(self) -> None:
        for found in self.scanner.close(cut_off=self._cut_off):
            self._route(found)

    def _route(self, found: Found) -> None:
        assert (found.kind == "call") == (found.call is not None) == (not found.text)
        # The tracker of another reader of the same text: asking one must not change what the other says.
        in_code = CodeTracker("".join(self.parts)).in_code() if found.call else False
        self.routed.append(Routed(found, in_code))
        self.parts.append(found.text)
        self._code.feed(found.text)

    def merged(self) -> list[str | TextCall]:
        """Texts, neighbours joined, and calls, in their order."""
        pieces: list[str | TextCall] = []
        for found, _ in self.routed:
            if found.call is not None:
                pieces.append(found.call)
            elif pieces and isinstance(pieces[-1], str):
                pieces[-1] += found.text
            else:
                pieces.append(found.text)
        return pieces


def consume(chunks: Sequence[str], dialects: Sequence[Dialect] = ALL, *, cut_off: bool = False) -> Consumer:
    consumer = Consumer(dialects, cut_off=cut_off)
    for chunk in chunks:
        consumer.feed(chunk)
    consumer.close()
    return consumer


@st.composite
def cuts(draw: st.DrawFn, reply: str) -> list[str]:
    """Cut a reply into chunks somehow."""
    places = sorted(draw(st.lists(st.integers(0, len(reply)), max_size=8)))
    return [reply[start:end] for start, end in zip([0, *places], [*places, len(reply)], strict=True)]


@FUZZ
@given(data=st.data(), reply=REPLIES, dialects=DIALECTS, cut_off=st.booleans())
def test_any_way_of_cutting_gives_the_same(
    data: st.DataObject, reply: str, dialects: Sequence[Dialect], *, cut_off: bool
) -> None:
    whole = consume([reply], dialects, cut_off=cut_off).merged()
    for chunks in (list(reply), data.draw(cuts(reply))):
        assert consume(chunks, dialects, cut_off=cut_off).merged() == whole


@FUZZ
@given(data=st.data(), reply=REPLIES, dialects=DIALECTS)
def test_what_was_given_depends_on_what_came_only(
    data: st.DataObject, reply: str, dialects: Sequence[Dialect]
) -> None:
    one, other = Consumer(dialects), Consumer(dialects)
    one.feed(reply)
    for chunk in data.draw(st.one_of(st.just(list(reply)), cuts(reply))):
        other.feed(chunk)
    assert one.merged() == other.merged()
    assert one.scanner.in_block == other.scanner.in_block


@FUZZ
@given(reply=REPLIES, dialects=DIALECTS, cut_off=st.booleans())
def test_text_is_lost_to_calls_only(reply: str, dialects: Sequence[Dialect], *, cut_off: bool) -> None:
    pieces = consume([reply], dialects, cut_off=cut_off).merged()
    # A run of calls stands for something that begins as markup or, if it is all there is, as lone JSON does.
    markup = r"<(?:tool_call|[|｜]DSML|[|｜]tool)[\s\S]+"
    pattern = "".join(
        re.escape(piece) if isinstance(piece, str) else markup
        for place, piece in enumerate(pieces)
        if isinstance(piece, str) or not place or isinstance(pieces[place - 1], str)
    )
    is_lone = (
        len(pieces) == 1
        and not any(isinstance(piece, str) for piece in pieces)
        and reply.strip()[:1] in set("{`")
    )
    assert is_lone or re.fullmatch(pattern, reply)


@FUZZ
@given(reply=PARTS, dialects=DIALECTS, cut_off=st.booleans())
def test_no_call_comes_out_of_code(reply: str, dialects: Sequence[Dialect], *, cut_off: bool) -> None:
    routed = consume([reply], dialects, cut_off=cut_off).routed
    assert not any(piece.in_code for piece in routed if piece.found.call)


@FUZZ
@given(reply=REPLIES, before=st.sampled_from(["1 `", "1 ``2", "1\n```\n", "~~~ a\n\n", "  ```py\n1"]))
def test_all_is_text_on_a_line_of_code(reply: str, before: str) -> None:
    line = reply.replace("`", "").replace("~", "").replace("\n", " ")
    assert consume([before + line], ALL, cut_off=True).merged() == [before + line]


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.sampled_from([*MARKS, *BLOCKS, *CODE]),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["x", "y", "城市"]), VALUES, max_size=3)


def _dsml(name: str, arguments: dict[str, object]) -> str:
    """Write a call as parameters, or as JSON where a value would end its parameter."""
    if "parameter>" in json.dumps(arguments):
        return f'<｜DSML｜invoke name="{name}">{json.dumps(arguments, ensure_ascii=False)}</｜DSML｜invoke>'
    body = "\n".join(
        f'<｜DSML｜parameter name="{key}" string="true">{value}</｜DSML｜parameter>'
        if isinstance(value, str)
        else f'<|DSML|parameter name="{key}" string="false">{json.dumps(value)}</|DSML|parameter>'
        for key, value in arguments.items()
    )
    invoke = f'<｜DSML｜invoke name="{name}">{body}</｜DSML｜invoke>'
    return f"<｜DSML｜function_calls>\n{invoke}\n</｜DSML｜function_calls>"


WRITERS: dict[str, Callable[[str, dict[str, object]], str]] = {
    "hermes": lambda name, arguments: (
        f"<tool_call>{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}</tool_call>"
    ),
    "deepseek": _dsml,
    "V3": lambda name, arguments: (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
        f"{name}\n```json\n{json.dumps(arguments)}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "V3.1": lambda name, arguments: (
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>"
        f"{json.dumps(arguments, ensure_ascii=False)}<｜tool▁call▁end｜>"
    ),
    "json": lambda name, arguments: json.dumps({"name": name, "parameters": arguments}, indent=1),
}


@FUZZ
@given(arguments=ARGUMENTS, name=st.sampled_from(TOOLS), writer=st.sampled_from(list(WRITERS)))
def test_what_was_written_is_read(arguments: dict[str, object], name: str, writer: str) -> None:
    (piece,) = consume([WRITERS[writer](name, arguments)]).merged()
    assert not isinstance(piece, str)
    assert (piece["name"], piece["complete"]) == (name, True)
    assert read_object(piece["arguments"]) == arguments


HOSTILE = {
    "signs": "<",
    "bars": "<｜",
    "openers": "<tool_call>",
    "openers and quotes": '<tool_call>"',
    "openers and closers": "<tool_call></tool_call>",
    "empty blocks": "<tool_call>{}</tool_call>",
    "blocks": '<tool_call>{"name":"a","arguments":{"x":"\\"</tool_call>"}}</tool_call>',
    "unreadable blocks": "<tool_call>{'name': 'a', 'x': }</tool_call>",
    "brackets": "[",
    "objects": '{"x":',
    "names": '{"name"',
    "names with blanks": '"name"     ',
    "keys": '"x":1,',
    "quotes": '"',
    "backslashes": "\\",
    "backticks": "`",
    "spans": "`<tool_call>` ",
    "blanks": " ",
    "digits": "1",
    "half DSML": "<｜DSML｜invoke name=",
    "half DSML names": '<｜DSML｜invoke name="' + "a" * 100,
    "invokes": '<｜DSML｜invoke name="a">',
    "invokes without an end": '<｜DSML｜invoke name="a"><｜DSML｜parameter name="x">',
    "invokes with half parameters": '<｜DSML｜invoke name="a"><｜DSML｜parameter name="x"></｜DSML｜invoke>',
    "parameters": '<｜DSML｜parameter name="x">1</｜DSML｜parameter>',
    "calls of DSML": '<｜DSML｜invoke name="a">{"x": "</｜DSML｜invoke>',
    "token calls": "<｜tool▁call▁begin｜>a<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "token wrappers": "<｜tool▁calls▁begin｜>",
    "separators": "<｜tool▁sep｜>",
}
HEADS = {
    "in hermes": "<tool_call>",
    "in a string": '<tool_call>{"name": "a", "x": "',
    "in DSML": "<｜DSML｜function_calls>",
    "in a parameter": '<｜DSML｜invoke name="a"><｜DSML｜parameter name="x">',
    "in tokens": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>",
    "in a lone object": '{"name": "search", "arguments": {"x": [',
}
TAIL = "</tool_call></｜DSML｜invoke></｜DSML｜function_calls><｜tool▁calls▁end｜>"


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("feed", "length"), [(lambda text: [text], 1_000_000), (list, 20_000)], ids=["whole", "by character"]
)
def test_time_is_linear(hostile: str, feed: Callable[[str], Sequence[str]], length: int) -> None:
    _check_time(lambda size: feed(hostile * (size // len(hostile)) + TAIL), length)


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_time_in_a_block_is_linear(hostile: str, head: str) -> None:
    _check_time(lambda size: [head + hostile * (size // len(hostile)) + TAIL], 200_000)


def _check_time(chunks_of: Callable[[int], Sequence[str]], length: int) -> None:
    """Fail if four times the text takes more than five times as long."""

    def seconds(size: int) -> float:
        chunks = chunks_of(size)
        code = CodeTracker()
        scanner = DialectScanner(ALL, tool_names=TOOLS, in_code=code.in_code)
        start = time.thread_time()
        for chunk in chunks:
            for found in scanner.feed(chunk):
                code.feed(found.text)
        for found in scanner.close():
            code.feed(found.text)
        return time.thread_time() - start

    assert is_linear(seconds, length)
