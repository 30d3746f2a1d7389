"""The reducer of the transcript: its laws, and where results land."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from turnflow.graph.transcript import merge_messages, open_calls


def ai(message_id: str, *call_ids: str) -> AIMessage:
    tool_calls: list[Any] = [{"id": i, "name": "t", "args": {}, "type": "tool_call"} for i in call_ids]
    return AIMessage(content="x", id=message_id, tool_calls=tool_calls)


def result(call_id: str, content: str = "r", message_id: str | None = None) -> ToolMessage:
    return ToolMessage(content=content, tool_call_id=call_id, id=message_id or f"r-{call_id}-{content}")


def ids(messages: list[Any]) -> list[str]:
    return [m.id for m in messages]


def test_results_stand_behind_their_call_in_the_models_order() -> None:
    late = merge_messages(
        [ai("a", "1", "2", "3"), HumanMessage("next", id="h")], [[result("3"), result("1")], result("2")]
    )
    assert ids(late) == ["a", "r-1-r", "r-2-r", "r-3-r", "h"]


def test_the_first_result_of_a_call_wins() -> None:
    merged = merge_messages([ai("a", "1")], [result("1", "first"), result("1", "second")])
    assert [m.content for m in merged] == ["x", "first"]


def test_a_call_id_used_again_belongs_to_the_newest_call() -> None:
    merged = merge_messages([ai("a", "1"), result("1", "old"), ai("b", "1")], [result("1", "new")])
    assert [m.content for m in merged] == ["x", "old", "x", "new"]


@pytest.mark.parametrize("form", ["hi", ("user", "hi"), {"role": "user", "content": "hi"}])
def test_any_form_of_message_gets_a_stable_id(form: Any) -> None:
    first, again = merge_messages([], [[form]]), merge_messages([], [[form]])
    assert first[0].content == "hi"
    assert first[0].id
    assert ids(first) == ids(again)


def test_known_ids_replace_and_removals_remove() -> None:
    state = [HumanMessage("a", id="1"), HumanMessage("b", id="2")]
    assert [m.content for m in merge_messages(state, [HumanMessage("c", id="1")])] == ["c", "b"]
    assert ids(merge_messages(state, [RemoveMessage(id="1"), RemoveMessage(id="unknown")])) == ["2"]
    assert ids(
        merge_messages(state, [[RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("z", id="9")]])
    ) == ["9"]


def test_chunks_become_messages() -> None:
    (message,) = merge_messages([], [AIMessageChunk(content="x", id="1")])
    assert type(message) is AIMessage


def test_open_calls() -> None:
    found = open_calls([ai("a", "1", "2"), result("1"), ai("b", "3")])
    assert [(owner, call["id"]) for owner, call in found] == [("a", "2"), ("b", "3")]


NAMES = st.sampled_from(["1", "2", "3"])
MESSAGES: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(lambda i: HumanMessage("h", id=f"h{i}"), NAMES),
    st.builds(lambda i, calls: ai(f"a{i}", *calls), NAMES, st.lists(NAMES, unique=True, max_size=3)),
    st.builds(result, NAMES, st.sampled_from("xy")),
    st.builds(lambda i: RemoveMessage(id=f"h{i}"), NAMES),
    st.just(RemoveMessage(id=REMOVE_ALL_MESSAGES)),
)


@given(st.lists(st.lists(MESSAGES, max_size=4), max_size=8), st.integers(0, 8))
def test_batching_does_not_matter(writes: list[list[BaseMessage]], cut: int) -> None:
    whole = merge_messages([], writes)
    in_parts = merge_messages(merge_messages([], writes[:cut]), writes[cut:])
    one_by_one: list[Any] = []
    for write in writes:
        one_by_one = merge_messages(one_by_one, [write])
    assert whole == in_parts == one_by_one


@given(st.lists(MESSAGES, max_size=12))
def test_no_call_ever_has_two_results(messages: list[BaseMessage]) -> None:
    merged = merge_messages([], [messages])
    behind: set[str] = set()
    for message in merged:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id not in behind
            behind.add(message.tool_call_id)
        else:
            behind = set()


def test_long_transcripts_merge_in_linear_time() -> None:
    def seconds(count: int) -> float:
        messages: list[BaseMessage] = []
        for n in range(count):
            messages += [HumanMessage("q", id=f"h{n}"), ai(f"a{n}", f"c{n}"), result(f"c{n}")]
        started = time.process_time()
        merge_messages([], [[message] for message in messages])
        return time.process_time() - started

    best = [min(seconds(count) for _ in range(3)) for count in (1000, 4000)]
    assert best[1] / best[0] < 8


def test_results_that_share_an_id_both_stay_under_ids_of_their_own() -> None:
    merged = merge_messages(
        [ai("a", "1", "2")], [[result("1", message_id="same"), result("2", message_id="same")]]
    )
    assert len({m.id for m in merged}) == 3
