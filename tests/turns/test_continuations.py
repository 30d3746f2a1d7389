"""Replies that were cut off: how they go on, how often, and what is kept when they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage


def cut(content: str) -> dict[str, Any]:
    return {"reply": {"content": content, "finish_reason": "length"}}


FAILS = {"error": {"status": 400, "message": "no"}}
TOO_LONG = {"error": {"status": 400, "message": "too long", "code": "context_length_exceeded"}}


def test_an_empty_continuation_ends_the_answer(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(cut("This is all"), says("")))
    played = stage.play(stage.graph(provider), "Go.")
    assert (played.answer, played.status) == ("This is all", "finished")
    assert not played.of("nudge")
    assert len(provider.requests) == 2


def test_a_continuation_of_thoughts_alone_ends_the_answer(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(cut("This is all"), says("<think>Was it?</think>")))
    played = stage.play(stage.graph(provider), "Go.")
    assert (played.answer, played.status) == ("This is all", "finished")
    assert not played.of("nudge")


def test_a_failed_continuation_keeps_the_text(stage: Stage, fake_provider: Start) -> None:
    played = stage.play(stage.graph(fake_provider(script(cut("This is"), FAILS))), "Go.")
    assert (played.answer, played.status) == ("This is", "finished_degraded")
    assert played.outcome["partial"]
    assert played.outcome["stop_reason"] == "provider_error"


def test_a_continuation_that_is_too_long_keeps_the_text(stage: Stage, fake_provider: Start) -> None:
    played = stage.play(stage.graph(fake_provider(script(cut("This is"), TOO_LONG))), "Go.")
    assert (played.answer, played.status) == ("This is", "context_overflow")
    assert played.outcome["partial"]
    assert played.messages[-1].additional_kwargs["turnflow"]["partial"]


def test_each_message_has_its_own_continuations(stage: Stage, fake_provider: Start) -> None:
    first = [cut("a"), cut("b"), cut("c"), calls(call("add", a=1, b=2), content="d")]
    second = [cut("e"), cut("f"), cut("g"), says("h")]
    provider = fake_provider(script(*first, *second))
    played = stage.play(stage.graph(provider, settings={"max_continuations": 3}), "Go.")
    assert (played.answer, played.status) == ("efgh", "finished")
    assert not played.outcome["partial"]
    assert [m.content for m in played.messages] == ["Go.", "abcd", "3", "efgh"]
    assert played.outcome["rounds"] == 2


def test_one_message_is_continued_so_often_and_no_more(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(cut("a"), cut("b"), cut("c")))
    played = stage.play(stage.graph(provider, settings={"max_continuations": 2}), "Go.")
    assert (played.answer, played.status, played.outcome["partial"]) == ("abc", "finished_truncated", True)


@pytest.mark.parametrize(
    ("content", "finish_reason", "limits"),
    [
        ("<think>I wonder", "length", [50, 100]),
        ("<think>I wonder</think>", "stop", [50, 50]),
        ("", "length", [50, 50]),
        ("", "stop", [50, 50]),
    ],
)
def test_only_a_thought_that_was_cut_off_gets_more_output(
    stage: Stage, fake_provider: Start, content: str, finish_reason: str, limits: list[int]
) -> None:
    silent = {"reply": {"content": content, "finish_reason": finish_reason}}
    provider = fake_provider(script(silent, says("Hi.")))
    played = stage.play(stage.graph(provider, settings={"max_output_tokens": 50}), "Go.")
    assert played.answer == "Hi."
    assert [request["max_tokens"] for request in provider.requests] == limits
