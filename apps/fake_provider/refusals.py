"""What a script's provider does not take, and the answer in its words. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from turnflow.apps.fake_provider.answers import Answer, error_answer, event_answer, json_answer, text_answer
from turnflow.apps.fake_provider.picky import PICKY
from turnflow.apps.fake_provider.script import Refusal, Strictness, Wording
from turnflow.apps.fake_provider.strict import RULES
from turnflow.apps.fake_provider.violation import Check, Request, Violation

_SERVER_ERRORS = 500
_CHECKS: dict[str, Check] = dict([*RULES.items(), *PICKY.items(), ("system", PICKY["system_role"])])

_PARAMETER_TEXTS: dict[Wording, str] = {
    "openai": "Unsupported parameter: '{name}' is not supported with this model.",
    "vllm": "[{detail!r}]",
    "serde": (
        "Failed to deserialize the JSON body into the target type: unknown field `{name}`, "
        "expected one of `messages`, `model`, `stream` at line 1 column 42"
    ),
    "go": 'json: unknown field "{name}"',
    "llama": "Unsupported param: {name}",
}
_VALUE_TEXTS: dict[Wording, str] = {
    "openai": "Unsupported value: '{name}' does not support {value} with this model.{default}",
    "vllm": "[{detail!r}]",
    "serde": (
        "Failed to deserialize the JSON body into the target type: {name}: invalid value: {value} "
        "at line 1 column 42"
    ),
    "go": "invalid value for {name}: {value}",
    "llama": "Unsupported value for param {name}: {value}",
}
_OTHER_PARAMETER_TEXT = "{name} is not supported"
_OTHER_VALUE_TEXT = "{name} does not support {value}"

_OWN_TEXTS: dict[tuple[str, Wording], str] = {
    ("max_tokens", "openai"): (
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead."
    ),
    ("tools", "vllm"): (
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    ),
    ("tools", "go"): "{model} does not support tools",
    ("tools", "llama"): "tools param requires --jinja flag",
    ("images", "vllm"): "{model} is not a multimodal model",
    ("images", "serde"): (
        "Failed to deserialize the JSON body into the target type: messages[{at}]: "
        "unknown variant `image_url`, expected `text` at line 1 column 42"
    ),
    ("images", "llama"): (
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    ),
    ("system_role", "vllm"): "System role not supported",
    ("system_role", "llama"): "Jinja Exception: System role not supported",
    ("alternation", "llama"): (
        "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."
    ),
    ("silent_calls", "serde"): (
        "Failed to deserialize the JSON body into the target type: messages[{at}]: "
        "missing field `content` at line 1 column 42"
    ),
}
"""Where a provider has other words for one thing than for all others."""

_MISTRAL_CODES = {"call_ids": ("invalid_function_call", "3280")}
_MISTRAL_ORDER = ("invalid_request_message_order", "3230")


@dataclass(frozen=True)
class _Complaint:
    """A refusal of one request: its text, and what error objects name."""

    text: str
    param: str | None
    code: str
    detail: dict[str, Any]
    """As pydantic reports it."""
    mistral: tuple[str, str] | None
    """The type and code that Mistral gives, None where it reports the detail."""


def refused(refusals: Iterable[Refusal], request: Request, strictness: Strictness) -> Refusal | None:
    """The first of the refusals that holds for a well-formed request."""
    return next((refusal for refusal in refusals if _holds(refusal, request, strictness)), None)


def refusal_answer(refusal: Refusal, request: Request) -> Answer:
    """The answer to a request for which the refusal holds."""
    complaint = _complaint(refusal, request)
    status = refusal.status
    if refusal.in_stream and request.get("stream") is True:
        body = _body(refusal, complaint)
        return event_answer(body if isinstance(body, dict) and "error" in body else {"error": body})
    if refusal.body is None and refusal.wording == "text":
        return text_answer(status, complaint.text)
    if refusal.body is None and refusal.wording == "openai":
        return error_answer(status, complaint.text, code=complaint.code, param=complaint.param)
    return json_answer(status, _body(refusal, complaint))


def _holds(refusal: Refusal, request: Request, strictness: Strictness) -> bool:
    if refusal.what in _CHECKS:
        return _violation(refusal, request, strictness) is not None
    if refusal.what not in request:
        return False
    value = request[refusal.what]
    if refusal.taken is not None:
        return value not in refusal.taken
    return refusal.values is None or value in refusal.values


def _violation(refusal: Refusal, request: Request, strictness: Strictness) -> Violation | None:
    return next(_CHECKS[refusal.what](request, strictness), None)


def _complaint(refusal: Refusal, request: Request) -> _Complaint:
    found = _violation(refusal, request, Strictness()) if refusal.what in _CHECKS else None
    return _about_messages(refusal, request, found) if found else _about_parameter(refusal, request)


def _about_messages(refusal: Refusal, request: Request, found: Violation) -> _Complaint:
    own = _OWN_TEXTS.get((str(found.rule), refusal.wording))
    number = re.search(r"\d+", found.param)
    at = int(number[0]) if number else 0
    text = found.message
    if own:
        text = own.format(model=request["model"], at=at)
    place = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", found.param)]
    detail = {"type": "value_error", "loc": ["body", *place], "msg": f"Value error, {text}"}
    mistral = _MISTRAL_CODES.get(str(found.rule), _MISTRAL_ORDER)
    return _Complaint(text, "messages", "unsupported_value", detail, mistral)


def _about_parameter(refusal: Refusal, request: Request) -> _Complaint:
    name, value = refusal.what, request[refusal.what]
    by_value = refusal.values is not None or refusal.taken is not None
    detail = {
        "type": "value_error" if by_value else "extra_forbidden",
        "loc": ["body", name],
        "msg": f"Value error, {name} does not support this" if by_value else "Extra inputs are not permitted",
        "input": value,
    }
    default = refusal.taken[0] if refusal.taken else None
    texts = _VALUE_TEXTS if by_value else _PARAMETER_TEXTS
    other = _OTHER_VALUE_TEXT if by_value else _OTHER_PARAMETER_TEXT
    own = None if by_value else _OWN_TEXTS.get((name, refusal.wording))
    text = (own or texts.get(refusal.wording, other)).format(
        name=name,
        value=json.dumps(value),
        default="" if default is None else f" Only the default ({json.dumps(default)}) value is supported.",
        detail={**detail, "loc": ("body", name)},
        model=request["model"],
    )
    return _Complaint(text, name, "unsupported_value" if by_value else "unsupported_parameter", detail, None)


def _body(refusal: Refusal, complaint: _Complaint) -> Any:
    """The JSON body of a refusal."""
    if refusal.body is not None:
        return refusal.body
    status = refusal.status
    kind = "server_error" if status >= _SERVER_ERRORS else "invalid_request_error"
    error: dict[str, Any] = {"message": complaint.text, "type": kind, "param": None, "code": None}
    bodies: dict[Wording, Any] = {
        "openai": {"error": {**error, "param": complaint.param, "code": complaint.code}},
        "vllm": {"object": "error", **error, "type": "BadRequestError", "code": status},
        "pydantic": {"detail": [complaint.detail]},
        "serde": {"error": {**error, "code": kind}},
        "go": {"error": error},
        "mistral": {"object": "error", **error, **_mistral(complaint)},
        "llama": {"error": {"code": status, "message": complaint.text, "type": kind}},
        "bare": {"error": {"message": complaint.text}},
        "text": complaint.text,
    }
    return bodies[refusal.wording]


def _mistral(complaint: _Complaint) -> dict[str, Any]:
    if complaint.mistral is None:
        return {"message": {"detail": [complaint.detail]}}
    kind, code = complaint.mistral
    return {"type": kind, "code": code}
