"""What the archive says of a turn: keys, texts for searches, counts, words."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from tests.linear_time import is_linear
from turnflow.graph.archive import Scope, scope_of
from turnflow.graph.archive_search import MAX_TERMS, prepared, query_terms, rank
from turnflow.graph.archive_turns import TEXT_LIMIT, count_visible, search_text, turn_key
from turnflow.graph.transcript import merge_messages

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "200")), deadline=None)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STRICT = JsonPlusSerializer(allowed_msgpack_modules=None)


def call(**arguments: Any) -> dict[str, Any]:
    return {"name": "work", "id": "c", "args": arguments}


MESSAGES: list[AnyMessage] = [
    HumanMessage("Go.", id="h"),
    AIMessage("thinking aloud", id="a", tool_calls=[call(x=1)]),
    ToolMessage("did it", tool_call_id="c", id="r"),
    AIMessage("done", id="z"),
]


@FUZZ
@given(st.lists(JSON, max_size=3), st.text(), st.dictionaries(st.text(), JSON, max_size=3))
def test_a_key_is_the_same_before_and_after_storing(blocks: list[Any], text: str, arguments: Any) -> None:
    content: Any = [{"type": "text", "text": text}, *({"type": "other", "value": block} for block in blocks)]
    messages: list[AnyMessage] = [
        HumanMessage(content, id="h"),
        AIMessage(text, id="a", tool_calls=[call(x=arguments)], additional_kwargs={"late": text}),
    ]
    key = turn_key("turn", messages)
    assert re.fullmatch(r"turn~[0-9a-f]{16}", key)
    for serde in (JsonPlusSerializer(), STRICT):
        assert turn_key("turn", serde.loads_typed(serde.dumps_typed(messages))) == key


def test_a_key_is_the_same_once_halves_of_characters_are_gone() -> None:
    messages: list[AnyMessage] = [HumanMessage("half \ud83d of a pair", id="h"), AIMessage("a\x00b", id="a")]
    assert turn_key("t", merge_messages([], [messages])) == turn_key("t", messages)


@pytest.mark.parametrize(
    "changed",
    [
        [*MESSAGES[:3], AIMessage("done.", id="z")],
        [*MESSAGES[:3], AIMessage("done", id="y")],
        [*MESSAGES[:3], SystemMessage("done", id="z")],
        [MESSAGES[0], AIMessage("thinking aloud", id="a", tool_calls=[call(x=2)]), *MESSAGES[2:]],
        [MESSAGES[0], AIMessage("thinking aloud", id="a", tool_calls=[call(x=True)]), *MESSAGES[2:]],
        [*MESSAGES[:2], ToolMessage("did it", tool_call_id="d", id="r"), MESSAGES[3]],
        [MESSAGES[1], MESSAGES[0], *MESSAGES[2:]],
        MESSAGES[:3],
        [],
    ],
)
def test_other_messages_have_another_key(changed: list[AnyMessage]) -> None:
    assert turn_key("t", changed) != turn_key("t", MESSAGES)
    assert turn_key("other", MESSAGES) != turn_key("t", MESSAGES)


def test_what_else_a_message_carries_does_not_count() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    last = AIMessage("done", id="z", usage_metadata=usage, response_metadata={"x": 1})
    assert turn_key("t", [*MESSAGES[:3], last]) == turn_key("t", MESSAGES)


def test_values_that_json_does_not_know_count_as_one() -> None:
    odd: Any = [{"type": "file", "data": b"\x00", "when": object()}]
    assert turn_key("t", [HumanMessage(odd, id="h")]) == turn_key("t", [HumanMessage(odd, id="h")])


def test_texts_for_searches_are_what_was_said() -> None:
    assert search_text(MESSAGES) == "Go.\nthinking aloud\ndone"
    assert search_text([SystemMessage("x", id="s"), ToolMessage("y", tool_call_id="c")]) == ""
    assert search_text([HumanMessage([{"type": "text", "text": "a"}, {"type": "image_url"}, "b"])]) == "a b"


@FUZZ
@given(st.lists(st.integers(0, 6_000), max_size=8))
def test_a_long_text_leaves_room_for_the_others(lengths: list[int]) -> None:
    text = search_text([HumanMessage(chr(97 + index) * length) for index, length in enumerate(lengths)])
    said = [length for length in lengths if length]
    assert len(text) <= TEXT_LIMIT
    if sum(said) + len(said) <= TEXT_LIMIT:
        assert len(text) == sum(said) + max(0, len(said) - 1)
    for index, length in enumerate(lengths):
        assert text.count(chr(97 + index)) >= min(length, (TEXT_LIMIT - len(said)) // max(1, len(said)))


def test_what_a_reader_sees_is_counted() -> None:
    assert count_visible(MESSAGES) == 2
    assert count_visible([]) == 0


def test_a_scope_has_no_tasks_in_it() -> None:
    assert scope_of("t", "") == Scope("t", "")
    assert scope_of("t", "chat:1-2|inner:3") == scope_of("t", "chat:4|inner") == Scope("t", "chat|inner")


# Words


def test_words_of_any_script() -> None:
    assert prepared("The CAFÉ, naïve_case") == "the cafe naive case"
    assert prepared("北京的天气 ok") == "北京 京的 的天 天气 气 ok"
    assert prepared("GPT4中文x") == "gpt4 中文 文 x"
    assert prepared("\x00 \ud800 ?!") == ""
    assert prepared("が ｶﾞ") == "が ガ"


def test_a_query_has_a_bounded_number_of_words() -> None:
    assert [term.word for term in query_terms("a b a 中 中文")] == ["a", "b", "中", "中文"]
    assert len(query_terms(" ".join(f"w{number}" for number in range(9_000)))) == MAX_TERMS
    assert len(query_terms("".join(chr(0x4E00 + number) for number in range(9_000)))) == MAX_TERMS


def test_rarer_words_and_shorter_texts_count_for_more() -> None:
    texts = [("a", "common rare"), ("b", "common common"), ("c", "common"), ("d", "other")]
    scores = rank(texts, "common rare")
    assert max(scores, key=lambda key: scores[key]) == "a"
    assert scores["b"] > 0
    assert "d" not in scores
    assert rank([], "common") == rank(texts, "") == {}


@pytest.mark.parametrize("text", ["word ", "天气", "é", "\ud800", "_"])
def test_words_take_linear_time(text: str) -> None:
    def seconds(size: int) -> float:
        whole = text * (size // len(text))
        start = time.thread_time()
        prepared(whole)
        return time.thread_time() - start

    assert is_linear(seconds, 1_000_000)
