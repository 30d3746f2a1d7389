"""Transcripts that no strict provider would take as they are, each followed by a second turn."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage, add


def calling(*ids: Any, name: str = "add", content: Any = "", **fields: Any) -> AIMessage:
    tool_calls = [{"id": call_id, "name": name, "args": {"a": 1, "b": 2}} for call_id in ids]
    return AIMessage(content, tool_calls=tool_calls, **fields)


def result(call_id: str, content: Any = "3") -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id)


USER = HumanMessage("Go.")
ODD: dict[str, list[Any]] = {
    "assistant greets first": [AIMessage("Hello."), USER],
    "assistant calls first": [calling("o1"), result("o1"), USER],
    "result of nothing": [USER, calling("o1"), result("o1", ""), HumanMessage("Then?")],
    "result without blocks": [USER, calling("o1"), result("o1", []), HumanMessage("Then?")],
    "result without a call": [USER, result("nobody"), HumanMessage("Then?")],
    "texts instead of blocks": [HumanMessage(["hello", "there"])],
    "blank text blocks": [
        HumanMessage([{"type": "text", "text": " "}, {"type": "text", "text": "hello"}, ""]),
        AIMessage([{"type": "text", "text": ""}]),
        HumanMessage("Then?"),
    ],
    "blocks without a text": [HumanMessage([{"type": "text"}, {"type": "text", "text": None}, "hello"])],
    "calls that could not be read": [
        USER,
        AIMessage(
            "",
            invalid_tool_calls=[
                {"id": "o1", "name": "add", "args": "{", "error": "no JSON", "type": "invalid_tool_call"}
            ],
        ),
        HumanMessage("Then?"),
    ],
    "no id": [USER, calling(None, content="I add."), HumanMessage("Then?")],
    "empty id": [USER, calling("", content="I add."), HumanMessage("Then?")],
    "one id in two turns": [
        *[USER, calling("o1"), result("o1"), AIMessage("3.")],
        *[HumanMessage("Again."), calling("o1"), result("o1"), AIMessage("3.")],
        HumanMessage("Then?"),
    ],
    "one id twice in a message": [USER, calling("o1", "o1"), result("o1"), HumanMessage("Then?")],
    "names with dots": [USER, calling("o1", name="math.add/1"), result("o1"), HumanMessage("Then?")],
    "names without end": [USER, calling("o1", name="add" * 40), result("o1"), HumanMessage("Then?")],
    "names without letters": [USER, calling("o1", name=" "), result("o1"), HumanMessage("Then?")],
    "thoughts alone": [
        USER,
        AIMessage([{"type": "thinking", "thinking": "Hm."}, {"type": "reasoning", "reasoning": "Hm."}]),
        HumanMessage("Then?"),
    ],
    "fields of other providers": [
        USER,
        AIMessage(
            "Hello.",
            name="bot",
            additional_kwargs={
                "function_call": {"name": "add", "arguments": "{}"},
                "audio": {"id": "a1"},
                "refusal": None,
            },
        ),
        HumanMessage("Then?", name="ann"),
    ],
    "roles by name": [
        ChatMessage(content="Be kind.", role="system"),
        ChatMessage(content="Be brief.", role="developer"),
        ChatMessage(content="Hello.", role="user"),
        ChatMessage(content="Hello.", role="assistant"),
        ChatMessage(content="I am a critic.", role="critic"),
        USER,
    ],
    "results of functions": [USER, FunctionMessage(content="3", name="add"), HumanMessage("Then?")],
    "several system messages": [
        USER,
        SystemMessage("Be kind."),
        AIMessage("Hello."),
        SystemMessage("Be brief."),
        HumanMessage("Then?"),
    ],
    "one after the other": [USER, HumanMessage("Then?"), AIMessage("a"), AIMessage("b"), HumanMessage("c")],
    "an open call": [USER, calling("o1", "o2"), result("o2"), HumanMessage("Then?")],
    "half characters": [
        HumanMessage("Go \ud83d."),
        AIMessage([{"type": "text", "text": "Hi \udc00."}]),
        HumanMessage("Then \ude00?"),
    ],
}


@pytest.mark.parametrize("given", ODD.values(), ids=ODD.keys())
def test_a_strict_provider_takes_two_turns(stage: Stage, fake_provider: Start, given: list[Any]) -> None:
    provider = fake_provider(
        script(calls(call("add", "c1", a=1, b=2)), says("It is 3."), says("Goodbye.")), strict=True
    )
    graph = stage.graph(provider, tools=[add])
    first = stage.play(graph, {"messages": [m.model_copy(deep=True) for m in given]}, laws=False)
    assert (first.answer, first.status) == ("It is 3.", "finished")
    second = stage.play(graph, "And now?", laws=False)
    assert (second.answer, second.status) == ("Goodbye.", "finished")
    assert len(provider.requests) == 3


def test_roles_by_name_keep_their_meaning(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Hello.")), strict=True)
    stage.play(stage.graph(provider), {"messages": ODD["roles by name"]}, laws=False)
    system, first, *rest = provider.requests[0]["messages"]
    assert system["content"].endswith("Be kind.\n\nBe brief.")
    assert first == {"role": "user", "content": "Hello."}
    assert rest == [
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "I am a critic.\n\nGo."},
    ]
