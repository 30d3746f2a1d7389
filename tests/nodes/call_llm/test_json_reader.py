"""What a JSON decision tells while it arrives, by example."""

import json
from collections.abc import Callable
from itertools import groupby

import pytest

from tests.graph.broken_json import BROKEN, Expectation
from turnflow.nodes.call_llm.json_reader import JsonReader

HEAD = '{"thought": "t", "action": "reply", "action_input": "'
CALL = '{"thought": "t", "action": "call_tool", "action_input": '

Told = list[tuple[str, str]]


def thinking(text: str) -> tuple[str, str]:
    return "thinking", text


def content(text: str) -> tuple[str, str]:
    return "content", text


T = thinking("t")

# name: (what has come, what has been told by then, what more is told at the close)
CASES: dict[str, tuple[str, Told, Told]] = {
    # The thought.
    "nothing": ("", [], []),
    "thought": ('{"thought": "I am', [thinking("I am")], []),
    "thought, fenced": ('```json\n{\n  "thought" : "I am', [thinking("I am")], []),
    "thought behind prose": ('So: {"thought": "I am', [thinking("I am")], []),
    "thought behind prose with braces": ('f(x) = {x} {{"thought": "I am', [thinking("I am")], []),
    "thought of a call": (CALL, [T], []),
    "thought of a question": ('{"thought": "t", "action": "clarify", "action_input": "a?"}', [T], []),
    "thought behind the action": ('{"action": "reply", "thought": "t', [T], []),
    "thought behind other keys": ('{"a": [{"thought": "b"}], "thought": "t', [T], []),
    "thought behind the text": ('{"action_input": "hi", "thought": "t', [T], []),
    "thought inside another key": ('{"a": {"thought": "b"', [], []),
    "thought that is no string": ('{"thought": null, "thought": "t"', [], []),
    "empty thought": ('{"thought": "", "action": "reply", "action_input": "hi', [content("hi")], []),
    "second thought": ('{"thought": "t", "thought": "u"', [T], []),
    "thought in single quotes": ("{'thought': 'I am", [], [thinking("I am")]),
    "thought with inner quotes": (
        '{"thought": "an "x" here", "action": "reply", "action_input": "hi"}',
        [thinking("an ")],
        [thinking('"x" here'), content("hi")],
    ),
    "thought of a violation": ('{"thought": "t", "action": "dance", "action_input": "hi"}', [T], []),
    # The text.
    "text": (HEAD + "hi th", [T, content("hi th")], []),
    "text that has ended": (HEAD + 'hi"', [T, content("hi")], []),
    "text of a whole object": (HEAD + 'hi"}', [T, content("hi")], []),
    "text and prose after it": (HEAD + 'hi"} {"action_input": "no"}', [T, content("hi")], []),
    "text with line breaks as they are": (HEAD + "a\n\tb\x01", [T, content("a\n\tb\x01")], []),
    "text with escapes": (HEAD + 'a\\n\\"b\\/\\u00e9', [T, content('a\n"b/é')], []),
    "text with brackets": (HEAD + 'a {\\"b\\": [', [T, content('a {"b": [')], []),
    "half an escape": (HEAD + "a\\", [T, content("a")], []),
    "half a code point": (HEAD + "a\\u00e", [T, content("a")], []),
    "half a pair": (HEAD + "a\\ud83d", [T, content("a")], []),
    "half a pair and half an escape": (HEAD + "a\\ud83d\\ude0", [T, content("a")], []),
    "a pair": (HEAD + "a\\ud83d\\ude00", [T, content("a😀")], []),
    "a first half and text": (HEAD + "a\\ud83d b", [T, content("a\ufffd b")], []),
    "a first half and another": (HEAD + "a\\ud83d\\ud83d", [T, content("a\ufffd")], []),
    "a first half at the end": (HEAD + 'a\\ud83d"', [T, content("a\ufffd")], []),
    "a second half": (HEAD + "a\\ude00", [T, content("a\ufffd")], []),
    "blank text": (HEAD + ' \\n"}', [T, content(" \n")], []),
    "any case of the action": (
        '{"thought": "t", "action": " Reply ", "action_input": "hi',
        [T, content("hi")],
        [],
    ),
    "other keys in between": (
        '{"thought": "t", "n": -1.5e3, "ok": true, "l": [{"a": "]"}], "action": "reply", "action_input": "hi',
        [T, content("hi")],
        [],
    ),
    "action before the thought": (
        '{"action": "reply", "thought": "t", "action_input": "hi',
        [T, content("hi")],
        [],
    ),
    "second text": (HEAD + 'hi", "action_input": "ho"}', [T, content("hi")], []),
    # Held to the close.
    "text before the action": (
        '{"thought": "t", "action_input": "hi", "action": "reply"}',
        [T],
        [content("hi")],
    ),
    "text before the thought": (
        '{"action": "reply", "action_input": "hi", "thought": "t"}',
        [T],
        [content("hi")],
    ),
    "text without a thought": ('{"action": "reply", "action_input": "hi"}', [], []),
    "text behind a null thought": ('{"thought": null, "action": "reply", "action_input": "hi"}', [], []),
    "text behind the first of two actions": (
        '{"thought": "t", "action": "clarify", "action": "reply", "action_input": "hi"}',
        [T],
        [],
    ),
    "text behind a broken value": (
        '{"thought": "t", "a": [1,], "action": "reply", "action_input": "hi"}',
        [T],
        [content("hi")],
    ),
    "text behind a comment": (
        '{"thought": "t", // so\n"action": "reply", "action_input": "hi"}',
        [T],
        [content("hi")],
    ),
    "text in single quotes": (
        '{"thought": "t", "action": "reply", \'action_input\': \'hi\'}',
        [T],
        [content("hi")],
    ),
    "text behind an object that is none": ('{"a": 1} ' + HEAD + 'hi"}', [], [T, content("hi")]),
    "text with inner quotes": (HEAD + 'a "b" c"}', [T, content("a ")], [content('"b" c')]),
    "text with an escape that JSON has not": (HEAD + 'a \\d b"}', [T, content("a ")], [content("\\d b")]),
    "text and junk": (HEAD + 'hi", what?', [T, content("hi")], []),
    "text in a list": ('{"thought": "t", "action": "reply", "action_input": ["hi"]}', [T], []),
    "brace, blanks, no key": ("{ \n x", [], []),
}

# name: (the rest of a text that was cut off, what has been told by then, what more is told at the close)
GOES_ON: dict[str, tuple[str, Told, Told]] = {
    "nothing": ("", [], []),
    "rest": (' world"}', [content(" world")], []),
    "rest without an end": ("world", [content("world")], []),
    "rest with escapes": ('a\\n\\u00e9"', [content("a\né")], []),
    "rest with line breaks": ('\n\n a"}', [content("\n\n a")], []),
    "blanks": (" \n", [], [content(" \n")]),
    "quote": ('"}', [], []),
    "rest with inner quotes": ('a "b" c"}', [content("a ")], [content('"b" c')]),
    "rest with an escape that JSON has not": ('a \\d b"}', [content("a ")], [content("\\d b")]),
    "half an escape": ("a\\", [content("a")], []),
    "fresh object": (HEAD + "hi", [T, content("hi")], []),
    "fresh object behind blanks": (" \n" + HEAD + "hi", [T, content("hi")], []),
    "fresh object in a fence": ("```json\n" + HEAD + 'hi"}\n```', [T, content("hi")], []),
    "fresh object in single quotes": (
        "{'thought': 't', 'action': 'reply', 'action_input': 'hi'}",
        [],
        [T, content("hi")],
    ),
    "span of code": ('`a` and b"}', [content("`a` and b")], []),
    "fence": ('```py\\nx = 1\\n```"}', [content("```py\nx = 1\n```")], []),
    "fence and a line break": ("```py\nx = 1", [content("```py\nx = 1")], []),
    "half a fence": ("``", [], [content("``")]),
    "braces that are no decision": ("{x} is a set", [], [content("{x} is a set")]),
    "an object that is no decision": ('{\\"a\\": 1}"}', [], [content('{"a": 1}')]),
}


def told(reader: JsonReader, chunks: list[str]) -> Told:
    """What the reader tells of the chunks, neighbours of one kind made one."""
    return merged([each for chunk in chunks for each in reader.feed(chunk)])


def merged(each: Told) -> Told:
    return [(kind, "".join(text for _, text in same)) for kind, same in groupby(each, key=lambda one: one[0])]


@pytest.mark.parametrize("cut", [lambda text: [text], list], ids=["whole", "by character"])
@pytest.mark.parametrize(("text", "live", "at_close"), CASES.values(), ids=CASES)
def test_what_is_told_of_a_reply(
    cut: Callable[[str], list[str]], text: str, live: Told, at_close: Told
) -> None:
    reader = JsonReader()
    assert told(reader, cut(text)) == live
    assert reader.close() == at_close


@pytest.mark.parametrize("cut", [lambda text: [text], list], ids=["whole", "by character"])
@pytest.mark.parametrize(("text", "live", "at_close"), GOES_ON.values(), ids=GOES_ON)
def test_what_is_told_of_the_rest_of_a_text(
    cut: Callable[[str], list[str]], text: str, live: Told, at_close: Told
) -> None:
    reader = JsonReader(inside_text=True)
    assert told(reader, cut(text)) == live
    assert reader.close() == at_close
    assert reader.decision["action"] == "reply"
    assert reader.decision["violation"] == ""
    assert reader.decision["text"] == "".join(each for kind, each in live + at_close if kind == "content")


@pytest.mark.parametrize(
    ("text", "expected"), [case[1:] for case in BROKEN], ids=[name for name, _, _ in BROKEN]
)
def test_the_decision_of_a_broken_reply(text: str, expected: Expectation) -> None:
    reader = JsonReader()
    live = told(reader, [text])
    given = live + reader.close()
    if isinstance(expected, str):
        assert reader.decision["violation"] == expected
    else:
        assert reader.decision == expected
    assert "".join(each for kind, each in given if kind == "content") == reader.decision["text"]
    assert "".join(each for kind, each in given if kind == "thinking") == reader.decision["thought"]


def test_text_goes_out_as_it_comes() -> None:
    reader = JsonReader()
    assert reader.feed('{"thou') == []
    assert reader.feed('ght": "I ') == [thinking("I ")]
    assert reader.feed('am", "action": "re') == [thinking("am")]
    assert reader.feed('ply", "action_input": "H\\u00') == [content("H")]
    assert reader.feed("e9, \\ud83d") == [content("é, ")]
    assert reader.feed("\\ude0") == []
    assert reader.feed('0!"') == [content("😀!")]
    assert reader.feed("}\n") == []
    assert reader.close() == []
    assert (reader.decision["thought"], reader.decision["text"]) == ("I am", "Hé, 😀!")


def test_thought_and_text_in_one_piece_come_in_their_order() -> None:
    assert JsonReader().feed(HEAD + "a\\n") == [T, content("a\n")]


def test_halves_of_a_pair_that_are_no_escapes_are_joined() -> None:
    reader = JsonReader()
    assert reader.feed(HEAD + "\ud83d") == [T]
    assert reader.feed("\ude00") == [content("😀")]


def test_a_first_object_that_is_no_decision_tells_nothing_but_its_thought() -> None:
    reader = JsonReader()
    assert reader.feed('{"thought": "a"} ') == [thinking("a")]
    assert reader.feed(HEAD + 'hi"}') == []
    assert reader.close() == [content("hi")]
    assert reader.decision["thought"] == "a"


def test_what_was_shown_is_not_taken_back_by_what_comes_after() -> None:
    # The first object streams, though the second reading takes it for the value of a key in single quotes.
    text = "{'thought': " + HEAD + 'hi"}}'
    reader = JsonReader()
    assert reader.feed(text) == [T, content("hi")]
    assert reader.close() == []
    assert (reader.decision["action"], reader.decision["text"]) == ("reply", "hi")
    assert reader.decision["violation"] == ""


def test_a_thought_does_not_go_on_behind_the_text() -> None:
    reader = JsonReader()
    within = f'"x": {HEAD}hi"}}'
    reader.feed(f"{{'thought': 'to', 'action': 'reply', 'action_input': 'hi you', {within}}}")
    assert reader.close() == [content(" you")]
    assert reader.decision["thought"] == "t"


def test_a_blank_text_that_was_shown_is_a_violation() -> None:
    reader = JsonReader()
    reader.feed(HEAD + ' "}')
    reader.close()
    assert reader.decision["text"] == " "
    assert reader.decision["violation"] == "wrong_input_shape"
    assert reader.decision["problem"]


def test_calls_are_taken_as_they_were_written() -> None:
    reader = JsonReader()
    reader.feed(CALL + '{"tool_name": "ls", "parameters": {"a":  1}}}')
    assert reader.close() == []
    assert reader.decision["calls"] == [{"name": "ls", "arguments": '{"a":  1}', "complete": True}]


@pytest.mark.parametrize(
    ("text", "is_in_object"),
    [
        ("", False),
        ("prose", False),
        ("{", False),
        ("{ x", False),
        ('{ "', True),
        (HEAD, True),
        (HEAD + "a <think>", True),
        (HEAD + 'a"', True),
        (HEAD + 'a"}', False),
        (HEAD + 'a"} {"', False),
        (HEAD + 'a" b', True),
        (CALL + "{}", True),
        (CALL + "{}}", False),
    ],
)
def test_a_think_tag_is_text_while_an_object_is_open(text: str, is_in_object: object) -> None:
    for chunks in ([text], list(text)):
        reader = JsonReader()
        told(reader, chunks)
        assert reader.in_object is is_in_object


@pytest.mark.parametrize(
    ("text", "is_in_object"),
    [
        ("", False),
        (" ", False),
        ("``", False),
        ("a", True),
        ('a"', True),
        ('a"}', False),
        (HEAD, True),
        ("{", False),
    ],
)
def test_a_think_tag_is_text_in_the_rest_of_a_text(text: str, is_in_object: object) -> None:
    reader = JsonReader(inside_text=True)
    told(reader, [text])
    assert reader.in_object is is_in_object


def test_a_closed_reader_reads_no_more() -> None:
    reader = JsonReader()
    with pytest.raises(RuntimeError, match="still being read"):
        _ = reader.decision
    reader.feed(json.dumps({"thought": "t", "action": "reply", "action_input": "hi"}))
    reader.close()
    assert reader.close() == []
    with pytest.raises(RuntimeError, match="closed"):
        reader.feed("a")
    assert reader.decision["text"] == "hi"
