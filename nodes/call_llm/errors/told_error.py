"""What a provider's error says, put into one form whatever client raised it."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import openai

MAX_READ = 8000
"""Characters of an error that are read; what matters stands at its beginning."""
_MAX_VALUES = 500
_MAX_PLACES = 40
_MAX_JSON = 100_000
_LOWEST, _HIGHEST = 400, 599

_NOT_TOLD = frozenset(
    {"input", "ctx", "url", "doc_url", "documentation_url", "request_id", "failed_generation", "prompt"}
    | {"content_filter_result", "content_filter_results", "flagged_input", "headers", "user_id"}
    | {"stack", "stacktrace", "traceback", "object", "messages", "provider_name"}
)
"""Fields that hold what was sent, or nothing about the error."""
_CODES = frozenset({"code", "type", "status", "error_code", "errcode", "status_code", "statuscode", "scode"})
_NUMBERS = frozenset({"code", "status", "status_code", "statuscode", "http_status"})
_PLACES = frozenset({"param", "parameter", "field"})
_WAITS = frozenset({"retrydelay", "retry_delay", "retry_after", "retryafter", "retry_after_seconds"})
_NAMED_PLACE = re.compile(
    r"""param(?:eter)?['"]?\s{0,3}[:=]\s{0,3}['"]?(?P<param>[A-Za-z_#][\w.\[\]/]{0,80})"""
    r"""|\bloc['"]\s{0,3}:\s{0,3}[\[(](?P<loc>[^\])]{1,200})[\])]"""
    r"""|\b(?P<path>(?:messages|tools|functions)(?:\.\d{1,5}|\[\d{1,5}\])[\w.\[\]]{0,80})""",
    re.IGNORECASE,
)
_STATUS_NAMES = {
    400: "invalid_request_error invalid_argument failed_precondition out_of_range invalidparameter "
    "bad_request invalid_parameter badrequesterror validation_error unsupported_parameter unsupported_value",
    401: "authentication_error unauthenticated invalid_api_key unauthorized",
    403: "permission_error permission_denied forbidden",
    404: "not_found_error not_found model_not_found",
    413: "request_too_large",
    422: "unprocessable_entity unprocessableentityerror",
    429: "rate_limit_error rate_limit_exceeded resource_exhausted too_many_requests throttling",
    500: "server_error internal_server_error internal internalservererror api_error",
    408: "request_timeout",
    503: "unavailable service_unavailable engine_overloaded engine_overloaded_error unavailable_error "
    "service_unavailable_error server_busy server_overloaded",
    504: "deadline_exceeded timeout_error timeout timeouterror gateway_timeout upstream_timeout",
    529: "overloaded_error overloaded",
}
_STATUS_OF = {name: status for status, names in _STATUS_NAMES.items() for name in names.split()}
_GENERAL = frozenset({400, 500})
"""Statuses whose names stand beside others that say more."""
_CLASSES = {
    "ModelInvalidRequestError": (400, ""),
    "ModelAuthenticationError": (401, ""),
    "ModelPermissionDeniedError": (403, ""),
    "ModelNotFoundError": (404, ""),
    "ModelRateLimitError": (429, ""),
    "ModelAPIError": (500, ""),
    "ContextOverflowError": (None, "context_length_exceeded"),
    "ModelRefusalError": (None, "content_filter"),
    "ContentFilterFinishReasonError": (None, "content_filter"),
}
"""Errors of LangChain and of OpenAI's client that say what they mean by their class."""


@dataclass
class Told:
    """What a provider's error says.

    Attributes:
        status: The HTTP status from 400 on; inside a stream, the one that the error names; else None.
        codes: Error codes and types, in lower case.
        claims: Statuses that its codes and types stand for, whatever the HTTP status.
        places: Paths of parameters that it names, as `tools[0].function.name`.
        fields: Those of `places` that stand in fields of their own, apart from its text.
        is_streamed: Whether there is no HTTP status: it came inside a stream.
        text: What it says in words, `MAX_READ` characters at most.
        headers: Of the response, names in lower case.
    """

    status: int | None = None
    codes: list[str] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    is_streamed: bool = False
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def read_error(error: BaseException) -> Told | None:
    """What the error says, or None if it is not a provider's."""
    names = {base.__name__ for base in type(error).__mro__}
    meant = [_CLASSES[name] for name in _CLASSES if name in names]
    status, payloads = http_status(error), _payloads(error)
    answered = isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError)
    if status is None and not payloads and not meant and not answered:
        return None
    told = Told(status=status, headers=_headers(error), is_streamed=status is None)
    texts: list[str] = []
    numbers: list[int] = []
    _walk(payloads, told, texts, numbers)
    told.codes += [code for _, code in meant if code]
    if not any(text.strip() for text in texts):
        texts.append(error_text(error))
    told.text = "\n".join(texts)[:MAX_READ]
    told.fields = list(told.places)
    for match in islice(_NAMED_PLACE.finditer(told.text), _MAX_PLACES):
        told.places.append(_path(match["param"] or match["loc"] or match["path"]))
    named = [_STATUS_OF[code] for code in told.codes if code in _STATUS_OF]
    named.sort(key=_GENERAL.__contains__)
    told.claims = [*numbers, *named, *(s for s, _ in meant if s is not None)]
    if told.status is None:
        told.status = next(iter(told.claims), None)
    return told


def http_status(error: BaseException) -> int | None:
    """The HTTP status of the response, from 400 on."""
    response = _attribute(error, "response")
    found = [_attribute(error, name) for name in ("status_code", "http_status", "code", "status")]
    found.append(_attribute(response, "status_code"))
    if isinstance(response, dict) and isinstance(about := response.get("ResponseMetadata"), dict):
        found.append(about.get("HTTPStatusCode"))
    return next((int(value) for value in found if _is_status(value)), None)


def error_text(error: BaseException) -> str:
    """The error's text, or '' where it cannot even give one."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a foreign exception can raise anything
        return ""


def _is_status(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _LOWEST <= value <= _HIGHEST


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a foreign property can raise anything
        return None


def _payloads(error: BaseException) -> list[Any]:
    """What the provider sent, as the clients keep it."""
    found = [_attribute(error, name) for name in ("body", "details", "error")]
    if isinstance(response := _attribute(error, "response"), dict):
        found.append(response)
    if error.args and isinstance(error.args[0], dict):
        found.append(error.args[0])
    return [value for value in found if value and isinstance(value, str | bytes | dict | list)]


def _headers(error: BaseException) -> dict[str, str]:
    response = _attribute(error, "response")
    headers = _attribute(response, "headers")
    if isinstance(response, dict) and isinstance(about := response.get("ResponseMetadata"), dict):
        headers = about.get("HTTPHeaders")
    try:
        return {str(name).lower(): str(value) for name, value in islice(headers.items(), 200)}
    except Exception:  # noqa: BLE001 - no headers, or none that can be read
        return {}


def _walk(payloads: list[Any], told: Told, texts: list[str], numbers: list[int]) -> None:
    """Read the values of nested payloads, outer ones first."""
    waiting: deque[tuple[str, Any]] = deque(("", value) for value in payloads)
    for _ in range(_MAX_VALUES):
        if not waiting:
            return
        key, value = waiting.popleft()
        inner = _inner(value)
        if key == "loc" and isinstance(inner, list | tuple):
            told.places.append(_path(".".join(str(part)[:100] for part in inner[:20])))
        elif isinstance(inner, dict):
            waiting.extend((str(name).lower(), inner[name]) for name in islice(inner, _MAX_VALUES))
        elif isinstance(inner, list | tuple):
            waiting.extend((key, item) for item in inner[:_MAX_VALUES])
        elif key not in _NOT_TOLD:
            _read_value(key, inner, told, texts, numbers)


def _read_value(key: str, value: Any, told: Told, texts: list[str], numbers: list[int]) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return
    said = str(value)[:MAX_READ]
    if key in _NUMBERS and said.isascii() and said.isdigit() and _is_status(int(said[:9])):
        numbers.append(int(said))
    elif key in _CODES:
        told.codes.append(said.strip().lower())
    elif key in _PLACES and said not in {"", "null", "None"} and len(told.places) < _MAX_PLACES:
        told.places.append(_path(said))
    elif key in _WAITS:
        texts.append(f"retry after {said}" + ("" if isinstance(value, str) else " s"))
    elif isinstance(value, str):
        texts.append(said)


def _inner(value: Any) -> Any:
    """The value, decoded where it is bytes and parsed where it is JSON."""
    if isinstance(value, bytes):
        value = value[:_MAX_JSON].decode("utf-8", "replace")
    if isinstance(value, str) and value[:1] in {"{", "["} and len(value) <= _MAX_JSON:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _path(place: str) -> str:
    """A path of a parameter without what stands around it: `('body', 'x')`, `#/x` and `body.x` are `x`."""
    parts: Iterable[str] = re.split(r"[.,/\[\]\s'\"()#]+", place[:300])
    cleaned = [part for part in parts if part]
    while cleaned and cleaned[0].lower() in {"body", "request", "parameter", "parameters"}:
        cleaned = cleaned[1:]
    return ".".join(cleaned)
