"""Which tool calls written as text are found in a reply, and what stays text: every rule, by example."""

from collections.abc import Sequence

import pytest

from turnflow.graph.profile import Dialect
from turnflow.graph.strict_json import read_object
from turnflow.nodes.call_llm.code_spans import CodeTracker
from turnflow.nodes.call_llm.dialects import DialectScanner, Found

EXPLICIT: tuple[Dialect, ...] = ("hermes", "deepseek", "deepseek_tokens")

Piece = str | tuple[str, str] | tuple[str, str, bool]
"""Text, or a call's name and arguments, and False if it was cut off."""


def read(
    chunks: Sequence[str],
    dialects: Sequence[Dialect] = EXPLICIT,
    *,
    tool_names: Sequence[str] = (),
    cut_off: bool = False,
) -> list[Piece]:
    code = CodeTracker()
    scanner = DialectScanner(dialects, tool_names=tool_names, in_code=code.in_code)
    pieces: list[Piece] = []

    def take(found: Found) -> None:
        if found.call is not None:
            assert (found.kind, found.text) == ("call", "")
            name, arguments, complete = found.call.values()
            pieces.append((str(name), str(arguments)) if complete else (str(name), str(arguments), False))
            return
        assert found.kind == "text"
        assert found.text
        code.feed(found.text)
        if pieces and isinstance(pieces[-1], str):
            pieces[-1] += found.text
        else:
            pieces.append(found.text)

    for chunk in chunks:
        for found in scanner.feed(chunk):
            take(found)
    for found in scanner.close(cut_off=cut_off):
        take(found)
    return pieces


def hermes(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


def dsml(*invokes: str, name: str = "function_calls") -> str:
    return f"<｜DSML｜{name}>\n" + "\n".join(invokes) + f"\n</｜DSML｜{name}>"


def invoke(name: str, *content: str) -> str:
    return f'<｜DSML｜invoke name="{name}">\n' + "\n".join(content) + "\n</｜DSML｜invoke>"


def parameter(name: str, value: str, kind: str = ' string="true"') -> str:
    return f'<｜DSML｜parameter name="{name}"{kind}>{value}</｜DSML｜parameter>'


def tokens(*calls: str) -> str:
    return "<｜tool▁calls▁begin｜>" + "\n".join(calls) + "<｜tool▁calls▁end｜>"


def v3(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def v31(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


def ascii_bars(text: str) -> str:
    return text.replace("｜", "|").replace("▁", "_")


# name: (reply, what it is)
CASES: dict[str, tuple[str, list[Piece]]] = {
    # Hermes.
    "empty": ("", []),
    "text": ("Hello <b>you</b>\n", ["Hello <b>you</b>\n"]),
    "hermes": (hermes('{"name": "a", "arguments": {"x": 1}}'), [("a", '{"x": 1}')]),
    "white space around": (hermes('\n{"name": "a", "arguments": {}}\n'), [("a", "{}")]),
    "parameters": (hermes('{"name": "a", "parameters": {"x": 1}}'), [("a", '{"x": 1}')]),
    "arguments first": (hermes('{"arguments": {"x": 1}, "name": "a"}'), [("a", '{"x": 1}')]),
    "no arguments": (hermes('{"name": "a"}'), [("a", "{}")]),
    "null arguments": (hermes('{"name": "a", "arguments": null}'), [("a", "{}")]),
    "arguments in a string": (hermes(r'{"name": "a", "arguments": "{\"x\": \"y\"}"}'), [("a", '{"x": "y"}')]),
    "an empty string of arguments": (hermes('{"name": "a", "arguments": ""}'), [("a", "{}")]),
    "other keys": (hermes('{"id": 7, "name": "a", "arguments": {}, "type": "function"}'), [("a", "{}")]),
    "arguments as they are written": (
        hermes('{"name": "a", "arguments": { "x" : 1.50, "y": 123456789012345678901234567890 }}'),
        [("a", '{ "x" : 1.50, "y": 123456789012345678901234567890 }')],
    ),
    "Chinese and emoji": (
        hermes('{"name": "天气", "arguments": {"城市": "北京🙂"}}'),
        [("天气", '{"城市": "北京🙂"}')],
    ),
    "escaped quotes": (
        hermes(r'{"name": "a", "arguments": {"x": "\"</tool_call>\\"}}'),
        [("a", r'{"x": "\"</tool_call>\\"}')],
    ),
    "a line break in a string": (
        hermes('{"name": "a", "arguments": {"x": "1\n2"}}'),
        [("a", '{"x": "1\n2"}')],
    ),
    "text around": ("1 " + hermes('{"name": "a"}') + " 2", ["1 ", ("a", "{}"), " 2"]),
    "several blocks": (
        hermes('{"name": "a"}') + "\n" + hermes('{"name": "b"}'),
        [("a", "{}"), "\n", ("b", "{}")],
    ),
    "several objects": (
        hermes('{"name": "a"}\n{"name": "b"}{"name": "a"}'),
        [("a", "{}"), ("b", "{}"), ("a", "{}")],
    ),
    "a list": (hermes(' [{"name": "a"}, {"name": "b"}] '), [("a", "{}"), ("b", "{}")]),
    "a fence in the block": (
        hermes('\n```json\n{"name": "a", "arguments": {"x": 1}}\n```\n'),
        [("a", '{"x": 1}')],
    ),
    "single quotes are mended": (hermes("{'name': 'a', 'arguments': {'x': 1}}"), [("a", '{"x": 1}')]),
    "a trailing comma is mended": (hermes('{"name": "a", "arguments": {"x": 1,},}'), [("a", '{"x": 1}')]),
    "closer in a string": (
        hermes('{"name": "a", "arguments": {"x": "</tool_call>"}}') + "1",
        [("a", '{"x": "</tool_call>"}'), "1"],
    ),
    "a whole block in a string": (
        hermes('{"name": "a", "arguments": {"x": "<tool_call>{}</tool_call>"}}'),
        [("a", '{"x": "<tool_call>{}</tool_call>"}')],
    ),
    "a name with white space around": (hermes('{"name": " a "}'), [("a", "{}")]),
    # Hermes that cannot be read.
    "broken JSON with a name": (
        hermes('{"name": "a", "arguments": {"x": }}'),
        [("a", '{"name": "a", "arguments": {"x": }}')],
    ),
    "broken JSON without a name": (hermes("{broken}"), [hermes("{broken}")]),
    "prose": (hermes("JSON here"), [hermes("JSON here")]),
    "empty block": (hermes(""), [hermes("")]),
    "blank block": (hermes("\n"), [hermes("\n")]),
    "empty object": (hermes("{}"), [hermes("{}")]),
    "empty list": (hermes("[]"), [hermes("[]")]),
    "a number": (hermes("5"), [hermes("5")]),
    "the name is no text": (hermes('{"name": 5}'), [hermes('{"name": 5}')]),
    "the name is blank": (hermes('{"name": "", "arguments": {}}'), [hermes('{"name": "", "arguments": {}}')]),
    "half a surrogate pair as name": (hermes(r'{"name": "\ud83d"}'), [hermes(r'{"name": "\ud83d"}')]),
    "arguments that are a number": (hermes('{"name": "a", "arguments": 5}'), [("a", "5")]),
    "arguments that are a list": (hermes('{"name": "a", "arguments": [1]}'), [("a", "[1]")]),
    "arguments that are prose": (hermes('{"name": "a", "arguments": "now"}'), [("a", "now")]),
    "text after the object": (hermes('{"name": "a"} ok'), [("a", '{"name": "a"} ok')]),
    "one of a list is no call": (hermes('[{"name": "a"}, 5]'), [("a", '[{"name": "a"}, 5]')]),
    "an unclosed list": (hermes('[{"name": "a"}'), [("a", '[{"name": "a"}')]),
    "a list without a comma": (
        hermes('[{"name": "a"} {"name": "b"}]'),
        [("a", '[{"name": "a"} {"name": "b"}]')],
    ),
    "two names": (hermes('{"name": "a", "name": "b"}'), [("a", '{"name": "a", "name": "b"}')]),
    "arguments twice": (
        hermes('{"name": "a", "arguments": {}, "parameters": {}}'),
        [("a", '<tool_call>{"name": "a", "arguments": {}, "parameters": {}}')],
    ),
    "a name further inside": (
        hermes('{"function": {"name": "a", "arguments": {}}}'),
        [("a", '<tool_call>{"function": {"name": "a", "arguments": {}}}')],
    ),
    # Hermes: openers and closers.
    "other cases are text": ("<Tool_Call>{}</Tool_Call>", ["<Tool_Call>{}</Tool_Call>"]),
    "blanks in the tag are text": ("<tool_call >{}</tool_call>", ["<tool_call >{}</tool_call>"]),
    "a closer alone": ("a</tool_call>b", ["a</tool_call>b"]),
    "half an opener": ("a<tool_ca", ["a<tool_ca"]),
    "an opener at the end": ("a<tool_call>", ["a<tool_call>"]),
    "unterminated": ('a <tool_call>{"name": "a"} b', ['a <tool_call>{"name": "a"} b']),
    "an opener in a block": (
        '<tool_call> is the tag: <tool_call>{"name": "a"}</tool_call>',
        ["<tool_call> is the tag: ", ("a", "{}")],
    ),
    "a stray quote before another block": (
        '<tool_call> is 5" long: <tool_call>{"name": "a"}</tool_call>b',
        ['<tool_call> is 5" long: ', ("a", "{}"), "b"],
    ),
    "a string without an end": (
        '<tool_call>{"name": "a", "arguments": {"x": "}}</tool_call> b',
        [("a", '{"name": "a", "arguments": {"x": "}}'), " b"],
    ),
    "a quote and no closer": ('<tool_call>{"name": "a', ['<tool_call>{"name": "a']),
    "many `<`": ("<<" + hermes('{"name": "a"}') + "<", ["<<", ("a", "{}"), "<"]),
    # Code.
    "span": ('`<tool_call>{"name": "a"}</tool_call>` b', ['`<tool_call>{"name": "a"}</tool_call>` b']),
    "opener in a span, then a call": (
        'The `<tool_call>` tag: <tool_call>{"name": "a"}</tool_call>',
        ["The `<tool_call>` tag: ", ("a", "{}")],
    ),
    "fence": (
        '```\n<tool_call>{"name": "a"}</tool_call>\n```\n<tool_call>{"name": "b"}</tool_call>',
        ['```\n<tool_call>{"name": "a"}</tool_call>\n```\n', ("b", "{}")],
    ),
    "fence of tildes": (
        '~~~xml\n<tool_call>{"name": "a"}</tool_call>\n~~~',
        ['~~~xml\n<tool_call>{"name": "a"}</tool_call>\n~~~'],
    ),
    "an opener in a span in a block": (
        '<tool_call>, that is `<tool_call>{"name": "a"}</tool_call>`.',
        ['<tool_call>, that is `<tool_call>{"name": "a"}</tool_call>`.'],
    ),
    "an opener in a fence in a block": (
        '<tool_call> "so:\n```\n<tool_call>{"name": "a"}</tool_call>\n```',
        ['<tool_call> "so:\n```\n<tool_call>{"name": "a"}</tool_call>\n```'],
    ),
    "backticks in a call are none of the text's": (
        hermes('{"name": "a", "arguments": {"x": "`"}}') + hermes('{"name": "b"}'),
        [("a", '{"x": "`"}'), ("b", "{}")],
    ),
    "an unclosed span ends with its line": (
        'a ` b\n<tool_call>{"name": "a"}</tool_call>',
        ["a ` b\n", ("a", "{}")],
    ),
    "DSML in a span": (
        '`<｜DSML｜invoke name="a">{}</｜DSML｜invoke>`',
        ['`<｜DSML｜invoke name="a">{}</｜DSML｜invoke>`'],
    ),
    "DSML in a fence": ("```\n" + dsml(invoke("a")) + "\n```", ["```\n" + dsml(invoke("a")) + "\n```"]),
    "tokens in a span": (f"`{v31('a', '{}')}`", [f"`{v31('a', '{}')}`"]),
    "tokens in a fence": (
        f"~~~\n{v31('a', '{}')}\n~~~\n" + v31("b", "{}"),
        [f"~~~\n{v31('a', '{}')}\n~~~\n", ("b", "{}")],
    ),
    # DeepSeek's invokes.
    "DSML": (dsml(invoke("a", parameter("city", "Beijing"))), [("a", '{"city": "Beijing"}')]),
    "DSML as tool_calls": (
        dsml(invoke("a", parameter("x", "1", "")), name="tool_calls"),
        [("a", '{"x": 1}')],
    ),
    "DSML with ASCII bars": (ascii_bars(dsml(invoke("a", parameter("x", "y")))), [("a", '{"x": "y"}')]),
    "DSML, typed": (
        dsml(
            invoke("a", *(parameter(*pair, ' string="false"') for pair in (("x", "[1, 2]"), ("y", " true "))))
        ),
        [("a", '{"x": [1, 2], "y": true}')],
    ),
    "DSML, text that looks like a number": (dsml(invoke("a", parameter("x", "5"))), [("a", '{"x": "5"}')]),
    "DSML, no JSON where JSON should be": (
        dsml(invoke("a", parameter("x", "New York", ""))),
        [("a", '{"x": "New York"}')],
    ),
    "DSML, text as it is": (
        dsml(invoke("a", parameter("x", ' "北京"\n🙂\\ '))),
        [("a", '{"x": " \\"北京\\"\\n🙂\\\\ "}')],
    ),
    "DSML, an empty value": (dsml(invoke("a", parameter("x", ""))), [("a", '{"x": ""}')]),
    "DSML, no parameters": (dsml(invoke("a")), [("a", "{}")]),
    "DSML, a JSON body": (
        dsml(invoke("a", '{"x": "</｜DSML｜invoke>"}')),
        [("a", '{"x": "</｜DSML｜invoke>"}')],
    ),
    "DSML, several": (
        dsml(invoke("a"), invoke("b", parameter("x", "y"))),
        [("a", "{}"), ("b", '{"x": "y"}')],
    ),
    "DSML, no wrapper": (f"1 {invoke('a', parameter('x', 'y'))} 2", ["1 ", ("a", '{"x": "y"}'), " 2"]),
    "DSML, two without a wrapper": (invoke("a") + "\n" + invoke("b"), [("a", "{}"), "\n", ("b", "{}")]),
    "DSML, markup in a parameter": (
        dsml(
            invoke(
                "a", parameter("x", '<｜DSML｜invoke name="b">5</｜DSML｜invoke></｜DSML｜function_calls>')
            )
        )
        + "2",
        [
            (
                "a",
                r'{"x": "<｜DSML｜invoke name=\"b\">5</｜DSML｜invoke></｜DSML｜function_calls>"}',
            ),
            "2",
        ],
    ),
    "DSML, an odd quote in a parameter": (
        dsml(invoke("a", parameter("x", '5"'))) + "2",
        [("a", '{"x": "5\\""}'), "2"],
    ),
    "DSML, a parameter twice": (
        invoke("a", parameter("x", "1"), parameter("x", "2")),
        [("a", f"\n{parameter('x', '1')}\n{parameter('x', '2')}\n")],
    ),
    "DSML, prose as a body": (dsml(invoke("a", "please")), [("a", "please")]),
    "DSML, text between parameters": (
        invoke("a", parameter("x", "1"), "and", parameter("y", "2")),
        [("a", f"\n{parameter('x', '1')}\nand\n{parameter('y', '2')}\n")],
    ),
    "DSML, a parameter without an end": (
        '<｜DSML｜invoke name="a"><｜DSML｜parameter name="x">1</｜DSML｜invoke>2',
        [("a", '<｜DSML｜parameter name="x">1'), "2"],
    ),
    "DSML, a wrapper around nothing": (dsml(), [dsml()]),
    "DSML, a wrapper around prose": (dsml("nothing"), [dsml("nothing")]),
    "DSML, prose before an invoke": (dsml('Let"s go', invoke("a")) + "2", [("a", "{}"), "2"]),
    "DSML, unterminated": (
        "<｜DSML｜function_calls>" + invoke("a"),
        ["<｜DSML｜function_calls>" + invoke("a")],
    ),
    "DSML, unterminated invoke": ('1<｜DSML｜invoke name="a">', ['1<｜DSML｜invoke name="a">']),
    "DSML, a wrapper in a wrapper": (
        "<｜DSML｜function_calls>1" + dsml(invoke("a")),
        ["<｜DSML｜function_calls>1", ("a", "{}")],
    ),
    "DSML, an invoke without a name": (
        "<｜DSML｜invoke>{}</｜DSML｜invoke>",
        ["<｜DSML｜invoke>{}</｜DSML｜invoke>"],
    ),
    "DSML, other markup is text": ("<DSML><invoke>", ["<DSML><invoke>"]),
    "DSML, a name over the limit": (invoke("a" * 129), [invoke("a" * 129)]),
    "DSML, a name at the limit": (invoke("a" * 128), [("a" * 128, "{}")]),
    # DeepSeek's tokens.
    "V3": (tokens(v3("a", '{"x": 1}')), [("a", '{"x": 1}')]),
    "V3.1": (tokens(v31("a", '{"x": 1}')), [("a", '{"x": 1}')]),
    "tokens in ASCII": (ascii_bars(tokens(v3("a", '{"x": 1}'))), [("a", '{"x": 1}')]),
    "tokens with spaces": (tokens(v31("a", "{}")).replace("▁", " "), [("a", "{}")]),
    "V3, several": (tokens(v3("a", "{}"), v3("b", '{"x": "北京"}')), [("a", "{}"), ("b", '{"x": "北京"}')]),
    "V3.1, several": (tokens(v31("a", "{}"), v31("b", "{}")) + "1", [("a", "{}"), ("b", "{}"), "1"]),
    "V3.1, no arguments": (tokens(v31("a", "")), [("a", "{}")]),
    "V3, nothing after the name": (
        tokens("<｜tool▁call▁begin｜>function<｜tool▁sep｜>a<｜tool▁call▁end｜>"),
        [("a", "{}")],
    ),
    "V3, a plain fence": (tokens(v3("a", "{}").replace("json", "")), [("a", "{}")]),
    "a tool named function": (tokens(v31("function", '{"x": 1}')), [("function", '{"x": 1}')]),
    "tokens, no wrapper": ("1" + v31("a", "{}") + "2", ["1", ("a", "{}"), "2"]),
    "tokens, closers in a string": (
        tokens(v31("a", '{"x": "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}')) + "2",
        [("a", '{"x": "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}'), "2"],
    ),
    "tokens, broken arguments": (tokens(v31("a", '{"x": }')), [("a", '{"x": }')]),
    "tokens, no separator": (
        tokens("<｜tool▁call▁begin｜>a<｜tool▁call▁end｜>"),
        [tokens("<｜tool▁call▁begin｜>a<｜tool▁call▁end｜>")],
    ),
    "tokens, no name": (tokens(v31("", "{}")), [tokens(v31("", "{}"))]),
    "tokens, one of two without a name": (
        tokens(v31("a", "{}"), v31("", "{}x")),
        [("a", "{}"), ("", "<｜tool▁sep｜>{}x")],
    ),
    "tokens, a wrapper around nothing": (tokens(), [tokens()]),
    "tokens, unterminated": (
        "<｜tool▁calls▁begin｜>" + v31("a", "{}"),
        ["<｜tool▁calls▁begin｜>" + v31("a", "{}")],
    ),
    # Several dialects.
    "one dialect's opener in another's block": (
        "<tool_call>" + dsml(invoke("a")) + "</tool_call>",
        ["<tool_call>", ("a", "{}"), "</tool_call>"],
    ),
    "one dialect's block in another's argument": (
        dsml(invoke("a", parameter("x", hermes("{}")))),
        [("a", '{"x": "<tool_call>{}</tool_call>"}')],
    ),
    "all dialects": (
        hermes('{"name": "a"}') + dsml(invoke("b")) + tokens(v31("c", "{}")),
        [("a", "{}"), ("b", "{}"), ("c", "{}")],
    ),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "by character"])
@pytest.mark.parametrize("name", CASES)
def test_reply(name: str, *, chunked: bool) -> None:
    reply, pieces = CASES[name]
    assert read(list(reply) if chunked else [reply]) == pieces


UNREADABLE = [
    hermes('{"name": "a", "arguments": {}, "parameters": {}}'),
    hermes('{"function": {"name": "a", "arguments": {}}}'),
    hermes('{"name": "a", "arguments": {}} ok'),
    hermes("{'name': 'a', \"name\": \"a\"}"),
    hermes('{"x": {"name": "a"}, "pad": "' + "1" * 20_000 + '",}'),
    hermes('{"name": "a", "arguments": ' + "[" * 100_000),
    hermes('{"name": "a", "arguments": {"x": ' + "[" * 500 + "]" * 500 + "}}"),
    dsml(invoke("a", parameter("x", "1"), parameter("x", "2"))),
    dsml(invoke("a", parameter("x", "[" * 100_000, ""))),
    tokens(v31("a", '{"x": ' + "[" * 100_000)),
    tokens(v31("a", "{} {}")),
]


@pytest.mark.parametrize("reply", UNREADABLE, ids=[reply[:60] for reply in UNREADABLE])
def test_what_cannot_be_read_is_a_call_that_cannot_be_run(reply: str) -> None:
    (piece,) = read([reply])
    assert isinstance(piece, tuple)
    assert piece[0] == "a"
    with pytest.raises((ValueError, RecursionError)):
        read_object(piece[1])


def test_what_was_not_mended_for_time_cannot_be_run_either() -> None:
    # A reader that mends would take the body itself for the arguments.
    blocks = [hermes('{"name": "a", "arguments": {\'x\': 1}}')] * 1000
    first, *_, last = read(["".join(blocks)])
    assert first == ("a", '{"x": 1}')
    assert isinstance(last, tuple)
    assert last[0] == "a"
    with pytest.raises(ValueError):
        read_object(last[1])


@pytest.mark.parametrize(
    "reply", [hermes("[" * 100_000), hermes('{"x":' * 50_000), hermes('{"name": ' + "[" * 100_000 + "}")]
)
def test_deep_nesting_without_a_name_is_text(reply: str) -> None:
    assert read([reply]) == [reply]


MARKUP: dict[Dialect, str] = {
    "hermes": hermes('{"name": "a", "arguments": {"x": 1}}'),
    "deepseek": dsml(invoke("a", parameter("x", "1", ""))),
    "deepseek_tokens": tokens(v31("a", '{"x": 1}')),
    "json": '{"name": "a", "arguments": {"x": 1}}',
}


@pytest.mark.parametrize("dialect", MARKUP)
@pytest.mark.parametrize("written", MARKUP)
def test_only_dialects_that_are_switched_on_are_read(dialect: Dialect, written: Dialect) -> None:
    pieces = read([MARKUP[written]], [dialect], tool_names=["a"])
    (piece,) = pieces
    if dialect == written:
        assert isinstance(piece, tuple)
        assert (piece[0], read_object(piece[1])) == ("a", {"x": 1})
    else:
        assert piece == MARKUP[written]


@pytest.mark.parametrize("reply", [*MARKUP.values(), "<", "<tool_ca"])
def test_without_dialects_all_is_text_at_once(reply: str) -> None:
    scanner = DialectScanner([], tool_names=["a"], in_code=lambda: False)
    assert [found.text for found in scanner.feed(reply)] == [reply]
    assert list(scanner.close()) == []


CUT_OFF: dict[str, tuple[str, list[Piece]]] = {
    "no block": ("a", ["a"]),
    "half an opener": ("a<tool_ca", ["a", ("", "", False)]),
    "what may be another tag": ("a<to", ["a<to"]),
    "an opener": ("a<tool_call>", ["a", ("", "", False)]),
    "half a name": ('<tool_call>{"name": "a', [("", '{"name": "a', False)]),
    "a name": ('<tool_call>{"name": "a", "arg', [("a", '{"name": "a", "arg', False)]),
    "half a closer": ('<tool_call>{"name": "a"}</tool', [("a", '{"name": "a"}</tool', False)]),
    "a whole block before": (
        hermes('{"name": "a"}') + '<tool_call>{"name": "b"',
        [("a", "{}"), ("b", '{"name": "b"', False)],
    ),
    "a closer in a string": (
        '<tool_call>{"name": "a", "arguments": {"x": "<tool_call>{\'name\': \'b\'}</tool_call>',
        [("a", '{"name": "a", "arguments": {"x": "<tool_call>{\'name\': \'b\'}</tool_call>', False)],
    ),
    "an escape": ('<tool_call>{"name": "a", "x": "\\', [("a", '{"name": "a", "x": "\\', False)]),
    "in code": ("`<tool_call>{", ["`<tool_call>{"]),
    "an invoke": ('<｜DSML｜invoke name="a"><｜DSML｜par', [("a", "<｜DSML｜par", False)]),
    "a DSML wrapper": ("<｜DSML｜function_calls>\n<｜DS", [("", "\n<｜DS", False)]),
    "an invoke in a wrapper": (
        '<｜DSML｜function_calls><｜DSML｜invoke name="a">{',
        [("a", '<｜DSML｜invoke name="a">{', False)],
    ),
    "V3.1": ("<｜tool▁call▁begin｜>a<｜tool▁sep｜>{", [("a", "a<｜tool▁sep｜>{", False)]),
    "V3.1, half a name": ("<｜tool▁call▁begin｜>a", [("", "a", False)]),
    "V3, half a name": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>a",
        [("", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a", False)],
    ),
    "V3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n",
        [("a", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n", False)],
    ),
    "tokens wrapper": ("<｜tool▁calls▁begin｜>", [("", "", False)]),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "by character"])
@pytest.mark.parametrize("name", CUT_OFF)
def test_reply_that_was_cut_off(name: str, *, chunked: bool) -> None:
    reply, pieces = CUT_OFF[name]
    assert read(list(reply) if chunked else [reply], cut_off=True) == pieces


def scanner_that_read(text: str, dialects: Sequence[Dialect] = EXPLICIT) -> tuple[DialectScanner, str]:
    scanner = DialectScanner(dialects, tool_names=["a"], in_code=lambda: False)
    return scanner, "".join(found.text for found in scanner.feed(text))


@pytest.mark.parametrize(
    ("text", "shown", "in_block"),
    [
        ("a < b", "a < b", False),
        ("a <", "a ", False),
        ("a <tool", "a ", False),
        ("a <tools", "a <tools", False),
        ("a <tool_call>", "a ", True),
        ("a <tool_call>b", "a ", True),
        ("a <tool_call>b</tool_call>", "a <tool_call>b</tool_call>", False),
        ('a <tool_call>"</tool_call>', "a ", True),
        ("a <|DSML|invoke nam", "a ", False),
        ('a <|DSML|invoke name="' + "x" * 128, "a ", False),
        ('a <|DSML|invoke name="' + "x" * 129, 'a <|DSML|invoke name="' + "x" * 129, False),
        ('a <|DSML|invoke name="x">', "a ", True),
        ("a <|tool_calls_begin|>", "a ", True),
    ],
)
def test_no_more_is_held_back_than_need_be(text: str, shown: str, *, in_block: bool) -> None:
    scanner, given = scanner_that_read(text)
    assert (given, scanner.in_block) == (shown, in_block)


def test_text_is_forgotten_that_was_a_thought() -> None:
    for text, held in [("a <tool_", "<tool_"), ("a <tool_call>b</too", "<tool_call>b</too"), ("a", "")]:
        scanner, _ = scanner_that_read(text)
        assert scanner.start_over() == held
        assert not scanner.in_block
        assert [found.text for found in scanner.feed("l_call>")] == ["l_call>"]
    scanner, _ = scanner_that_read('{"name": ', ["json"])
    assert scanner.start_over() == '{"name": '
    assert list(scanner.feed(MARKUP["json"])) == []
    assert [found.kind for found in scanner.close()] == ["call"]
