"""What a failed request means: a table of how providers say it."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from turnflow.nodes.call_llm.provider_errors import MAX_MESSAGE, classify_error, describe_error


def refused(message: str, status: int = 400, **fields: Any) -> openai.APIStatusError:
    """A provider's refusal, as its client raises it."""
    response: Any = httpx.Response(
        status, request=httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
    )
    body = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}
    return openai.APIStatusError(message, response=response, body=body)


TOO_LONG = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 "
    "tokens. Please reduce the length of the messages.",
    "OpenAI responses": "Your input exceeds the context window of this model. Please adjust your input.",
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
    "(4000 in the messages, 1000 in the completion).",
    "vLLM decoder": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "llama.cpp tokens": "request (5000 tokens) exceeds the available context size (4096 tokens)",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "Anthropic limit": "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
    "context length",
    "DeepSeek": "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens.",
    "Together": "This model's maximum context length is 8193 tokens. However, you requested 9000 tokens.",
    "Ollama": "the input length exceeds the context length",
    "Ollama prompt": "prompt too long; exceeded max context length by 8 tokens",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "Bedrock": "Input is too long for requested model.",
    "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 8192",
    "LM Studio": "The number of tokens to keep from the initial prompt is greater than the context length.",
}


@pytest.mark.parametrize("message", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_a_request_that_is_too_long_is_known_by_its_wording(message: str) -> None:
    assert classify_error(refused(message)) == "context_too_long"
    assert classify_error(refused(message, 500)) == "context_too_long"


@pytest.mark.parametrize(
    "fields",
    [
        {"code": "context_length_exceeded"},
        {"code": "string_above_max_length"},
        {"type": "request_too_large"},
    ],
)
def test_a_request_that_is_too_long_is_known_by_its_code(fields: dict[str, Any]) -> None:
    assert classify_error(refused("Please reduce the length.", **fields)) == "context_too_long"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Too many tokens per minute: limit 30000, requested 40000.", 429),
        ("Too many tokens per minute: limit 30000, requested 40000.", 400),
        ("Request too large for gpt-4o: Limit 30000 TPM, Requested 40000.", 429),
        ("Request too large for gpt-4o: Limit 30000 TPM, Requested 40000.", 413),
        ("This model's maximum context length is 8192 tokens.", 401),
        ("This model's maximum context length is 8192 tokens.", 503),
        ("max_tokens is too large: 100000. This model supports at most 4096 completion tokens.", 400),
        ("Invalid value for 'temperature'.", 400),
    ],
)
def test_other_refusals_are_no_overflow(message: str, status: int) -> None:
    assert classify_error(refused(message, status)) == "provider_error"


@pytest.mark.parametrize("error", [ValueError, RuntimeError, OSError])
def test_an_error_of_this_process_is_no_overflow(error: type[Exception]) -> None:
    assert classify_error(error("the maximum context length is exceeded")) == "provider_error"


def test_a_filter_is_told_apart() -> None:
    assert classify_error(refused("The prompt is too long.", code="content_filter")) == "content_filter"


def test_an_error_inside_a_stream_is_read_too() -> None:
    request: Any = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
    body = {"message": "the request exceeds the available context size", "type": "server_error"}
    error = openai.APIError("An error occurred during streaming", request, body=body)
    assert classify_error(error) == "context_too_long"


def test_a_description_is_short_and_plain() -> None:
    told = describe_error(refused("a\n\n b \ud800" + "x" * 1000, 418))
    assert told["type"] == "APIStatusError"
    assert told["status_code"] == 418
    assert told["message"].startswith("a b \ufffdx")
    assert len(told["message"]) == MAX_MESSAGE
    assert describe_error(ValueError())["message"] == "ValueError"
