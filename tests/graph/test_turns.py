"""The transcript as turns, and what is pinned in it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, HumanMessageChunk, SystemMessage

from tests.graph.test_transcript import ai, ids, result
from turnflow.graph.turns import TurnSpan, is_pinned, last_turns, pinned, pinned_groups, turn_spans

MESSAGES: st.SearchStrategy[Any] = st.one_of(
    st.builds(HumanMessage, st.just("u"), id=st.sampled_from(["1", "2"])),
    st.builds(HumanMessageChunk, content=st.just("u")),
    st.builds(AIMessage, st.just("a")),
    st.builds(SystemMessage, st.just("s")),
    st.builds(result, st.sampled_from(["1", "2"])),
)


def test_a_turn_begins_with_a_user_message() -> None:
    messages = [
        AIMessage("hi"),
        HumanMessage("a", id="1"),
        ai("x", "c"),
        result("c"),
        HumanMessage("b", id="2"),
    ]
    assert turn_spans(messages) == [TurnSpan(0, 1, ""), TurnSpan(1, 4, "1"), TurnSpan(4, 5, "2")]
    assert turn_spans([]) == []


@given(st.lists(MESSAGES, max_size=12))
def test_each_message_is_in_exactly_one_turn(messages: list[Any]) -> None:
    spans = turn_spans(messages)
    assert [at for span in spans for at in range(span.start, span.end)] == list(range(len(messages)))
    assert all(isinstance(messages[span.start], HumanMessage) for span in spans[1:])
    assert sum(isinstance(m, HumanMessage) for m in messages) in {len(spans), len(spans) - 1}


def test_what_is_pinned_says_so_and_stays() -> None:
    note = pinned(HumanMessage("remember", id="p", additional_kwargs={"x": 1, "turnflow": {"y": 2}}))
    assert is_pinned(note)
    assert note.additional_kwargs == {"x": 1, "turnflow": {"y": 2, "pinned": True}}
    assert not is_pinned(HumanMessage("x", additional_kwargs={"turnflow": {"pinned": "yes"}}))
    messages = [note, AIMessage("ok", id="a"), HumanMessage("b", id="b"), HumanMessage("c", id="c")]
    assert ids(last_turns(messages, 1)) == ["p", "c"]
    assert ids(last_turns(messages, 0)) == ["p"]
    assert last_turns(messages, 5) == messages


def test_a_pinned_result_keeps_its_round_whole() -> None:
    group: list[Any] = [ai("a", "1", "2"), result("1"), pinned(result("2"))]
    messages = [HumanMessage("u", id="u"), *group, AIMessage("done", id="d")]
    assert pinned_groups(messages) == group
    assert pinned_groups([HumanMessage("u"), *group[:2], AIMessage("done")]) == []
