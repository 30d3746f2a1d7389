"""From findings to a profile: it departs from the defaults only where something was seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from turnflow.apps.doctor.probe import Finding
from turnflow.graph.degradation import OUTPUT_LIMITS
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import OPENAI_HOST

STRICTNESS = ("null_content", "name_fields")
"""Message forms of which one that is refused asks for the strictest form. The others that are tried, two user
messages in a row say, turnflow does not send anyway; and the strictest form has its price."""

_AS_FOUND = {
    "json_schema": True,
    "grammar": True,
    "starts_thinking": True,
    "images": False,
    "system_role": False,
    "streaming": False,
}
"""Findings that are a profile's field, by what departs from the default."""


def profile_of(findings: Mapping[str, Finding], base_url: str) -> ProviderProfile:
    """The profile that findings ask for.

    Args:
        findings: By name; what is missing or has the value None is not known.
        base_url: The endpoint's address.
    """
    values = {name: finding.value for name, finding in findings.items() if finding.value is not None}
    limit = _token_limit(values, base_url)
    unsupported = _unsupported(values)
    fields: dict[str, Any] = {
        **{name: value for name, value in _AS_FOUND.items() if values.get(name) is value},
        **_tools(values),
        **({} if limit is None else {"token_limit_parameter": limit}),
        **({"unsupported_parameters": unsupported} if unsupported else {}),
    }
    if values.get("usage") in {"refused", "none"}:
        fields["stream_usage"] = False
    if values.get("reasoning_back") is True:
        fields["reasoning_field"] = values["reasoning"]
    if any(values.get(name) is False for name in STRICTNESS):
        fields["strict_messages"] = True
    if values.get("call_ids") == "alnum9":
        fields["call_ids"] = "alnum9"
    if "window" in values:
        fields["context_window"] = values["window"]
    return ProviderProfile.model_validate(fields)


def _tools(values: Mapping[str, Any]) -> dict[str, Any]:
    if values.get("native_tools") is not False:
        return {}
    dialect = values.get("text_dialect")
    return {"native_tools": False, **({"text_dialects": (dialect,)} if dialect else {})}


def _token_limit(values: Mapping[str, Any], base_url: str) -> str | None:
    """The name of the limit, where the default name is not taken and the other one is."""
    taken: list[str] = values.get("token_limit", [])
    default = OUTPUT_LIMITS[urlsplit(base_url).hostname == OPENAI_HOST]
    return None if not taken or default in taken else taken[0]


def _unsupported(values: Mapping[str, Any]) -> tuple[str, ...]:
    limits = OUTPUT_LIMITS if values.get("token_limit") == [] else ()
    parallel = ("parallel_tool_calls",) if values.get("parallel_parameter") is False else ()
    return (*limits, *values.get("refused_parameters", ()), *parallel)
