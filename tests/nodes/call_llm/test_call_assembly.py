"""How native tool calls are put together from deltas."""

import json
import math
import os
import time
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.nodes.call_llm.call_assembly import UNREADABLE, AssembledCall, CallAssembler, CallDelta

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "2000")), deadline=None)

Delta = dict[str, object]
Fields = tuple[object, object, object, object]


def delta(index: object = None, call_id: object = None, name: object = None, args: object = None) -> Delta:
    return {"index": index, "id": call_id, "name": name, "args": args}


def assemble(
    deltas: Sequence[Delta], finish_reason: str | None = "tool_calls", taken_ids: Collection[str] = ()
) -> list[AssembledCall]:
    assembler = CallAssembler()
    for each in deltas:
        assembler.feed([each])
    return assembler.close(finish_reason, taken_ids)


def calls_of(deltas: Sequence[Delta]) -> list[tuple[str, str]]:
    return [(call["name"], call["arguments"]) for call in assemble(deltas)]


def ids_of(deltas: Sequence[Delta], taken_ids: Collection[str] = ()) -> list[str]:
    return [call["id"] for call in assemble(deltas, taken_ids=taken_ids)]


def concatenated(deltas: Sequence[CallDelta]) -> list[tuple[int, str, str, str]]:
    """Add canonical deltas up as simple clients do: (index, id, name, arguments), in order of appearance."""
    added: dict[int, list[str]] = {}
    for each in deltas:
        texts = added.setdefault(each["index"], ["", "", ""])
        for place, text in enumerate((each["id"], each["name"], each["args"])):
            texts[place] += text or ""
    return [(index, texts[0], texts[1], texts[2]) for index, texts in added.items()]


# name: (deltas as index, id, name and args; names and arguments of the calls)
CASES: dict[str, tuple[list[Fields], list[tuple[str, str]]]] = {
    "nothing": ([], []),
    "one call": (
        [(0, "a", "f", ""), (0, None, None, '{"x"'), (0, None, None, ":1}")],
        [("f", '{"x":1}')],
    ),
    "parallel calls": (
        [
            (0, "a", "f", "{"),
            (1, "b", "g", "{"),
            (0, None, None, "}"),
            (1, None, None, " }"),
        ],
        [("f", "{}"), ("g", "{ }")],
    ),
    "ids and names repeated": (
        [(0, "a", "f", "{"), (0, "a", "f", "}"), (0, "a", "f", "")],
        [("f", "{}")],
    ),
    "names repeated without ids": (
        [(0, None, "f", "{"), (0, None, "f", "}")],
        [("f", "{}")],
    ),
    "names repeated without ids and indexes": (
        [(None, None, "f", "{"), (None, None, "f", "}")],
        [("f", "{}")],
    ),
    "a name in parts": (
        [(0, "a", "get_", None), (0, None, "weather", None), (0, None, None, "{}")],
        [("get_weather", "{}")],
    ),
    "a name that grows": ([(0, "a", "get_", None), (0, "a", "get_weather", "{}")], [("get_weather", "{}")]),
    "a name in white space": ([(0, "a", " f\n", "{}")], [("f", "{}")]),
    "a name after the arguments began": (
        [(0, "a", None, "{"), (0, None, "f", "}")],
        [("f", "{}")],
    ),
    "all at index 0, ids once": (
        [
            (0, "a", "f", "{"),
            (0, None, None, "}"),
            (0, "b", "f", ""),
            (0, None, None, "{}"),
        ],
        [("f", "{}"), ("f", "{}")],
    ),
    "all at index 0, mixed": (
        [
            (0, "a", "f", "{"),
            (0, "b", "g", "{"),
            (0, "a", None, "}"),
            (0, "b", None, " }"),
        ],
        [("f", "{}"), ("g", "{ }")],
    ),
    "all at index 0, whole and without ids": (
        [(0, None, "f", '{"x":1}'), (0, None, "f", '{"x":2}'), (0, None, "g", "{}")],
        [("f", '{"x":1}'), ("f", '{"x":2}'), ("g", "{}")],
    ),
    "the name as id of every call": (
        [(0, "f", "f", "{}"), (0, "f", "f", " {}")],
        [("f", "{}"), ("f", " {}")],
    ),
    "a whole call sent again": (
        [(0, "a", "f", "{"), (0, None, None, "}"), (0, "a", "f", "{}")],
        [("f", "{}")],
    ),
    "whole calls without index and id": (
        [(None, None, "f", "{}"), (None, None, "g", "{}"), (None, None, "g", "{}")],
        [("f", "{}"), ("g", "{}"), ("g", "{}")],
    ),
    "a call that names itself first, without index and id": (
        [
            (None, None, "f", None),
            (None, None, None, '{"x":"}'),
            (None, None, None, '\\""}'),
            (None, None, "f", None),
            (None, None, None, "{"),
            (None, None, None, "}"),
        ],
        [("f", '{"x":"}\\""}'), ("f", "{}")],
    ),
    "no index, found by id": (
        [
            (None, "a", "f", "{"),
            (None, "b", "g", "{"),
            (None, "a", None, "}"),
            (None, "b", None, "}"),
        ],
        [("f", "{}"), ("g", "{}")],
    ),
    "no index, the latest": (
        [(0, "a", "f", "{}"), (1, "b", "g", "{"), (None, None, None, "}")],
        [("f", "{}"), ("g", "{}")],
    ),
    "no index for a call that had one, found by id": (
        [(0, "a", "f", "{"), (1, "b", "g", "{}"), (None, "a", None, "}")],
        [("f", "{}"), ("g", "{}")],
    ),
    "one id at several indexes": ([(0, "a", "f", "{}"), (1, "a", "g", "{}")], [("f", "{}"), ("g", "{}")]),
    "an id that comes late": ([(0, None, "f", "{"), (0, "a", None, "}")], [("f", "{}")]),
    "another name with an id is another call": (
        [(0, None, "f", None), (0, "a", "g", "{}")],
        [("f", ""), ("g", "{}")],
    ),
    "no arguments": ([(0, "a", "f", None), (1, "b", "g", "")], [("f", ""), ("g", "")]),
    "empty deltas": (
        [(None, None, None, None), (0, "", "", ""), (0, "a", "f", "{}"), (3, None, None, "")],
        [("f", "{}")],
    ),
    "arguments as an object": ([(0, "a", "f", {"x": "é"})], [("f", '{"x": "é"}')]),
    "arguments as an empty object": ([(0, "a", "f", {})], [("f", "{}")]),
    "only arguments": ([(0, None, None, "{}")], [("", "{}")]),
    "a trailing line feed with the name": ([(0, None, "f", "{}"), (0, None, "f", "\n")], [("f", "{}\n")]),
}


@pytest.mark.parametrize(("deltas", "expected"), CASES.values(), ids=CASES)
def test_deltas_become_calls(deltas: list[Fields], expected: list[tuple[str, str]]) -> None:
    assert calls_of([delta(*fields) for fields in deltas]) == expected


@pytest.mark.parametrize(("deltas", "expected"), CASES.values(), ids=CASES)
def test_canonical_deltas_can_simply_be_added_up(
    deltas: list[Fields], expected: list[tuple[str, str]]
) -> None:
    added = concatenated(CallAssembler().feed([delta(*fields) for fields in deltas]))
    assert [(name, args) for _, _, name, args in added] == expected
    assert [index for index, *_ in added] == list(range(len(added)))


def test_canonical_deltas_say_ids_and_names_once() -> None:
    assert CallAssembler().feed(
        [
            delta(0, "a", "get_", "{"),
            delta(0, "a", "get_", "1"),
            delta(0, "b", "f", "{}"),
            delta(None, "a", None, "}"),
        ]
    ) == [
        {"index": 0, "id": "a", "name": "get_", "args": "{"},
        {"index": 0, "id": None, "name": None, "args": "1"},
        {"index": 1, "id": "b", "name": "f", "args": "{}"},
        {"index": 0, "id": None, "name": None, "args": "}"},
    ]


def test_a_call_keeps_its_id() -> None:
    assert ids_of([delta(0, "a", "f", "{}"), delta(1, "b", "g", "{}")]) == ["a", "b"]


def test_a_missing_id_is_made_up_and_unique_within_the_turn() -> None:
    deltas = [delta(0, None, "f", "{}"), delta(1, None, "g", "{}"), delta(2, "call_2", "h", "{}")]
    first, second, third = ids_of(deltas, taken_ids=["call_1"])
    assert third == "call_2"
    assert len({first, second, third, "call_1"}) == 4


def test_an_id_that_the_turn_has_used_is_replaced() -> None:
    (new,) = ids_of([delta(0, "a", "f", "{}")], taken_ids={"a", "a_1"})
    assert new not in {"a", "a_1"}
    assert new.startswith("a_")


def test_an_id_that_two_calls_share_is_replaced_in_the_second() -> None:
    first, second = ids_of([delta(0, "a", "f", "{}"), delta(1, "a", "g", "{}")])
    assert first == "a"
    assert second != "a"


def test_closing_twice_gives_the_same_calls() -> None:
    assembler = CallAssembler()
    assembler.feed([delta(0, None, "f", "{}")])
    assert assembler.close("stop", ["call_1"]) == assembler.close("stop", ["call_1"])


WHOLE, CUT = '{"x": [1, "a"]}', '{"x": [1, "a'


@pytest.mark.parametrize("finish_reason", ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"])
@pytest.mark.parametrize(
    ("arguments", "complete"),
    [
        ([WHOLE, CUT], [True, False]),
        ([WHOLE, WHOLE], [True, True]),
        ([CUT, WHOLE], [False, True]),
        (["{'x': 1}", WHOLE], [False, True]),
        (['{"x": NaN}', WHOLE], [False, True]),
        (["", WHOLE], [True, True]),
        ([WHOLE, ""], [True, False]),
        ([WHOLE, "12"], [True, False]),
        ([WHOLE, "[" * 100_000], [True, False]),
    ],
)
def test_a_call_that_the_end_of_the_reply_cut_off_is_incomplete(
    arguments: list[str], complete: list[bool], finish_reason: str
) -> None:
    deltas = [delta(index, f"id{index}", "f", args) for index, args in enumerate(arguments)]
    assert [call["complete"] for call in assemble(deltas, finish_reason)] == complete


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "", None])
def test_all_calls_of_a_reply_that_was_not_cut_off_are_complete(finish_reason: str | None) -> None:
    deltas = [delta(0, "a", "f", CUT), delta(1, "b", "f", "")]
    assert [call["complete"] for call in assemble(deltas, finish_reason)] == [True, True]


def test_the_call_that_arrived_last_counts_as_the_last() -> None:
    deltas = [delta(0, "a", "f"), delta(1, "b", "f"), delta(0, "a", None, "{}")]
    assert [call["complete"] for call in assemble(deltas, "length")] == [True, True]
    deltas = [delta(0, "a", "f"), delta(1, "b", "f", "{}"), delta(0, "a", "f")]
    assert [call["complete"] for call in assemble(deltas, "length")] == [False, True]


def test_arguments_that_are_no_json_value_are_told_to_be_unreadable() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert calls_of([delta(0, "a", "f", object()), delta(1, "b", "g", endless)]) == [
        ("f", UNREADABLE),
        ("g", UNREADABLE),
    ]


def test_assembly_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        deltas = [delta(None, None, "f", '{"x":"'), *[delta(None, None, "f", "}{")] * count]
        deltas += [delta(0, "a", "f", "{}")] * count
        start = time.thread_time()
        assemble(deltas)
        return time.thread_time() - start

    assert is_linear(seconds, 20_000)


HARD_TEXTS = st.text(alphabet='{}[]"\\ab\né', max_size=5)
VALUES = st.one_of(HARD_TEXTS, st.sampled_from([None, 12, [], {}, [{"a": ["}"]}], {"b": {"c": '"'}}]))
JSON_OBJECTS = st.dictionaries(HARD_TEXTS, VALUES, max_size=2).map(json.dumps)
NAMES = st.sampled_from(["f", "g", "get_weather", "get", "查"])
CALLS = st.lists(st.tuples(NAMES, JSON_OBJECTS), min_size=1, max_size=3)


@st.composite
def chunks(draw: st.DrawFn, text: str) -> list[str]:
    """Cut a text into one chunk or more somehow."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def interleaved(draw: st.DrawFn, parts: list[list[Delta]]) -> list[Delta]:
    """Mix the deltas of several calls somehow; the calls begin, and each goes on, in order."""
    waiting, begun, mixed = list(parts), list[list[Delta]](), list[Delta]()
    count = sum(len(deltas) for deltas in parts)
    for choice in draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)):
        number = choice % (len(begun) + bool(waiting))
        if number == len(begun):
            begun.append(waiting.pop(0))
        mixed.append(begun[number].pop(0))
        if not begun[number]:
            del begun[number]
    return mixed


@st.composite
def streams(draw: st.DrawFn, calls: list[tuple[str, str]]) -> list[Delta]:
    """Write calls as a gateway would, among those that tell calls apart by something at least."""
    indexes = draw(st.sampled_from(["counted", "all 0", "none"]))
    has_ids = draw(st.booleans())
    repeats_ids, repeats_names = draw(st.booleans()), draw(st.booleans())
    parts: list[list[Delta]] = []
    for number, (name, arguments) in enumerate(calls):
        index = {"counted": number, "all 0": 0, "none": None}[indexes]
        call_id = f"id{number}" if has_ids else None
        deltas = [
            delta(index, call_id if repeats_ids else None, name if repeats_names else None, chunk)
            for chunk in draw(chunks(arguments))
        ]
        # The first delta brings what is known of the call, with the first of its arguments or before them.
        if draw(st.booleans()):
            deltas.insert(0, delta(index, call_id, name, draw(st.sampled_from(["", None]))))
        else:
            deltas[0] |= {"id": call_id, "name": name}
        parts.append(deltas)
    # Only an index or an id in every delta tells calls apart that do not come one after the other.
    if indexes == "counted" or (has_ids and repeats_ids):
        return draw(interleaved(parts))
    return [each for deltas in parts for each in deltas]


@FUZZ
@given(data=st.data(), calls=CALLS)
def test_any_way_of_streaming_gives_the_same_calls(data: st.DataObject, calls: list[tuple[str, str]]) -> None:
    deltas = data.draw(streams(calls))
    assembler = CallAssembler()
    canonical = [taken for each in deltas for taken in assembler.feed([each])]
    assembled = assembler.close("tool_calls")
    assert [(call["name"], call["arguments"]) for call in assembled] == calls
    assert len({call["id"] for call in assembled}) == len(calls)
    assert all(call["complete"] for call in assembled)

    added = concatenated(canonical)
    assert [(name, args) for _, _, name, args in added] == calls
    assert all(call_id in {"", call["id"]} for (_, call_id, _, _), call in zip(added, assembled, strict=True))


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from(
        ["", " ", "0", "a", "f", "{}", "{", math.nan, b"x", (), [1], {"x": 1}, {1, 2}, {(1,): 2}]
    ),
)
DELTAS: st.SearchStrategy[Delta] = st.one_of(
    st.just({}), st.builds(delta, ANYTHING, ANYTHING, ANYTHING, ANYTHING)
)


@FUZZ
@given(
    deltas=st.lists(DELTAS, max_size=5),
    finish_reason=st.sampled_from(["length", "stop", None]),
    taken_ids=st.sets(st.sampled_from(["a", "f", "0", "call_1", "a_1"])),
)
def test_whatever_comes_gives_calls_with_unique_ids(
    deltas: list[Delta], finish_reason: str | None, taken_ids: set[str]
) -> None:
    assembler = CallAssembler()
    canonical = [taken for each in deltas for taken in assembler.feed([each])]
    calls = assembler.close(finish_reason, taken_ids)
    ids = [call["id"] for call in calls]
    assert len({*ids, *taken_ids}) == len(ids) + len(taken_ids)
    assert [(name, args) for _, _, name, args in concatenated(canonical)] == [
        (call["name"], call["arguments"]) for call in calls
    ]
