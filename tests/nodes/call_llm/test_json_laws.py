"""The laws of the JSON reader: chunk invariance, prefix determinism, live = stored, linear time."""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.json_decision import JsonDecision, read_decision
from turnflow.nodes.call_llm.json_reader import JsonReader

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "1500")), deadline=None)

Told = list[tuple[str, str]]

TEXTS = st.lists(
    st.sampled_from(
        [
            "a",
            "hi ",
            '"',
            "'",
            "\\",
            "\n",
            "\t",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "😀",
            "é",
            "\x00",
            "```",
            '"a": ',
        ],
    )
    | st.text(max_size=3),
    max_size=10,
).map("".join)
TOOLS = st.fixed_dictionaries(
    {"tool_name": st.sampled_from(["ls", 'a"b'])},
    optional={"parameters": st.dictionaries(TEXTS, TEXTS, max_size=2)},
)
INPUTS = TEXTS | TEXTS | TOOLS | st.lists(TOOLS, max_size=2) | st.fixed_dictionaries({"question": TEXTS})
ACTIONS = st.sampled_from(["reply", "reply", " Reply", "call_tool", "clarify", "dance"])
EXTRA = st.dictionaries(
    st.sampled_from(["a", "b"]),
    TEXTS | st.integers(-(2**63), 2**64 - 1) | st.lists(TEXTS, max_size=2),
    max_size=1,
)
PUT_IN = [
    "",
    "",
    '"',
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "x",
    "//",
    "\\u",
    "\\ud83d",
    '"action": ',
]


@st.composite
def valid(draw: st.DrawFn) -> str:
    pairs: list[tuple[str, Any]] = [
        ("thought", draw(TEXTS)),
        ("action", draw(ACTIONS)),
        ("action_input", draw(INPUTS)),
    ]
    pairs += draw(EXTRA).items()
    if draw(st.booleans()):
        pairs = draw(st.permutations(pairs))
    return json.dumps(dict(pairs), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))


@st.composite
def replies(draw: st.DrawFn) -> str:
    """A decision with characters missing, put in, or cut off at its end, and maybe something around it."""
    text = draw(valid())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(PUT_IN)) + text[at + draw(st.integers(0, 2)) :]
    if draw(st.booleans()):
        text = text[: draw(st.integers(0, len(text)))]
    before = draw(st.sampled_from(["", "", "```json\n", "So {x}: ", '{"a": 1} ', '"{" ']))
    return before + text + draw(st.sampled_from(["", "", "\n```", " {}"]))


@st.composite
def cuts(draw: st.DrawFn, reply: str) -> list[str]:
    """Cut a reply into chunks somehow."""
    places = sorted(draw(st.lists(st.integers(0, len(reply)), max_size=8)))
    return [reply[start:end] for start, end in zip([0, *places], [*places, len(reply)], strict=True)]


def feed(reader: JsonReader, chunks: Sequence[str]) -> Told:
    return merged([each for chunk in chunks for each in reader.feed(chunk)])


def read(chunks: Sequence[str], *, inside_text: bool = False) -> tuple[Told, Told, JsonDecision]:
    """What is told while the chunks come, what at the close, and the decision."""
    reader = JsonReader(inside_text=inside_text)
    return feed(reader, chunks), [*reader.close()], reader.decision


def merged(told: Told) -> Told:
    """Make one of neighbours of one kind."""
    return [
        (kind, "".join(text for _, text in same)) for kind, same in groupby(told, key=lambda each: each[0])
    ]


def of_kind(kind: str, told: Told) -> str:
    return "".join(text for each, text in told if each == kind)


@FUZZ
@given(data=st.data(), reply=replies(), inside_text=st.booleans())
def test_any_way_of_cutting_gives_the_same(data: st.DataObject, reply: str, *, inside_text: bool) -> None:
    whole = read([reply], inside_text=inside_text)
    for chunks in (list(reply), data.draw(cuts(reply))):
        assert read(chunks, inside_text=inside_text) == whole


@FUZZ
@given(data=st.data(), reply=replies(), inside_text=st.booleans())
def test_what_has_been_told_depends_on_what_has_come_only(
    data: st.DataObject, reply: str, *, inside_text: bool
) -> None:
    chunks = data.draw(cuts(reply))
    reader, other = JsonReader(inside_text=inside_text), JsonReader(inside_text=inside_text)
    told: Told = []
    for number, chunk in enumerate(chunks):
        told = merged([*told, *reader.feed(chunk)])
        assert told == read(["".join(chunks[: number + 1])], inside_text=inside_text)[0]
    assert feed(other, list(reply)) == told
    assert other.in_object == reader.in_object


@FUZZ
@given(data=st.data(), reply=replies(), inside_text=st.booleans())
def test_what_was_given_out_is_the_decision(data: st.DataObject, reply: str, *, inside_text: bool) -> None:
    live, at_close, decision = read(data.draw(cuts(reply)), inside_text=inside_text)
    assert all(text for _, text in live + at_close)
    assert of_kind("content", live + at_close) == decision["text"]
    assert of_kind("thinking", live + at_close) == decision["thought"]
    if of_kind("content", live):
        assert decision["action"] == "reply"
        assert (decision["calls"], decision["question"], decision["options"]) == ([], "", [])
        if decision["text"].strip():
            assert decision["violation"] == ""
    json.dumps(decision, ensure_ascii=False).encode()


@FUZZ
@given(reply=replies())
def test_text_is_told_live_only_behind_a_strict_beginning(reply: str) -> None:
    reader = JsonReader()
    for place, char in enumerate(reply):
        told = feed(reader, [char])
        if text := of_kind("content", told):
            start = re.search(r'\{[ \t\n\r]*"', reply)
            assert start
            begun = json.loads(reply[start.start() : place + 1] + '"}', strict=False)
            assert isinstance(begun["thought"], str)
            assert begun["action"].strip().lower() == "reply"
            assert begun["action_input"].encode("utf-16", "surrogatepass").decode("utf-16", "replace") == text
            return


@FUZZ
@given(reply=valid())
def test_a_valid_decision_is_told_live_where_its_order_allows(reply: str) -> None:
    given = json.loads(reply)
    live, at_close, decision = read([reply])
    assert decision["thought"] == given["thought"] == of_kind("thinking", live)
    if decision["violation"]:
        return
    keys = list(given)
    if decision["action"] == "reply" and keys.index("action_input") > max(
        map(keys.index, ("thought", "action"))
    ):
        assert of_kind("content", live) == given["action_input"]
        assert at_close == []
    else:
        assert of_kind("content", live) == ""
        assert decision == read_decision(reply)


@FUZZ
@given(data=st.data(), thought=TEXTS, text=TEXTS.filter(str.strip), ascii_only=st.booleans())
def test_a_text_that_is_cut_in_two_comes_through_whole(
    data: st.DataObject, thought: str, text: str, *, ascii_only: bool
) -> None:
    reply = json.dumps({"thought": thought, "action": "reply", "action_input": text}, ensure_ascii=ascii_only)
    start = reply.index('"action_input": "') + len('"action_input": "')
    at = data.draw(st.integers(start, len(reply) - 2))
    live, at_close, first = read([reply[:at]])
    assert at_close == []
    assert text.startswith(of_kind("content", live))
    if json.loads(f'"{reply[start:at]}"' if _is_between_escapes(reply[start:at]) else '""'):
        # The model goes on exactly where it was cut off.
        _, _, rest = read([reply[at:]], inside_text=True)
        if "{" not in reply[at:] and "```" not in reply[at:]:
            assert first["text"] + rest["text"] == text


def _is_between_escapes(text: str) -> bool:
    try:
        return not any("\ud800" <= each <= "\udfff" for each in json.loads(f'"{text}"'))
    except ValueError:
        return False


@FUZZ
@given(text=st.text(alphabet="{}[]\"'\\:,/ \nathougcni_pulrey`") | st.text(st.characters()))
def test_any_text_can_be_read(text: str) -> None:
    for head in ("", '{"thought": ', '{"thought": "t", "action": "reply", "action_input": "'):
        read(list(head + text))
        read([head + text], inside_text=True)


HEAD = '{"thought": "t", "action": "reply", "action_input": "'
HOSTILE: dict[str, tuple[str, str]] = {
    "braces": ("", "{"),
    "keys": ("", '{"a":'),
    "brackets": ("", "["),
    "nested brackets": ('{"thought": ', "["),
    "lists": ('{"a": [', "[],"),
    "quotes": ("", '"'),
    "single quotes": ("", "'"),
    "backslashes": ("", "\\"),
    "backslashes in a text": (HEAD, "\\"),
    "backslashes in a list": ('{"a": ["', "\\"),
    "objects": ("", '{"a":1}'),
    "thought": ('{"thought": "', "x"),
    "text": (HEAD, "Hello you. "),
    "escapes": (HEAD, "\\n"),
    "pairs": (HEAD, "\\ud83d\\ude00"),
    "halves of pairs": (HEAD, "\\ud83d"),
    "escapes that JSON has not": (HEAD, "\\d"),
    "quotes in a text": (HEAD, 'a "b" '),
    "long action": ('{"thought": "t", "action": "', "reply"),
    "digits": ('{"a": ', "1"),
    "blanks": ('{"a"', " "),
    "blanks first": ("", " "),
    "backticks": ("", "`"),
}


@pytest.mark.parametrize(("head", "hostile"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    ("cut", "length"), [(lambda text: [text], 1_000_000), (list, 40_000)], ids=["whole", "by character"]
)
@pytest.mark.parametrize("inside_text", [False, True])
def test_time_is_linear(
    head: str, hostile: str, cut: Callable[[str], Sequence[str]], length: int, *, inside_text: bool
) -> None:
    def seconds(length: int) -> float:
        chunks: Any = cut(head + hostile * (length // len(hostile)))
        start = time.thread_time()
        read(chunks, inside_text=inside_text)
        return time.thread_time() - start

    assert is_linear(seconds, length)
