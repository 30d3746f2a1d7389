"""When a reply that is one JSON object is a call, and how long it is held back."""

import pytest

from tests.nodes.call_llm.test_dialects import Piece, read
from turnflow.graph.profile import Dialect
from turnflow.nodes.call_llm.code_spans import CodeTracker
from turnflow.nodes.call_llm.dialects import DialectScanner

TOOLS = ["a", "ab", "天气", 'q"']
JSON: tuple[Dialect, ...] = ("json",)
CALL = '{"name": "a", "arguments": {"x": 1}}'

CALLS: dict[str, tuple[str, tuple[str, str]]] = {
    "plain": (CALL, ("a", '{"x": 1}')),
    "parameters": ('{"name": "a", "parameters": {"x": 1}}', ("a", '{"x": 1}')),
    "no white space": ('{"name":"ab","arguments":{}}', ("ab", "{}")),
    "much white space": (
        '\r\n\t { "name" : "a" ,\n"arguments" : { "x" : [ 1 , 2 ] } } \n',
        ("a", '{ "x" : [ 1 , 2 ] }'),
    ),
    "arguments first": ('{"arguments": {"x": 1}, "name": "a"}', ("a", '{"x": 1}')),
    "id and type": ('{"id": 1, "type": "function", "name": "a", "parameters": {}}', ("a", "{}")),
    "arguments in a string": (r'{"name": "a", "arguments": "{\"x\": 1}"}', ("a", '{"x": 1}')),
    "Chinese": ('{"name": "天气", "arguments": {"城市": "北京🙂"}}', ("天气", '{"城市": "北京🙂"}')),
    "escaped": (r'{"name": "\u5929\u6c14", "arguments": {}}', ("天气", "{}")),
    "an escaped quote": (r'{"name": "q\"", "arguments": {"x": "\\\""}}', ('q"', r'{"x": "\\\""}')),
    "all values": (
        '{"name": "a", "arguments": {"x": [-1.5e+3, true, false, null, "", {}, []]}}',
        ("a", '{"x": [-1.5e+3, true, false, null, "", {}, []]}'),
    ),
    "call markup in a string": (
        '{"name": "a", "arguments": {"x": "<tool_call>{}</tool_call>"}}',
        ("a", '{"x": "<tool_call>{}</tool_call>"}'),
    ),
    "fence": (f"```\n{CALL}\n```", ("a", '{"x": 1}')),
    "fence for JSON": (f"\n```json\n{CALL}\n```\n", ("a", '{"x": 1}')),
    "fence without line breaks": (f"```json {CALL} ```", ("a", '{"x": 1}')),
    "fence directly around": (f"```{CALL}```", ("a", '{"x": 1}')),
    "backticks in a string": ('{"name": "a", "arguments": {"x": "```"}}', ("a", '{"x": "```"}')),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "by character"])
@pytest.mark.parametrize("name", CALLS)
def test_lone_object_is_a_call(name: str, *, chunked: bool) -> None:
    reply, call = CALLS[name]
    expected: list[Piece] = [call]
    assert read(list(reply) if chunked else [reply], JSON, tool_names=TOOLS) == expected


# name: (reply, how much of it shows that it is no call)
TEXTS = {
    "prose": ("Hi", "H"),
    "prose after a blank": ("\n Hi", "\n H"),
    "prose before": (f"Sure: {CALL}", "S"),
    "prose after": (f"{CALL} ok", f"{CALL} o"),
    "a second object": (f"{CALL}\n{CALL}", CALL + "\n{"),
    "a list": (f"[{CALL}]", "["),
    "a name that is not registered": ('{"name": "b", "arguments": {}}', '{"name": "b'),
    "the beginning of a registered name": ('{"name": "天", "arguments": {}}', '{"name": "天"'),
    "a longer name": ('{"name": "abc", "arguments": {}}', '{"name": "abc'),
    "a name in another case": ('{"name": "A", "arguments": {}}', '{"name": "A'),
    "a long escaped name": (
        '{"name": "' + r"\u0061" * 40 + '", "arguments": {}}',
        '{"name": "' + (r"\u0061" * 40)[:101],
    ),
    "a broken escape": (r'{"name": "\x", "arguments": {}}', r'{"name": "\x"'),
    "another key": ('{"city": "a"}', '{"c'),
    "another key later": ('{"name": "a", "age": 5}', '{"name": "a", "ag'),
    "an escaped key": (r'{"n\u0061me": "a", "arguments": {}}', r'{"n\u0061me"'),
    "a key twice": ('{"name": "a", "name": "a", "arguments": {}}', '{"name": "a", "name"'),
    "arguments twice": (
        '{"name": "a", "arguments": {}, "parameters": {}}',
        '{"name": "a", "arguments": {}, "parameters"',
    ),
    "no name": ('{"arguments": {}}', '{"arguments": {}}'),
    "no arguments": ('{"name": "a"}', '{"name": "a"}'),
    "empty": ("{}", "{}"),
    "a name that is no text": ('{"name": 5, "arguments": {}}', '{"name": 5'),
    "arguments that are a list": ('{"name": "a", "arguments": []}', '{"name": "a", "arguments": ['),
    "arguments that are a number": ('{"name": "a", "arguments": 5}', '{"name": "a", "arguments": 5'),
    "arguments that are prose": ('{"name": "a", "arguments": "x"}', '{"name": "a", "arguments": "x"}'),
    "arguments that are an empty string": (
        '{"name": "a", "arguments": ""}',
        '{"name": "a", "arguments": ""}',
    ),
    "single quotes": ("{'name': 'a', 'arguments': {}}", "{'"),
    "a trailing comma": ('{"name": "a", "arguments": {},}', '{"name": "a", "arguments": {},}'),
    "a trailing comma in a list": (
        '{"name": "a", "arguments": {"x": [1,]}}',
        '{"name": "a", "arguments": {"x": [1,]',
    ),
    "the wrong bracket": ('{"name": "a", "arguments": {]}', '{"name": "a", "arguments": {]'),
    "no colon": ('{"name" "a", "arguments": {}}', '{"name" "'),
    "no comma": ('{"name": "a" "arguments": {}}', '{"name": "a" "'),
    "no JSON value": ('{"name": "a", "arguments": {"x": nope}}', '{"name": "a", "arguments": {"x": nope}'),
    "no JSON number": ('{"name": "a", "arguments": {"x": 01}}', '{"name": "a", "arguments": {"x": 01}'),
    "NaN": ('{"name": "a", "arguments": {"x": NaN}}', '{"name": "a", "arguments": {"x": NaN}'),
    "a key twice in the arguments": (
        '{"name": "a", "arguments": {"x": 1, "x": 2}}',
        '{"name": "a", "arguments": {"x": 1, "x": 2}}',
    ),
    "101 brackets": (
        '{"name": "a", "arguments": {"x": ' + "[" * 200 + "]" * 200 + "}}",
        '{"name": "a", "arguments": {"x": ' + "[" * 99,
    ),
    "another fence": (f"```python\n{CALL}\n```", "```p"),
    "a longer fence": (f"````\n{CALL}\n````", "````"),
    "a span": (f"`{CALL}`", "`{"),
    "half a fence and a blank": (f"`` {CALL}``", "`` "),
    "letters before": (f"json\n{CALL}", "j"),
    "half an info": (f"```js\n{CALL}\n```", "```js\n"),
    "info after a blank": (f"``` json\n{CALL}\n```", "``` j"),
    "a fence's end without its beginning": (f"{CALL}\n```", f"{CALL}\n`"),
    "a longer end": (f"```\n{CALL}\n````", f"```\n{CALL}\n````"),
    "an end in two": (f"```\n{CALL}\n`` `", f"```\n{CALL}\n`` "),
    "prose after the fence": (f"```\n{CALL}\n```\nok", f"```\n{CALL}\n```\no"),
    "prose in the fence": (f"```\n{CALL}\nok", f"```\n{CALL}\no"),
    "a comment": ('{ // x\n"name": "a"}', "{ /"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_given_as_soon_as_it_is_no_call(name: str) -> None:
    reply, decided = TEXTS[name]
    assert reply.startswith(decided)
    scanner = DialectScanner(JSON, tool_names=TOOLS, in_code=lambda: False)
    for char in decided[:-1]:
        assert list(scanner.feed(char)) == []
    assert [found.text for found in scanner.feed(decided[-1])] == [decided]
    rest = reply[len(decided) :]
    assert [found.text for found in scanner.feed(rest)] == ([rest] if rest else [])
    assert not scanner.in_block
    assert list(scanner.close()) == []
    assert read([reply], JSON, tool_names=TOOLS) == [reply]


BEGUN = [CALL[:-1], f"```\n{CALL}\n", f"```\n{CALL}\n``", '{"name": "a", "arguments":']


@pytest.mark.parametrize("cut_off", [False, True])
@pytest.mark.parametrize("reply", [" \n", "{", '{"name', "```json\n", '{"name": "a\\', '{"name": "a", "arg'])
def test_what_is_not_finished_is_text(reply: str, *, cut_off: bool) -> None:
    assert read([reply], JSON, tool_names=TOOLS, cut_off=cut_off) == [reply]
    assert read(list(reply), JSON, tool_names=TOOLS, cut_off=cut_off) == [reply]


@pytest.mark.parametrize("reply", BEGUN)
def test_arguments_that_a_limit_cut_off_are_an_incomplete_call(reply: str) -> None:
    for chunks in ([reply], list(reply)):
        (piece,) = read(chunks, JSON, tool_names=TOOLS, cut_off=True)
        assert isinstance(piece, tuple)
        name, _, *complete = piece
        assert (name, complete) == ("a", [False])
        assert read(chunks, JSON, tool_names=TOOLS) == [reply]
        assert read(chunks, JSON, tool_names=["other"], cut_off=True) == [reply]


@pytest.mark.parametrize(
    ("text", "in_block"),
    [
        (" ", False),
        ("{", True),
        ('{"name": "a', True),
        (CALL, False),
        ("`", True),
        ("```json\n", True),
        (f"```\n{CALL}\n```", True),
        (f"```\n{CALL}\n```\n", False),
        ("Hi", False),
    ],
)
def test_whether_a_think_tag_would_be_text(text: str, *, in_block: bool) -> None:
    scanner = DialectScanner(JSON, tool_names=TOOLS, in_code=lambda: False)
    assert [found.kind for found in scanner.feed(text)] == (["text"] if text == "Hi" else [])
    assert scanner.in_block is in_block


def test_no_tools_no_calls() -> None:
    scanner = DialectScanner(JSON, in_code=lambda: False)
    assert [found.text for found in scanner.feed(CALL)] == [CALL]


def test_text_that_goes_on_inside_code_is_no_call() -> None:
    code = CodeTracker("```\n")
    scanner = DialectScanner(JSON, tool_names=TOOLS, in_code=code.in_code)
    assert list(scanner.feed(CALL)) == []
    assert [(found.kind, found.text) for found in scanner.close()] == [("text", CALL)]


def test_other_dialects_are_read_in_what_turns_out_to_be_no_call() -> None:
    markup = '<tool_call>{"name": "b"}</tool_call>'
    for before in ("\n", "{}", '{"name": ', f"{CALL}\n"):
        expected = [before, ("b", "{}")]
        assert read([before + markup], ("hermes", "json"), tool_names=TOOLS) == expected
        assert read(list(before + markup), ("json", "hermes"), tool_names=TOOLS) == expected
    quoted = '{"name": "z", "arguments": {"x": "' + markup
    assert read([quoted], ("hermes", "json"), tool_names=TOOLS) == [
        '{"name": "z", "arguments": {"x": "',
        ("b", "{}"),
    ]
