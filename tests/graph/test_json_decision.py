"""What a whole reply is read as: every rule about JSON decisions, by example."""

import json
import os
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.broken_json import BROKEN, Expectation, call, calls, clarify, reply
from tests.linear_time import is_linear
from turnflow.graph.json_decision import JsonDecision, read_decision, shown_reply
from turnflow.graph.strict_json import read_object

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "1500")), deadline=None)

TEXT = 'Grüße, "you":\n\t{1, [2]}\\ 😀 \' \x7f'
TOOL = {"tool_name": "search", "parameters": {"q": TEXT, "deep": [{"n": 1.5}], "none": None}}
QUESTION = {"question": "Which one?", "options": ["a", "b"]}
SHAPES = {"text": TEXT, "tool": TOOL, "tools": [TOOL, {"tool_name": "ls"}], "question": QUESTION}
FITS = {"reply": {"text"}, "call_tool": {"tool", "tools"}, "clarify": {"text", "question"}}


def written(action: str, action_input: Any, thought: str = "t") -> str:
    return json.dumps({"thought": thought, "action": action, "action_input": action_input})


@pytest.mark.parametrize("action", FITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_action_says_which_shape_its_input_has(action: str, shape: str) -> None:
    read = read_decision(written(action, SHAPES[shape]))
    if shape not in FITS[action]:
        assert read["violation"] == "wrong_input_shape"
        assert action in read["problem"]
        assert (read["text"], read["calls"], read["question"], read["options"]) == ("", [], "", [])
        assert (read["action"], read["thought"]) == (action, "t")
        return
    expected = {
        ("reply", "text"): reply(TEXT),
        ("call_tool", "tool"): calls(call("search", json.dumps(TOOL["parameters"]))),
        ("call_tool", "tools"): calls(call("search", json.dumps(TOOL["parameters"])), call("ls")),
        ("clarify", "text"): clarify(TEXT),
        ("clarify", "question"): clarify("Which one?", "a", "b"),
    }
    assert read == expected[action, shape]


@pytest.mark.parametrize("key", ["thought", "action", "action_input"])
def test_each_missing_key_is_named(key: str) -> None:
    given = {"thought": "t", "action": "reply", "action_input": "hi"}
    del given[key]
    read = read_decision(json.dumps(given))
    assert read["violation"] == f"schema:{key}"
    assert read["problem"] == f'the key "{key}" is missing'


@pytest.mark.parametrize("key", ["thought", "action"])
@pytest.mark.parametrize("value", [None, 1, True, ["a"], {"a": 1}])
def test_each_key_that_is_no_string_is_named(key: str, value: Any) -> None:
    read = read_decision(json.dumps({"thought": "t", "action": "reply", "action_input": "hi", key: value}))
    assert read["violation"] == f"schema:{key}"
    assert json.dumps(value) in read["problem"]


@pytest.mark.parametrize(
    ("text", "expected"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_reply_means_one_thing(text: str, expected: Expectation) -> None:
    read = read_decision(text)
    if isinstance(expected, str):
        assert read["violation"] == expected
        assert read["problem"]
        assert "\n" not in read["problem"]
        assert (read["text"], read["calls"], read["question"], read["options"]) == ("", [], "", [])
    else:
        assert read == expected


def test_the_problem_stays_short() -> None:
    read = read_decision(written("x" * 5000, "hi"))
    assert len(read["action"]) <= 80
    assert len(read["problem"]) < 200


def test_a_text_that_was_shown_is_a_reply() -> None:
    assert shown_reply("t", "hi") == reply("hi")
    blank = shown_reply("t", " ")
    assert (blank["text"], blank["violation"]) == (" ", "wrong_input_shape")


CALLS = {
    "strict": written("call_tool", TOOL),
    "list": written("call_tool", [TOOL, TOOL]),
    "fence": f"```json\n{written('call_tool', TOOL)}\n```",
    "inner quotes": written("call_tool", TOOL).replace('"t"', '"a "b" c"'),
    "comments and line breaks": json.dumps(json.loads(written("call_tool", TOOL)), indent=1).replace(
        ",\n", ", // so\n"
    ),
    "single quotes": str(
        {
            "thought": "t",
            "action": "call_tool",
            "action_input": {"tool_name": "a", "parameters": {"b": ["c}", {"d": "]"}]}},
        }
    ),
    "parameters first": json.dumps(
        {
            "action": "call_tool",
            "action_input": {"parameters": {"a": {}}, "tool_name": "x"},
            "thought": "t",
        }
    ),
}


@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS)
def test_a_call_that_is_cut_off_anywhere_is_never_complete(text: str) -> None:
    whole = read_decision(text)
    assert whole["calls"]
    assert all(each["complete"] for each in whole["calls"])
    arguments = whole["calls"][0]["arguments"]
    first_end = text.index(arguments) + len(arguments)
    first_end = text.index("}", first_end) + 1  # of the first tool object
    for end in range(len(text)):
        read = read_decision(text[:end])
        for place, each in enumerate(read["calls"]):
            assert each["name"] == whole["calls"][place]["name"]
            if each["complete"]:
                assert end >= first_end
                assert each == whole["calls"][place]
            else:
                assert not place or read["calls"][0]["complete"]


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_text_that_is_cut_off_anywhere_is_never_wrong(quote: str) -> None:
    text = "Hé \\ \"you\" {a: [1]}\n - 'b' 😀 \U0001f1e9\U0001f1ea end"
    reply_text = written("reply", text)
    if quote == "'":
        reply_text = reply_text.replace("'", "\\'").replace('"t"', "'t'")
    start = reply_text.index("H\\u00e9")
    for end in range(start + 8, len(reply_text) + 1):
        read = read_decision(reply_text[:end])
        assert read["violation"] == ""
        assert read["action"] == "reply"
        assert text.startswith(read["text"])
        assert len(read["text"]) >= (end - start) // 12 - 1  # an escaped pair takes twelve characters
    assert read["text"] == text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
NAMES = st.text(min_size=1).filter(lambda name: name == name.strip())
TOOLS = st.fixed_dictionaries({"tool_name": NAMES}, optional={"parameters": st.dictionaries(st.text(), JSON)})


@FUZZ
@given(
    tools=st.lists(TOOLS, min_size=1, max_size=3),
    thought=st.text(),
    extra=st.dictionaries(st.text(alphabet="xyz"), JSON, max_size=2),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_valid_calls_come_through_as_they_were_written(
    tools: list[dict[str, Any]], thought: str, extra: dict[str, Any], *, ascii_only: bool, indent: int | None
) -> None:
    given = {**extra, "thought": thought, "action": "call_tool", "action_input": tools}
    read = read_decision(json.dumps(given, ensure_ascii=ascii_only, indent=indent))
    assert (read["violation"], read["thought"]) == ("", thought)
    assert [each["name"] for each in read["calls"]] == [tool["tool_name"] for tool in tools]
    for each, tool in zip(read["calls"], tools, strict=True):
        assert each["complete"]
        assert json.loads(each["arguments"]) == tool.get("parameters", {})


def mutated(draw: st.DrawFn, text: str) -> str:
    """The text with some characters missing, put in, or cut off at its end."""
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        removed = draw(st.integers(0, 3))
        put_in = draw(
            st.sampled_from(["", '"', "'", "\\", "{", "}", "[", "]", ",", ":", "\n", "x", "//", "```"])
        )
        text = text[:at] + put_in + text[at + removed :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@st.composite
def mutated_calls(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    tools = draw(st.lists(TOOLS, min_size=1, max_size=2))
    return mutated(draw, written("call_tool", tools)), tools


@FUZZ
@given(case=mutated_calls())
def test_the_arguments_of_a_complete_call_stand_in_the_text(case: tuple[str, list[dict[str, Any]]]) -> None:
    text, _ = case
    read = read_decision(text)
    assert_is_consistent(read)
    for each in read["calls"]:
        if each["complete"] and each["arguments"] not in {"{}", text}:
            assert each["arguments"] in text or json.dumps(each["arguments"]) in text


@FUZZ
@given(data=st.data(), tools=st.lists(TOOLS, min_size=1, max_size=2))
def test_calls_that_are_cut_off_are_a_beginning_of_the_calls(
    data: st.DataObject, tools: list[dict[str, Any]]
) -> None:
    text = written("call_tool", tools)
    read = read_decision(text[: data.draw(st.integers(0, len(text)))])
    for each, tool in zip(read["calls"], tools, strict=False):
        assert each["name"] == tool["tool_name"]
        if each["complete"]:
            assert read_object(each["arguments"]) == tool.get("parameters", {})


@FUZZ
@given(text=st.text(alphabet="{}[]\"'\\:,/ \nathougcni_pulrey") | st.text())
def test_any_text_can_be_read(text: str) -> None:
    for each in (
        text,
        '{"thought": ' + text,
        '{"thought": "t", "action": "call_tool", "action_input": ' + text,
    ):
        assert_is_consistent(read_decision(each))


def assert_is_consistent(read: JsonDecision) -> None:
    asked = [bool(read["text"].strip()), bool(read["calls"]), bool(read["question"])]
    assert sum(asked) == (0 if read["violation"] else 1)
    assert bool(read["problem"]) == bool(read["violation"])
    json.dumps(read, ensure_ascii=False).encode()


HOSTILE = {
    "braces": ("", "{"),
    "keys": ("", '{"a":'),
    "near keys": ("", "{a"),
    "brackets": ("", "["),
    "lists": ('{"thought": [', "[],"),
    "quotes": ("", '"'),
    "single quotes": ('{"thought": ', "'"),
    "backslashes": ("", "\\"),
    "backslashes in a string": ('{"thought": "', "\\"),
    "backslashes in a list": ('{"thought": ["', "\\"),
    "objects": ("", '{"a":1}'),
    "empty objects": ("", "{}"),
    "text": ('{"thought": "', "x"),
    "escapes": ('{"thought": "t", "action": "reply", "action_input": "', "\\n"),
    "escapes that JSON has not": ('{"thought": "t", "action": "reply", "action_input": "', "\\d"),
    "keys of decisions": ("", '{"thought": x '),
    "inputs": ("{'thought': 't', ", "'action_input': {'tool_name': 'x'}, "),
    "calls": ('{"thought": "t", "action": "call_tool", "action_input": [', '{"tool_name": "x"},'),
    "digits": ('{"thought": ', "1"),
    "digits in a list": ('{"thought": "t", "action": "reply", "action_input": [', "1"),
    "blanks": ('{"thought"', " "),
    "comments": ("{'thought': 't', ", "/*"),
    "closers": ('{"thought": "t', '"}'),
}


@pytest.mark.parametrize(("head", "hostile"), HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear(head: str, hostile: str) -> None:
    def seconds(length: int) -> float:
        text = head + hostile * (length // len(hostile))
        start = time.thread_time()
        read_decision(text)
        return time.thread_time() - start

    assert is_linear(seconds, 1_000_000)


@pytest.mark.parametrize("hostile", ['="', "x}", "['", '"a": "', "'#", '" ', '"}['])
@pytest.mark.parametrize("length", [2_000, 10_000, 99_000])
def test_what_takes_the_library_long_is_not_mended(hostile: str, length: int) -> None:
    start = time.thread_time()
    read_decision("{'thought': \"" + hostile * (length // len(hostile)))
    assert time.thread_time() - start < 2


def test_halves_of_surrogates_from_the_library_are_mended() -> None:
    broken = '{"thought":{ "t", "action": "call_tool", "action_input": [{"tool_name": "\\ud800\\udc00"}]}'
    decision = read_decision(broken)
    assert decision["violation"] == "schema:thought"
    assert decision["problem"].encode()
