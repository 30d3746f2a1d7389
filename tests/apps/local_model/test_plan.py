from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnflow.apps.local_model.plan import (
    CHAT_SYSTEM,
    MAX_EXCHANGE_CHARS,
    MAX_SYSTEM_CHARS,
    Plan,
    plan_request,
    rough_tokens,
)


def tool(name: str, argument: str = "expression", kind: str = "string") -> dict[str, Any]:
    parameters = {"type": "object", "properties": {argument: {"type": kind}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": "…", "parameters": parameters}}


CALCULATE = tool("calculate")
SUM = HumanMessage("What is 17 * 23?")


def called(expression: str, call_id: str = "c1") -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": "calculate", "args": {"expression": expression}, "id": call_id}]
    )


def last(plan: Plan) -> str:
    return plan.messages[-1]["content"]


def test_a_sum_with_the_calculator_at_hand_becomes_a_call() -> None:
    plan = plan_request([SUM], tools=[tool("now", "timezone"), CALCULATE])

    assert plan.kind == "call"
    assert plan.grammar is not None
    assert last(plan) == "What is 17 * 23?"


def test_chinese_operator_words_reach_it_as_signs() -> None:
    assert last(plan_request([HumanMessage("17乘以23是多少？")], tools=[CALCULATE])).startswith("17 * 23")


@pytest.mark.parametrize(
    "tools",
    [[], [tool("now")], [tool("calculate", "formula")], [tool("calculate", "expression", "integer")]],
)
def test_without_a_calculator_it_knows_it_chats(tools: list[dict[str, Any]]) -> None:
    assert plan_request([SUM], tools=tools).kind == "chat"


@pytest.mark.parametrize(
    ("choice", "for_a_greeting", "for_a_sum"),
    [
        ("none", "chat", "chat"),
        (None, "chat", "call"),
        ("auto", "chat", "call"),
        ("required", "call", "call"),
        ({"type": "function", "function": {"name": "calculate"}}, "call", "call"),
    ],
)
def test_the_callers_tool_choice_is_followed(choice: object, for_a_greeting: str, for_a_sum: str) -> None:
    assert plan_request([HumanMessage("Hi")], tools=[CALCULATE], tool_choice=choice).kind == for_a_greeting
    assert plan_request([SUM], tools=[CALCULATE], tool_choice=choice).kind == for_a_sum


def test_after_a_result_it_is_asked_for_the_answer() -> None:
    plan = plan_request([SUM, called("17 * 23"), ToolMessage("391", tool_call_id="c1")], tools=[CALCULATE])

    assert plan.kind == "answer"
    assert plan.grammar is None
    assert [text["content"] for text in plan.messages[-3:]] == [
        "What is 17 * 23?",
        'calculate("17 * 23")',
        "17 * 23 = 391",
    ]


def test_system_notes_after_the_result_change_nothing() -> None:
    talk: list[BaseMessage] = [SUM, called("17 * 23"), ToolMessage("391", tool_call_id="c1")]

    assert plan_request([*talk, SystemMessage("Finish now.")]) == plan_request(talk)


def test_a_long_result_is_cut() -> None:
    plan = plan_request([SUM, called("17 * 23"), ToolMessage("9" * 10_000, tool_call_id="c1")])

    assert len(last(plan)) <= MAX_EXCHANGE_CHARS


def test_a_result_without_its_call_is_named_by_its_tool() -> None:
    plan = plan_request([SUM, ToolMessage("noon", tool_call_id="c9", name="now")])

    assert last(plan) == "now = noon"


def test_calls_and_answers_look_at_the_last_question_only() -> None:
    earlier = [HumanMessage("What is 1 + 1?"), called("1 + 1", "c0"), ToolMessage("2", tool_call_id="c0")]

    assert plan_request([*earlier, AIMessage("2"), SUM], tools=[CALCULATE]) == plan_request(
        [SUM], tools=[CALCULATE]
    )


def test_a_chat_leaves_out_calls_and_results() -> None:
    talk = [
        SUM,
        called("17 * 23"),
        ToolMessage("391", tool_call_id="c1"),
        AIMessage("It is 391."),
        HumanMessage("Thanks!"),
    ]

    plan = plan_request(talk, tools=[CALCULATE])

    assert plan.kind == "chat"
    assert [text["content"] for text in plan.messages[-3:]] == ["What is 17 * 23?", "It is 391.", "Thanks!"]


def test_a_short_system_prompt_is_used_and_a_long_one_left_out() -> None:
    short = plan_request([SystemMessage("You are a pirate."), HumanMessage("Hello!")])
    long = plan_request([SystemMessage("Be exact. " * MAX_SYSTEM_CHARS), HumanMessage("Hello!")])

    assert [text["content"] for text in short.messages] == ["You are a pirate.", "Hello!"]
    assert long.messages[0]["content"] == CHAT_SYSTEM


def test_a_chat_keeps_the_last_messages_that_fit() -> None:
    talk = [HumanMessage(f"message {number} " + "word " * 100) for number in range(50)]

    plan = plan_request(talk, room_tokens=1000)

    kept = [text["content"] for text in plan.messages if text["content"].startswith("message")]
    assert 3 < len(kept) < 10
    assert kept == [str(message.text) for message in talk[-len(kept) :]]


def test_a_message_that_is_too_long_by_itself_keeps_its_end() -> None:
    plan = plan_request([HumanMessage("1" * 100_000 + " the end")], room_tokens=1000)

    assert last(plan).endswith("the end")
    assert len(last(plan)) == 1000


def test_text_blocks_are_read() -> None:
    plan = plan_request([HumanMessage([{"type": "text", "text": "What is 2 + 3?"}])], tools=[CALCULATE])

    assert last(plan) == "What is 2 + 3?"


def test_an_empty_conversation_is_a_chat() -> None:
    assert plan_request([], tools=[CALCULATE]).kind == "chat"


def test_other_scripts_cost_more() -> None:
    assert rough_tokens("word " * 30) < 60
    assert rough_tokens("你好") >= 6
