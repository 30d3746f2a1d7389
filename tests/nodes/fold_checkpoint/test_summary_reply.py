"""What a summariser answered, read."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.linear_time import is_linear
from turnflow.graph.profile import THINK_TAGS
from turnflow.nodes.fold_checkpoint.summary_reply import read_reply, without_thoughts


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("Ann wants tea.", "Ann wants tea."),
        ("<think>Hm.</think>\nAnn wants tea.", "Ann wants tea."),
        ("<THINK a='1'>Hm <think>deep</think> er</think>Tea.", "Tea."),
        ("so the user wants\n</think>Tea.", "Tea."),
        ("Tea.<think>for ever", "Tea."),
        ("<summary>\nTea.\n</summary>", "Tea."),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
    ],
)
def test_thoughts_and_fences_are_no_summary(text: str, summary: str) -> None:
    assert read_reply(AIMessage(content=text), THINK_TAGS).text == summary


def test_a_thought_that_the_prompt_opened_is_none_either() -> None:
    assert without_thoughts("Hm.</think>Tea.", THINK_TAGS, starts_thinking=True) == "Tea."
    assert without_thoughts("Tea.", THINK_TAGS, starts_thinking=True) == "Tea."


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (AIMessage(content=" \n"), "empty"),
        (AIMessage(content="<think>Hm.</think>"), "empty"),
        (AIMessage(content="Tea.", tool_calls=[{"name": "f", "args": {}, "id": "c"}]), "calls"),
        (AIMessage(content="Tea and", response_metadata={"finish_reason": "length"}), "too_long"),
    ],
)
def test_some_answers_are_no_summary(message: AIMessage, why: str) -> None:
    reply = read_reply(message, THINK_TAGS)
    assert (reply.text, reply.why) == ("", why)


def test_usage_is_read_and_nonsense_counts_as_none() -> None:
    usage: Any = {"input_tokens": 9, "output_tokens": -3, "total_tokens": 6}
    usage["input_token_details"] = {"cache_read": 4}
    reply = read_reply(AIMessage(content="Tea.", usage_metadata=usage), ())
    assert reply.usage == {"requests": 1, "input": 9, "output": 0, "cached": 4, "reasoning": 0}
    assert read_reply("Tea.", ()).usage["requests"] == 1


def test_a_plain_text_is_a_summary_too() -> None:
    assert read_reply("Tea.", THINK_TAGS).text == "Tea."
    assert read_reply(None, THINK_TAGS).why == "empty"


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<think ", "< ", "<summary>"])
def test_reading_takes_time_in_proportion(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.thread_time()
        read_reply(AIMessage(content=text), THINK_TAGS)
        return time.thread_time() - start

    assert is_linear(seconds, 1_000_000)
