"""Strict mode: what picky providers refuse in a request, each rule a pure function (docs/fake-provider.md).

A rule takes a well-formed request and yields its violations. The texts follow the providers' own
where these are known, because clients read them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from turnflow.apps.fake_provider.picky import PICKY
from turnflow.apps.fake_provider.script import Rule, Strictness
from turnflow.apps.fake_provider.violation import (
    SYSTEM_ROLES,
    Check,
    Request,
    Violation,
    call_ids,
    says_nothing,
)

PARAMETERS = frozenset({
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls",
    "temperature", "top_p", "n", "stop", "seed", "max_tokens", "max_completion_tokens",
    "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs",
    "response_format", "reasoning_effort", "verbosity", "prediction", "modalities", "audio",
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "web_search_options",
})  # fmt: skip
"""The top-level parameters of OpenAI's chat completions, without the deprecated ones."""

_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal"},
    "tool": {"role", "content", "name", "tool_call_id"},
}
_PARTS = ("text", "refusal", "image_url", "input_audio", "file")
"""Types of content parts; each holds its value in a field of the same name."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def malformed(request: object) -> Violation | None:
    """What keeps a request from being read at all; checked in any mode."""
    if not isinstance(request, dict):
        return Violation(None, "body", "The body is not a JSON object.")
    if not isinstance(request.get("model"), str) or not request["model"]:
        return Violation(None, "model", "You must provide a model parameter.")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        return Violation(None, "messages", "Expected an array of at least one message.")
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or str(message.get("role")) not in _FIELDS:
            return Violation(None, f"messages[{at}].role", f"Expected one of {sorted(_FIELDS)}.")
    return None


def violations(request: Request, strictness: Strictness) -> list[Violation]:
    """All violations of a well-formed request, those of the request before those of its messages.

    The rules are those of strict mode that the settings do not `allow`, and those that there are `also`.
    """
    always = [check for rule, check in RULES.items() if rule not in strictness.allow]
    also = [PICKY[rule] for rule in strictness.also]
    return [violation for check in [*always, *also] for violation in check(request, strictness)]


def unknown_parameter(request: Request, strictness: Strictness) -> Iterator[Violation]:
    """Parameters that OpenAI's API does not have."""
    for name in request:
        if name not in PARAMETERS and name not in strictness.parameters:
            yield Violation("unknown_parameter", name, f"Unknown parameter: '{name}'.")


def stray_parameter(request: Request, _: Strictness) -> Iterator[Violation]:
    """Parameters without the one that they belong to."""
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in request and "tools" not in request:
            yield Violation("stray_parameter", name, f"'{name}' is only allowed when 'tools' are specified.")
    if "stream_options" in request and request.get("stream") is not True:
        text = "'stream_options' is only allowed when 'stream' is enabled."
        yield Violation("stray_parameter", "stream_options", text)


def invalid_tools(request: Request, _: Strictness) -> Iterator[Violation]:
    """A list of tools that is empty, holds a name twice, or entries of another shape."""
    tools = request.get("tools")
    if "tools" not in request:
        return
    if not isinstance(tools, list) or not tools:
        yield Violation("invalid_tools", "tools", "Expected an array with at least one tool.")
        return
    for at, tool in enumerate(tools):
        if problem := _tool_problem(tool):
            yield Violation("invalid_tools", f"tools[{at}]", problem)
    for name in _twice(_tool_names(request)):
        yield Violation("invalid_tools", "tools", f"Tool names must be unique, '{name}' is not.")


def invalid_tool_choice(request: Request, _: Strictness) -> Iterator[Violation]:
    """A choice that is no known word, or names a function that is not offered."""
    choice = request.get("tool_choice")
    if choice is None or choice in ("none", "auto", "required"):
        return
    name = _function_of(choice).get("name")
    if name not in _tool_names(request):
        yield Violation("invalid_tool_choice", "tool_choice", f"Tool choice {name!r} is not among the tools.")


def unknown_message_field(request: Request, strictness: Strictness) -> Iterator[Violation]:
    """Fields of messages that OpenAI's API does not have."""
    for at, message in enumerate(request["messages"]):
        known = set(_FIELDS[message["role"]])
        if message["role"] == "assistant" and strictness.accepts_reasoning:
            known |= {"reasoning_content", "reasoning"}
        for name in message:
            if name not in known:
                text = f"Extra inputs are not permitted: '{name}' on a message from '{message['role']}'."
                yield Violation("unknown_message_field", f"messages[{at}].{name}", text)


def system_position(request: Request, _: Strictness) -> Iterator[Violation]:
    """A system message that is not the first message."""
    for at, message in enumerate(request["messages"]):
        if at and message["role"] in SYSTEM_ROLES:
            text = "System message must be at the beginning, and only one."
            yield Violation("system_position", f"messages[{at}].role", text)


def user_first(request: Request, _: Strictness) -> Iterator[Violation]:
    """A conversation that does not begin with the user, after the system message if there is one."""
    messages = request["messages"]
    at = 1 if messages[0]["role"] in SYSTEM_ROLES else 0
    if at < len(messages) and messages[at]["role"] not in ("user", *SYSTEM_ROLES):
        text = (
            f"Expected the first message after the system message from 'user', got '{messages[at]['role']}'."
        )
        yield Violation("user_first", f"messages[{at}].role", text)


def consecutive_users(request: Request, _: Strictness) -> Iterator[Violation]:
    """A user message directly after another."""
    text = "Conversation roles must alternate: a 'user' message directly follows another."
    for at in _followers(request, "user", "user"):
        yield Violation("consecutive_users", f"messages[{at}].role", text)


def consecutive_assistants(request: Request, _: Strictness) -> Iterator[Violation]:
    """An assistant message directly after another."""
    text = "Conversation roles must alternate: an 'assistant' message directly follows another."
    for at in _followers(request, "assistant", "assistant"):
        yield Violation("consecutive_assistants", f"messages[{at}].role", text)


def user_after_tool(request: Request, _: Strictness) -> Iterator[Violation]:
    """A user message directly after a tool's result, which Mistral refuses."""
    text = "Unexpected role 'user' after role 'tool'."
    for at in _followers(request, "tool", "user"):
        yield Violation("user_after_tool", f"messages[{at}].role", text)


def last_role(request: Request, _: Strictness) -> Iterator[Violation]:
    """A conversation in which it is not the model's turn."""
    at = len(request["messages"]) - 1
    role = request["messages"][at]["role"]
    if role not in ("user", "tool"):
        text = f"Expected last role User or Tool for serving but got {role}."
        yield Violation("last_role", f"messages[{at}].role", text)


def content_parts(request: Request, _: Strictness) -> Iterator[Violation]:
    """Content that is neither text nor a list of known parts."""
    for at, message in enumerate(request["messages"]):
        content = message.get("content")
        if isinstance(content, list):
            # A tool's result is text: providers take media of users only.
            known = ("text",) if message.get("role") == "tool" else _PARTS
            problems = [
                number
                for number, part in enumerate(content)
                if not _is_part(part) or part["type"] not in known
            ]
            for number in problems:
                text = f"Expected a content part of a known type ({', '.join(known)}) with its value."
                yield Violation("content_parts", f"messages[{at}].content[{number}]", text)
        elif content is not None and not isinstance(content, str):
            yield Violation("content_parts", f"messages[{at}].content", "Expected text or an array of parts.")


def empty_content(request: Request, _: Strictness) -> Iterator[Violation]:
    """Messages that say nothing; only an assistant that calls tools may be silent."""
    for at, message in enumerate(request["messages"]):
        silent_allowed = message["role"] == "assistant" and message.get("tool_calls")
        if not silent_allowed and says_nothing(message.get("content")):
            text = f"The message from '{message['role']}' must have non-empty content."
            yield Violation("empty_content", f"messages[{at}].content", text)


def invalid_tool_calls(request: Request, _: Strictness) -> Iterator[Violation]:
    """Tool calls of another shape, or whose arguments are not the text of a JSON object."""
    for at, message in enumerate(request["messages"]):
        if "tool_calls" not in message:
            continue
        where = f"messages[{at}].tool_calls"
        calls = message["tool_calls"]
        if not isinstance(calls, list) or not calls:
            yield Violation("invalid_tool_calls", where, "Expected an array with at least one tool call.")
            continue
        for number, call in enumerate(calls):
            if problem := _call_problem(call):
                yield Violation("invalid_tool_calls", f"{where}[{number}]", problem)


def duplicate_call_ids(request: Request, _: Strictness) -> Iterator[Violation]:
    """A call id that the request holds twice."""
    for call_id in _twice([call_id for message in request["messages"] for call_id in call_ids(message)]):
        text = f"Tool call ids must be unique, '{call_id}' is not."
        yield Violation("duplicate_call_ids", "messages", text)


def unanswered_calls(request: Request, _: Strictness) -> Iterator[Violation]:
    """Calls that are not answered by the tool messages directly behind them."""
    for at, message in enumerate(request["messages"]):
        answered = [result.get("tool_call_id") for result in _results_behind(request, at)]
        missing = [call_id for call_id in call_ids(message) if call_id not in answered]
        if missing:
            text = (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
            ) + ", ".join(missing)
            yield Violation("unanswered_calls", f"messages[{at}].tool_calls", text)


def unmatched_results(request: Request, _: Strictness) -> Iterator[Violation]:
    """Tool messages that answer no call directly before them, or one that is answered already."""
    owed: set[str] = set()
    for at, message in enumerate(request["messages"]):
        if message["role"] != "tool":
            owed = set(call_ids(message))
        elif (answered := str(message.get("tool_call_id"))) in owed:
            owed.remove(answered)
        else:
            text = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            yield Violation("unmatched_results", f"messages[{at}].tool_call_id", text)


RULES: dict[Rule, Check] = {
    "unknown_parameter": unknown_parameter,
    "stray_parameter": stray_parameter,
    "invalid_tools": invalid_tools,
    "invalid_tool_choice": invalid_tool_choice,
    "unknown_message_field": unknown_message_field,
    "system_position": system_position,
    "user_first": user_first,
    "consecutive_users": consecutive_users,
    "consecutive_assistants": consecutive_assistants,
    "user_after_tool": user_after_tool,
    "last_role": last_role,
    "content_parts": content_parts,
    "empty_content": empty_content,
    "invalid_tool_calls": invalid_tool_calls,
    "duplicate_call_ids": duplicate_call_ids,
    "unanswered_calls": unanswered_calls,
    "unmatched_results": unmatched_results,
}
"""Every rule by its name, in the order in which they are checked."""


def _function_of(entry: object) -> dict[str, Any]:
    function = entry.get("function") if isinstance(entry, dict) else None
    return function if isinstance(function, dict) else {}


def _tool_names(request: Request) -> list[str]:
    tools = request.get("tools")
    return [str(_function_of(tool).get("name")) for tool in tools] if isinstance(tools, list) else []


def _tool_problem(tool: object) -> str | None:
    function = _function_of(tool)
    if not isinstance(tool, dict) or set(tool) != {"type", "function"} or tool["type"] != "function":
        return "Expected an object with 'type': 'function' and a 'function'."
    if not isinstance(function.get("name"), str) or not _NAME.fullmatch(function["name"]):
        return "A function's name must be 1 to 64 letters, digits, underscores and dashes."
    if unknown := set(function) - {"name", "description", "parameters", "strict"}:
        return f"Unknown fields of a function: {sorted(unknown)}."
    parameters = function.get("parameters", {"type": "object"})
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        return "A function's parameters must be a JSON schema of type 'object'."
    return None


def _call_problem(call: object) -> str | None:
    function = _function_of(call)
    if not isinstance(call, dict) or set(call) != {"id", "type", "function"} or call["type"] != "function":
        return "Expected an object with 'id', 'type': 'function' and a 'function', and nothing else."
    if not isinstance(call["id"], str) or not call["id"].strip():
        return "A tool call's id must be text that is not empty."
    if set(function) != {"name", "arguments"} or not _NAME.fullmatch(str(function["name"])):
        return "A tool call's function must have a valid name and arguments, and nothing else."
    if not _is_object_text(function["arguments"]):
        return "A tool call's arguments must be the text of a JSON object."
    return None


def _is_object_text(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _results_behind(request: Request, at: int) -> Iterator[dict[str, Any]]:
    for message in request["messages"][at + 1 :]:
        if message["role"] != "tool":
            return
        yield message


def _followers(request: Request, role: str, next_role: str) -> Iterator[int]:
    roles = [message["role"] for message in request["messages"]]
    return (at for at in range(1, len(roles)) if (roles[at - 1], roles[at]) == (role, next_role))


def _is_part(part: object) -> bool:
    kind = str(part.get("type")) if isinstance(part, dict) else ""
    return kind in _PARTS and isinstance(part, dict) and part.get(kind) is not None


def _twice(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
