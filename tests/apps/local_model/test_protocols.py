"""The embedded model under labels and JSON decisions, held to them by a grammar and by a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from turnflow import build_turn_graph, run_turn
from turnflow.apps.example_tools import calculate
from turnflow.apps.local_model import LocalChatModel, LocalModelServer

SETTINGS = {
    "max_output_tokens": 200,
    "ask_user": False,
    "max_rounds": 3,
    "settle_rounds": 0,
    "max_continuations": 0,
}


def example(number: int, question: str, expression: str, result: str) -> list[BaseMessage]:
    """A turn with the calculator; a model of this size does as it was done before, not as it is told."""
    call = {"id": f"c{number}", "name": "calculate", "args": {"expression": expression}}
    return [
        HumanMessage(question, id=f"u{number}"),
        AIMessage("", id=f"a{number}", tool_calls=[{**call, "type": "tool_call"}]),
        ToolMessage(result, id=f"t{number}", tool_call_id=f"c{number}", name="calculate"),
        AIMessage(f"{expression} is {result}.", id=f"b{number}"),
    ]


BEFORE = [
    *example(1, "What is 4 + 5?", "4 + 5", "9"),
    HumanMessage("Hi!", id="u2"),
    AIMessage("Hello! How can I help you today?", id="b2"),
    *example(3, "Please divide 84 by 7", "84 / 7", "12"),
]


@pytest.fixture(scope="module")
def model() -> Iterator[LocalChatModel]:
    with LocalModelServer() as server:
        yield LocalChatModel(server=server)


def play(
    model: LocalChatModel, protocol: Any, question: str, before: Sequence[BaseMessage] = BEFORE
) -> tuple[Any, list[str], list[str]]:
    """The result of a turn, the violations in it, and its labels or actions."""
    graph = build_turn_graph(model, [calculate], protocol=protocol, settings=SETTINGS)
    events: list[dict[str, Any]] = []
    result = run_turn(graph, [*before, HumanMessage(question)], on_event=events.append)
    broken = [event["key"] for event in events if event["type"] in {"repair", "nudge"}]
    return result, broken, [event["label"] for event in events if event["type"] == "label"]


@pytest.mark.local_model
@pytest.mark.parametrize(
    ("protocol", "calls", "answers"), [("label", "TOOL", "FINISH"), ("json", "call_tool", "reply")]
)
class TestHeldToItsProtocol:
    def test_a_question_for_the_tool(
        self, model: LocalChatModel, protocol: str, calls: str, answers: str
    ) -> None:
        result, broken, labels = play(model, protocol, "What is 17 * 23?")
        assert (result.status, broken, labels) == ("finished", [], [calls, answers])
        made = [call for m in result.messages[len(BEFORE) :] for call in getattr(m, "tool_calls", [])]
        assert [(call["name"], call["args"]) for call in made] == [("calculate", {"expression": "17 * 23"})]
        assert "391" in result.answer

    def test_no_rule_is_broken_whatever_is_asked(
        self, model: LocalChatModel, protocol: str, calls: str, answers: str
    ) -> None:
        for question in ("Hello!", "What is the capital of Italy?", "``TOOL`` or {}?"):
            result, broken, labels = play(model, protocol, question)
            assert broken == []
            assert set(labels) <= {calls, answers, "THINK", "PAUSE"}
            assert result.status in {"finished", "finished_truncated", "finished_budget"}
            assert result.answer.strip()
