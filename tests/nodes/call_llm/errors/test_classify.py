"""What a failed request means: a table of how providers say it."""

from __future__ import annotations

import json
import os
import ssl
import time
from typing import Any

import anyio
import h11
import httpcore2
import httpx
import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError
from langchain_openai.chat_models.base import OpenAIContextOverflowError, OpenAITimeoutError

from tests.linear_time import is_linear
from tests.nodes.call_llm.errors.provider_sayings import SAYINGS, SENT, Saying, error
from tests.nodes.call_llm.errors.raised import REQUEST, OtherModelError, raised
from turnflow.nodes.call_llm.errors.classify import (
    MAX_MESSAGE,
    PrematureEndError,
    classify_error,
    describe_error,
)
from turnflow.nodes.call_llm.errors.failure import Failure
from turnflow.nodes.call_llm.stream_clock import FirstTokenTimeoutError, IdleTimeoutError, RoundTimeoutError

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)
IDS = [f"{number}-{saying.provider}-{saying.refusal or saying.kind}" for number, saying in enumerate(SAYINGS)]


def meant(failure: Failure) -> tuple[str, str]:
    return failure.kind, failure.refusal


@pytest.mark.parametrize("saying", SAYINGS, ids=IDS)
def test_what_providers_say_is_understood(saying: Saying) -> None:
    failure = classify_error(raised(saying.status, saying.body), SENT)
    assert meant(failure) == (saying.kind, saying.refusal)


@pytest.mark.parametrize(
    "saying", [each for each in SAYINGS if isinstance(each.body, dict)], ids=lambda each: each.provider
)
def test_what_other_clients_raise_is_understood(saying: Saying) -> None:
    assert meant(classify_error(OtherModelError(saying.status, saying.body), SENT)) == (
        saying.kind,
        saying.refusal,
    )


@pytest.mark.parametrize("saying", [each for each in SAYINGS if each.refusal], ids=lambda each: each.provider)
def test_what_was_not_sent_is_not_refused(saying: Saying) -> None:
    left = SENT - {saying.refusal, "max_tokens" if saying.refusal == "output_limit" else ""}
    assert classify_error(raised(saying.status, saying.body), left).refusal != saying.refusal


def test_the_table_is_long() -> None:
    assert len({str(saying.body) for saying in SAYINGS}) > 200
    assert len({saying.provider for saying in SAYINGS}) > 40


@pytest.mark.parametrize(
    "cause",
    [
        openai.APIConnectionError(request=REQUEST),
        openai.APITimeoutError(REQUEST),
        OpenAITimeoutError(REQUEST),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
        httpx2.ReadTimeout("late"),
        httpx2.ConnectError("refused"),
        httpx2.DecodingError("bad gzip"),
        httpcore2.RemoteProtocolError("gone"),
        h11.RemoteProtocolError("illegal chunk header"),
        anyio.EndOfStream(),
        anyio.ClosedResourceError(),
        ConnectionResetError("reset"),
        BrokenPipeError(),
        OSError(101, "Network is unreachable"),
        ssl.SSLError("bad record mac"),
        EOFError(),
        json.JSONDecodeError("Expecting value", '{"choices": [', 13),
        UnicodeDecodeError("utf-8", b"\xe4", 0, 1, "unexpected end of data"),
        PrematureEndError("the stream ended without a finish reason"),
        FirstTokenTimeoutError("no token came in 60 s"),
        IdleTimeoutError("nothing came for 30 s"),
        TimeoutError(),
        BaseExceptionGroup("in a task", [httpx2.ReadError("reset")]),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_a_broken_connection_passes(cause: BaseException) -> None:
    assert classify_error(cause, SENT) == Failure("transient")


def test_a_broken_connection_is_seen_through_what_wraps_it() -> None:
    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = httpx2.ConnectError("refused")
    assert classify_error(wrapped, SENT) == Failure("transient")


@pytest.mark.parametrize(
    "cause",
    [
        RoundTimeoutError("the round took 600 s"),
        RuntimeError("Cannot send a request, as the client has been closed."),
        httpx2.UnsupportedProtocol("Request URL is missing an 'http://' or 'https://' protocol."),
        httpx2.InvalidURL("no"),
        ssl.SSLCertVerificationError("certificate verify failed"),
        ValueError("the maximum context length is exceeded"),
        TypeError("tools are not supported"),
        OSError("the maximum context length is exceeded"),
        RuntimeError("rate limit"),
        KeyError("choices"),
        KeyboardInterrupt(),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_an_error_of_this_process_does_not_pass(cause: BaseException) -> None:
    assert classify_error(cause, SENT) == Failure("final")
    wrapped = openai.APIConnectionError(request=REQUEST)
    wrapped.__cause__ = cause
    assert classify_error(wrapped, SENT).kind in {"final", "transient"}


def test_a_closed_client_is_final_however_it_is_wrapped() -> None:
    wrapped = openai.APIConnectionError(request=REQUEST)
    wrapped.__cause__ = RuntimeError("Cannot send a request, as the client has been closed.")
    assert classify_error(wrapped, SENT) == Failure("final")


def test_errors_that_say_what_they_mean_by_their_class() -> None:
    assert classify_error(ContextOverflowError("no room"), SENT) == Failure("context_too_long")
    bad = raised(400, error("no room"))
    assert isinstance(bad, openai.BadRequestError)
    typed = OpenAIContextOverflowError(message="no room", response=bad.response, body=bad.body)
    assert classify_error(typed, SENT) == Failure("context_too_long")


def test_an_http_error_of_another_client_is_read_by_its_response() -> None:
    response = httpx.Response(429, headers={"Retry-After": "7"}, request=httpx.Request("POST", "http://x"))
    limited = httpx.HTTPStatusError("Error response 429", request=response.request, response=response)
    assert classify_error(limited, SENT) == Failure("transient", retry_after=7.0)
    response = httpx.Response(400, request=httpx.Request("POST", "http://x"))
    bad = httpx.HTTPStatusError("unknown field `top_p`", request=response.request, response=response)
    assert classify_error(bad, SENT) == Failure("refused", "top_p")


def test_an_error_of_botocore_is_read_by_its_response() -> None:
    class ClientError(Exception):
        response = {  # noqa: RUF012
            "Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."},
            "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}},
        }

    assert classify_error(ClientError("An error occurred"), SENT) == Failure("context_too_long")


def test_an_error_object_that_a_model_passes_on_is_read() -> None:
    assert classify_error(ValueError({"message": "Overloaded", "code": 529}), SENT) == Failure("transient")


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "3"}, "slow down", 3.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "slow down", 1.5),
        ({}, "Please try again in 1m30.5s.", 90.5),
        ({}, "slow down", None),
    ],
)
def test_a_wait_that_is_asked_for_is_told(headers: dict[str, str], text: str, seconds: float | None) -> None:
    for status in (429, 503):
        assert classify_error(raised(status, error(text), headers), SENT) == Failure(
            "transient", retry_after=seconds
        )


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Too many tokens per minute: limit 30000, requested 40000.", 429),
        ("Too many tokens per minute: limit 30000, requested 40000.", 400),
        ("Request too large for gpt-4o: Limit 30000 TPM, Requested 40000.", 429),
        ("Request too large for gpt-4o: Limit 30000 TPM, Requested 40000.", 413),
        ("This model's maximum context length is 8192 tokens.", 503),
    ],
)
def test_a_limit_of_rate_is_no_overflow(message: str, status: int) -> None:
    assert classify_error(raised(status, error(message)), SENT).kind == "transient"


def test_an_overflow_counts_only_under_a_status_that_may_mean_it() -> None:
    text = "This model's maximum context length is 8192 tokens."
    assert classify_error(raised(401, error(text)), SENT).kind == "final"


def test_a_limit_of_output_that_was_not_sent_is_final() -> None:
    text = "max_tokens is too large: 100000. This model supports at most 4096 completion tokens."
    assert classify_error(raised(400, error(text)), {"messages"}) == Failure("final")


def test_a_limit_that_the_client_renamed_is_refused_under_either_name() -> None:
    said = error("Unsupported parameter", param="max_completion_tokens", code="unsupported_parameter")
    assert classify_error(raised(400, said), {"max_tokens"}) == Failure("refused", "output_limit")


def test_what_is_named_wins_over_what_is_said() -> None:
    said = error("The tools you gave are not supported together with this.", param="temperature")
    assert classify_error(raised(400, said), SENT) == Failure("refused", "temperature")


def test_what_was_sent_and_comes_back_in_the_error_is_not_read() -> None:
    said = {"detail": [{"type": "x", "loc": ["body", "n"], "msg": "no", "input": "tools are not supported"}]}
    assert classify_error(raised(422, said), SENT) == Failure("final")


def test_reasoning_that_was_sent_back_is_refused_by_its_name() -> None:
    said = {
        "detail": [{"loc": ["body", "messages", 1, "assistant", "reasoning_content"], "msg": "Extra inputs"}]
    }
    assert classify_error(raised(422, said), SENT | {"reasoning_content"}).refusal == "reasoning_content"
    assert classify_error(raised(422, said), SENT).refusal == "messages"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["message", "code", "type", "param", "error", "detail", "loc", "status", "metadata"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
SAID = [
    "tools",
    "not",
    "supported",
    "unknown",
    "parameter:",
    "'temperature'",
    "max_tokens",
    "too",
    "large",
    "images",
    "system",
    "role",
    "messages[0]",
    "alternate",
    "must",
    "be",
    "empty",
    "context",
    "length",
    "exceeded",
    "rate",
    "limit",
    "stream_options",
    "{'param':",
    "'top_p'}",
    "(",
]
WORDS = st.lists(st.sampled_from([*SAID, "\ud800"]), max_size=12).map(" ".join)


@FUZZ
@given(
    status=st.none() | st.integers(-1, 700),
    body=VALUES | WORDS | st.builds(error, WORDS, param=WORDS),
    sent=st.sets(st.sampled_from(sorted(SENT | {"max_completion_tokens", "model", "stream"}))),
)
def test_nothing_that_a_provider_sends_makes_it_raise(status: int | None, body: Any, sent: set[str]) -> None:
    error = OtherModelError(status, body)
    error.body = body
    failure = classify_error(error, sent)
    if failure.refusal == "output_limit":
        assert sent & {"max_tokens", "max_completion_tokens"}
    elif failure.kind == "refused":
        assert failure.refusal in sent - {"model", "stream"}
    else:
        assert not failure.refusal
    assert describe_error(error)["message"]


class HostileError(Exception):
    """Raises whatever is asked of it."""

    @property
    def status_code(self) -> int:
        raise RuntimeError

    @property
    def body(self) -> Any:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError


def test_an_error_that_raises_is_read_as_far_as_it_can_be() -> None:
    assert classify_error(HostileError(), SENT) == Failure("final")
    assert describe_error(HostileError()) == {
        "type": "HostileError",
        "message": "HostileError",
        "status_code": None,
    }


@pytest.mark.parametrize(
    "piece",
    [
        "not ",
        "unknown field `",
        "messages[1].",
        "system ",
        "max_tokens ",
        "a",
        " ",
        "'",
        "temperature ",
        "{",
        "role\n",
        "not support ",
        "images ",
        "tools: ",
        "unsupported parameter: ",
        "'temperature' ",
        "request exceeded ",
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        failed = OtherModelError(400, error(text))
        begun = time.thread_time()
        classify_error(failed, SENT)
        describe_error(failed)
        return time.thread_time() - begun

    assert is_linear(seconds, 1_000_000)


def test_a_deep_or_wide_body_is_read_in_part() -> None:
    deep: Any = "temperature is not supported"
    for _ in range(10_000):
        deep = {"error": deep}
    wide = {"detail": [{"msg": "x", "loc": ["body", str(number)]} for number in range(100_000)]}
    for body in (deep, wide, "[" * 100_000, {"message": "[" * 90_000}):
        begun = time.thread_time()
        assert classify_error(raised_plainly(400, body), SENT).kind == "final"
        assert time.thread_time() - begun < 1


def raised_plainly(status: int, body: Any) -> OtherModelError:
    failed = OtherModelError(status, "")
    failed.body = body
    return failed


def test_a_description_is_short_and_plain() -> None:
    told = describe_error(raised(418, error("a\n\n b \ufffd" + "x" * 1000)))
    assert told["type"] == "APIStatusError"
    assert told["status_code"] == 418
    assert told["message"].startswith("Error code: 418 - a b \ufffdx")
    assert len(told["message"]) == MAX_MESSAGE
    assert describe_error(ValueError())["message"] == "ValueError"
    assert "\ud800" not in describe_error(ValueError("a\ud800"))["message"]


def test_a_description_says_what_stands_in_the_body_alone() -> None:
    said = {
        "detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "Extra inputs are not permitted"}]
    }
    assert describe_error(raised(422, said))["message"] == "Error code: 422 Extra inputs are not permitted"


def test_a_description_says_what_a_connection_failed_of() -> None:
    failed = openai.APIConnectionError(request=REQUEST)
    failed.__cause__ = httpx2.ConnectError("[Errno 111] Connection refused")
    assert describe_error(failed)["message"] == "Connection error. [Errno 111] Connection refused"
