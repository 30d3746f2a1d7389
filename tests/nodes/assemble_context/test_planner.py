"""The plan of a request: strict roles, paired calls, directives in the last user message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.graph.test_transcript import ai, result
from turnflow import PlanInput, plan_context
from turnflow.graph.strict_projection import project
from turnflow.nodes.assemble_context.manifest import explain

NAMES = st.sampled_from(["1", "2", "3"])
TEXTS = st.sampled_from(["", " ", "text", "more"])
MESSAGES: st.SearchStrategy[Any] = st.one_of(
    st.builds(HumanMessage, TEXTS),
    st.builds(lambda text: HumanMessage([{"type": "text", "text": text}]), TEXTS),
    st.builds(SystemMessage, TEXTS),
    st.builds(AIMessage, TEXTS),
    st.builds(lambda calls: ai("a", *calls), st.lists(NAMES, unique=True, min_size=1, max_size=3)),
    st.builds(result, NAMES),
)


def check_strict(messages: list[BaseMessage]) -> None:
    waiting: set[str] = set()
    before: BaseMessage | None = None
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting
            waiting.discard(message.tool_call_id)
        else:
            assert not waiting
            if not isinstance(message, AIMessage) or not message.tool_calls:
                assert message.content
            assert not (isinstance(message, SystemMessage) and before)
            assert not (isinstance(message, HumanMessage) and isinstance(before, HumanMessage | ToolMessage))
            if isinstance(message, AIMessage) and isinstance(before, AIMessage):
                assert before.tool_calls
            if isinstance(message, AIMessage):
                waiting = {str(call["id"]) for call in message.tool_calls}
        before = message
    assert not waiting


@given(st.lists(MESSAGES, max_size=14))
def test_projection_suits_a_strict_provider(messages: list[Any]) -> None:
    check_strict(project(messages))


@given(st.lists(MESSAGES, max_size=10))
def test_projection_is_stable(messages: list[Any]) -> None:
    once = project(messages)
    assert project(once) == once


@given(st.lists(MESSAGES, max_size=10))
def test_projection_loses_no_words_of_the_user(messages: list[Any]) -> None:
    said = "".join(str(m.text) for m in project(messages) if isinstance(m, HumanMessage))
    for message in messages:
        if isinstance(message, HumanMessage) and message.text.strip():
            assert message.text in said


def test_directives_go_into_the_last_user_message() -> None:
    messages = [HumanMessage("go", id="h"), ai("a", "1"), result("1")]
    request, manifest = plan_context(
        PlanInput(
            messages=messages, system="S", directives=[{"key": "settle", "text": "Settle."}], tools=["t"]
        )
    )
    assert [m.content for m in request] == ["S", "go\n\nSettle.", "x", "r"]
    assert (manifest["directives"], manifest["tools"]) == (["settle"], ["t"])
    assert explain(manifest, messages) == [("h", "current"), ("a", "current"), ("r-1-r", "current")]


def test_a_continuation_is_asked_for_behind_the_partial_reply() -> None:
    messages = [HumanMessage("go", id="h"), AIMessage("One, tw", id="a")]
    directives = [{"key": "continue", "text": "Go on."}]
    request, _ = plan_context(PlanInput(messages=messages, directives=directives, continuing=True))
    assert [m.content for m in request] == ["go", "One, tw", "Go on."]


def test_the_model_gets_back_what_it_wrote() -> None:
    own = {
        "turnflow": {"raw": "<think>hm</think>hi", "thinking": "hm", "label": None},
        "reasoning_content": "r",
    }
    messages = [
        HumanMessage("go", id="h"),
        AIMessage("hi", id="a", additional_kwargs=own),
        HumanMessage("on", id="i"),
    ]
    request, _ = plan_context(PlanInput(messages=messages))
    assert request[1].content == "<think>hm</think>hi"
    assert request[1].additional_kwargs == {"reasoning_content": "r"}


def test_planning_changes_nothing_that_it_was_given() -> None:
    messages = [HumanMessage("a", id="1"), HumanMessage("b", id="2")]
    plan_context(PlanInput(messages=messages, directives=[{"key": "k", "text": "t"}]))
    assert [m.content for m in messages] == ["a", "b"]


def test_same_input_gives_the_same_plan() -> None:
    plan = PlanInput(messages=[HumanMessage("a", id="1")], system="S")
    assert plan_context(plan) == plan_context(plan)
