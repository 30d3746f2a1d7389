"""A provider's chunks and whole replies in the shape that LangChain reads, whatever is of another type."""

from __future__ import annotations

import json
from typing import Any

from turnflow.graph.profile import PERMISSION_FIELD, REASONING_FIELDS

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = ("prompt_tokens_details", "completion_tokens_details")


def clean_chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    """A chunk of a stream with its first choice; what is of a wrong type is left out."""
    choice = _first_choice(chunk)
    return {**_envelope(chunk), "choices": [] if choice is None else [_clean_choice(choice)]}


def clean_reply(body: dict[str, Any]) -> dict[str, Any] | None:
    """A whole reply, with its first choice; None where it has none.

    It has come whole, so that one without a finish reason has ended as it should.
    """
    choice = _first_choice(body)
    if choice is None:
        return None
    said = choice.get("message")
    message = _clean_message(said if isinstance(said, dict) else choice.get("delta"))
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        reason = "tool_calls" if message["tool_calls"] else "stop"
    clean: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reason}
    if (logprobs := _clean_logprobs(choice.get("logprobs"))) is not None:
        clean["logprobs"] = logprobs
    return {**_envelope(body), "choices": [clean]}


def beside_content(chunk: dict[str, Any]) -> dict[str, Any]:
    """What a chunk, or a whole reply, has beside the content: thoughts, and a question for a permission."""
    choice = _first_choice(chunk) or {}
    said = choice.get("delta") or choice.get("message")
    said = said if isinstance(said, dict) else {}
    found = {field: text for field in REASONING_FIELDS if isinstance(text := said.get(field), str) and text}
    return {**found, **({PERMISSION_FIELD: asked} if (asked := said.get(PERMISSION_FIELD)) else {})}


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any] | None:
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else None


def _envelope(chunk: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "model", "system_fingerprint", "service_tier")
    texts = {name: chunk[name] for name in names if isinstance(chunk.get(name), str)}
    return {**texts, "usage": _clean_usage(chunk.get("usage"))}


def _clean_choice(choice: dict[str, Any]) -> dict[str, Any]:
    reason = choice.get("finish_reason")
    return {
        "index": 0,
        "delta": _clean_message(choice.get("delta")),
        "finish_reason": reason if isinstance(reason, str) else None,
        "logprobs": _clean_logprobs(choice.get("logprobs")),
    }


def _clean_message(said: Any) -> dict[str, Any]:
    said = said if isinstance(said, dict) else {}
    clean: dict[str, Any] = {
        "role": "assistant",
        "content": _clean_content(said.get("content")),
        "tool_calls": clean_calls(said.get("tool_calls")),
    }
    if isinstance(said.get("id"), str):
        clean["id"] = said["id"]
    if isinstance(said.get("refusal"), str):
        clean["refusal"] = said["refusal"]
    old = said.get("function_call")  # how calls looked before there were several
    if isinstance(old, dict) and all(isinstance(part, str | None) for part in old.values()):
        clean["function_call"] = old
    return clean


def _clean_content(content: Any) -> str | list[Any] | None:
    if isinstance(content, list):
        return [part for part in content if isinstance(part, str | dict)]
    return content if isinstance(content, str) else None


def clean_calls(calls: Any) -> list[dict[str, Any]]:
    """Deltas of tool calls, or whole ones, in the shape that LangChain reads."""
    return [_clean_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _clean_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    name, arguments = function.get("name"), function.get("arguments")
    call_id, index = call.get("id"), call.get("index")
    return {
        "id": call_id if isinstance(call_id, str) else None,
        "index": index if isinstance(index, int) and not isinstance(index, bool) else None,
        "function": {
            "name": name if isinstance(name, str) else None,
            "arguments": arguments if isinstance(arguments, str | None) else json.dumps(arguments),
        },
    }


def _clean_logprobs(logprobs: Any) -> dict[str, Any] | None:
    """Log probabilities, which LangChain adds up list by list."""
    if not isinstance(logprobs, dict):
        return None
    return {name: value for name, value in logprobs.items() if isinstance(value, list)} or None


def _clean_usage(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    clean: dict[str, Any] = _counts({name: usage.get(name) for name in _COUNTS})
    for name in _DETAILS:
        if isinstance(details := usage.get(name), dict):
            clean[name] = _counts(details)
    return clean or None


def _counts(values: dict[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in values.items() if _is_count(value)}


def _is_count(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)
