"""What is read off a reply and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from turnflow.apps.doctor.reply import Refusal, Reply, refusal_in, shortened
from turnflow.apps.doctor.thoughts import Thought, thought_in


@pytest.mark.parametrize(
    ("status", "body", "refusal"),
    [
        (400, {"error": {"message": "no", "code": "c", "param": "p"}}, Refusal(400, "no", "c", "p")),
        (404, {"error": "model 'x' not found"}, Refusal(404, "model 'x' not found")),
        (400, {"object": "error", "message": "no", "code": 40303}, Refusal(400, "no", "40303")),
        (422, {"detail": [{"loc": ["body", "top_p"], "msg": "Extra"}]}, Refusal(422, "top_p: Extra")),
        (422, {"message": {"detail": [{"loc": ["body"], "msg": "Extra"}]}}, Refusal(422, "Extra")),
        (502, "<html>Bad Gateway</html>", Refusal(502, "<html>Bad Gateway</html>")),
        (400, {"error": {"message": "a", "metadata": {"raw": "b"}}}, Refusal(400, "a: b")),
        (200, {"error": {"message": "no", "code": 429}}, Refusal(429, "no", "429")),
        (200, {"error": {"message": "no", "type": "invalid_request_error"}}, Refusal(400, "no")),
        (200, {"error": {"message": "no"}}, Refusal(500, "no")),
        (400, {"error": {}}, Refusal(400, "{}")),
        (400, None, Refusal(400, "")),
    ],
)
def test_the_shapes_of_errors(status: int, body: Any, refusal: Refusal) -> None:
    assert refusal_in(status, body) == refusal


@pytest.mark.parametrize(
    ("reply", "taken"),
    [
        (Reply(status=200, frames=[{"choices": [{"delta": {"content": "x"}}]}]), True),
        (Reply(status=200, frames=[{"choices": []}]), None),
        (Reply(status=200), None),
        (Reply(status=200, problem="no JSON", frames=[{"choices": [{"delta": {"content": "x"}}]}]), None),
        (Reply(refusal=Refusal(400, "")), False),
        (Reply(refusal=Refusal(422, "")), False),
        (Reply(refusal=Refusal(401, "")), None),
        (Reply(refusal=Refusal(429, "image")), None),
        (Reply(refusal=Refusal(500, "oops")), None),
        (Reply(refusal=Refusal(500, "Image input is not supported")), False),
        (Reply(), None),
    ],
)
def test_what_counts_as_a_no(reply: Reply, *, taken: bool | None) -> None:
    assert reply.taken(("image",)) is taken


def test_text_and_reason_of_a_whole_body() -> None:
    message = {"content": "hi", "reasoning": "hm", "tool_calls": [{"id": "c"}, 3]}
    reply = Reply(status=200, frames=[{"choices": [{"message": message, "finish_reason": "length"}]}])
    assert (reply.text, reply.reasoning_field, reply.call_deltas) == ("hi", "reasoning", [[{"id": "c"}]])
    assert reply.is_cut_off


def test_a_long_text_is_cut() -> None:
    assert shortened("a\n  b") == "a b"
    assert len(shortened("x" * 1000)) == 160


@pytest.mark.parametrize(
    ("content", "thought"),
    [
        ("<think>a</think>b", Thought("think", True, True, "b")),
        ("\n<Thinking mode='x'>a</thinking >b", Thought("thinking", True, True, "b")),
        ("a</think>b", Thought("think", False, True, "b")),
        ("<think>a", Thought("think", True, False, "")),
        ("plain", Thought("", False, False, "plain")),
    ],
)
def test_thoughts_in_a_content(content: str, thought: Thought) -> None:
    assert thought_in(content) == thought
