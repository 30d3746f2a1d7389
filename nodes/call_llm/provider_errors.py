"""What a failed request means, told by status code, error code and named parameter (docs/providers.md)."""

from __future__ import annotations

import re
from typing import Any, Literal

import openai

from turnflow.graph.outcome import ErrorInfo
from turnflow.graph.text import storable

Failure = Literal["provider_error", "context_too_long", "content_filter", "tools_refused"]

_LONG_CODES = {"context_length_exceeded", "string_above_max_length", "request_too_large"}
_RATE = re.compile(r"per[ -]?(minute|second|hour|day)|rate.?limit|\btpm\b|\brpm\b|quota", re.IGNORECASE)
_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum.{0,20}(context|tokens|length)|too (long|many tokens)"
    r"|max_new_tokens.{0,20}must be <=|range of input length"
    r"|(prompt|input|request).{0,40}(exceed|too (long|large))|exceed.{0,40}(context|n_ctx|max.{0,10}tokens)",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\btools?\b|tool[ _-](use|call|choice)|\bfunctions?\b|function[ _-]call", re.IGNORECASE)
_NOT_TAKEN = re.compile(
    r"(not|n't|no longer|never)\W+(\w+\W+){0,3}"
    r"(support|allow|accept|available|enabled|permitted|implemented)"
    r"|unsupported|no endpoints found|requires --enable|extra inputs are not permitted"
    r"|(unknown|unrecogni[sz]ed|unexpected|extra) (request )?(parameter|argument|field|input|key)",
    re.IGNORECASE,
)
_IN_MESSAGES = re.compile(
    r"tool_call_id|preceding|must be (a response|followed)|role\W+.?tool|messages?\W*[\[.]", re.IGNORECASE
)
"""A complaint about the calls in the messages; the tools themselves are fine."""
_TOOL_PARAMETERS = re.compile(r"(tools|tool_choice|functions?|function_call)\b", re.IGNORECASE)
_NO_TOOLS = {400, 404, 405, 422, 500, 501}
"""Statuses under which tools are refused; some local servers answer 500, others inside the stream."""
_REFUSED = {400, 413, 422, 500}
"""Statuses under which a request that is too long is refused; some local servers answer 500."""

MAX_MESSAGE = 500


class PrematureEndError(Exception):
    """The stream ended without a finish reason: the reply is not known to be whole."""


def describe_error(error: BaseException) -> ErrorInfo:
    """The failure as plain data, its text shortened."""
    status = getattr(error, "status_code", None)
    told = _text(error)
    if isinstance(error, openai.APIConnectionError):
        told = f"{told} {_text(_root(error))}"  # the client's own text says only that there was an error
    message = storable(" ".join(told.split())) or type(error).__name__
    return {
        "type": type(error).__name__,
        "message": message[:MAX_MESSAGE],
        "status_code": status if isinstance(status, int) else None,
    }


def _root(error: BaseException) -> BaseException:
    """What the error came of in the end."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def _text(error: BaseException) -> str:
    """The error's text, or '' where it cannot even give one."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a foreign exception can raise anything
        return ""


def classify_error(error: BaseException) -> Failure:
    """What a failure means for the turn."""
    body = _body(error)
    code = str(body.get("code") or body.get("type") or "")
    if code == "content_filter":
        return "content_filter"
    if code in _LONG_CODES:
        return "context_too_long"
    status = getattr(error, "status_code", None)
    text = f"{body.get('message') or ''} {_text(error)}"
    # The negative list goes first: "too many tokens per minute" is a rate limit.
    if (status is None or status in _REFUSED) and not _RATE.search(text) and _LONG.search(text):
        return "context_too_long" if _from_provider(error) else "provider_error"
    if status is None and not _from_provider(error):
        return "provider_error"
    return "tools_refused" if _refuses_tools(status, body, text) else "provider_error"


def _refuses_tools(status: Any, body: dict[str, Any], text: str) -> bool:
    """Whether the request was refused for the tools in it, by the named parameter or in so many words."""
    if status not in {None, *_NO_TOOLS} or _RATE.search(text) or _IN_MESSAGES.search(text):
        return False
    parameter = body.get("param")
    if isinstance(parameter, str) and parameter and parameter != "null":
        if not _TOOL_PARAMETERS.match(parameter):
            return False
        # A definition that is wrong in one place is no refusal of tools.
        return "[" not in parameter and "." not in parameter
    return bool(_TOOLS.search(text) and _NOT_TAKEN.search(text))


def _from_provider(error: BaseException) -> bool:
    """Whether the text is a provider's, not that of some error in this process."""
    return hasattr(error, "status_code") or hasattr(error, "body")


def _body(error: BaseException) -> dict[str, Any]:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        return inner if isinstance(inner, dict) else body
    return {}
