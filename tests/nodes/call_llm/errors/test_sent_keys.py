"""Keys stand in no text of an error, whoever quotes them."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from turnflow.nodes.call_llm.errors import describe_error
from turnflow.nodes.call_llm.errors.sent_keys import without_keys

KEY = "plain-key-of-mine"


def refused(text: str, **headers: str) -> openai.APIStatusError:
    request = httpx2.Request("POST", "https://h.example/v1", headers=headers)
    response = httpx2.Response(401, request=request)
    return openai.AuthenticationError(text, response=response, body={"message": text})


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"Authorization": KEY},
        {"api-key": KEY},
        {"x-goog-api-key": KEY},
        {"Ocp-Apim-Subscription-Key": KEY},
    ],
)
def test_a_key_that_was_sent_is_taken_out(headers: dict[str, str]) -> None:
    told = describe_error(refused(f"no such key: {KEY}, sorry", **headers))
    assert told["message"] == "no such key: [redacted], sorry"


def test_the_request_is_found_behind_other_errors() -> None:
    outer = RuntimeError(f"it failed with {KEY}")
    outer.__cause__ = refused("no", authorization=f"Bearer {KEY}")
    assert describe_error(outer)["message"] == "it failed with [redacted]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("you sent Bearer sk-secret-abc12345", "you sent [redacted]"),
        ("Incorrect API key provided: abc12345.", "Incorrect [redacted]"),
        ("at https://me:hidden@h.example/v1", "at https://[redacted]@h.example/v1"),
        ("at https://h.example/v1?key=hidden", "at https://h.example/v1?[redacted]"),
        ("max_tokens: 100000 is too large", "max_tokens: 100000 is too large"),
        ("a short key: ab", "a short key: ab"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, told: str) -> None:
    assert describe_error(ValueError(text))["message"] == told


def test_a_key_that_is_cut_off_at_the_end_leaves_nothing_behind() -> None:
    text = "x" * 490 + f" {KEY}"
    message = describe_error(refused(text, authorization=f"Bearer {KEY}"))["message"]
    assert "plain" not in message


@pytest.mark.parametrize("holder", [None, 5, {}, httpx2.Response(401)])
def test_an_error_without_a_request_tells_no_keys(holder: Any) -> None:
    error = ValueError("a")
    error.response = holder  # type: ignore[attr-defined]
    assert without_keys(f"a {KEY}", [error]) == f"a {KEY}"


def test_a_short_key_is_left_where_it_may_stand_by_chance() -> None:
    assert describe_error(refused("an apple", authorization="Bearer a"))["message"] == "an apple"
