"""What a provider's refusals make of its profile (docs/degradation.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from turnflow.graph.profile import ProviderProfile

OUTPUT_LIMIT = "output_limit"
"""The refusal of the limit of output tokens, under either of its names."""

OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens")
"""Parameters that limit the output."""
_OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_NEVER_LEFT_OUT = frozenset({"", "model"})

STREAM = "stream"
"""The refusal of streams: replies are asked for whole."""

_FIELDS: dict[str, dict[str, Any]] = {
    "tools": {"native_tools": False},
    "images": {"images": False},
    "system_role": {"system_role": False},
    "messages": {"strict_messages": True},
    "stream_options": {"stream_usage": False},
    STREAM: {"streaming": False},
}
"""Refusals that fields of the profile answer."""
_AND_FIELDS: dict[str, dict[str, Any]] = {
    "response_format": {"json_schema": False},
    "grammar": {"grammar": False},
    "parallel_tool_calls": {"parallel_calls": None},
}
"""Parameters that are left out, and fields that would send them."""


def degrade(profile: ProviderProfile, refusals: Iterable[str]) -> ProviderProfile:
    """The profile of a provider that refuses this.

    The order of refusals does not matter, nor whether they come at once or one after another:
    `degrade(degrade(p, a), b) == degrade(p, [*a, *b])`.

    Args:
        profile: What was taken to hold so far.
        refusals: Parameters as the API names them, `tools`, `images`, `system_role`, `messages`,
            `output_limit`, `stream`.
    """
    refused = set(refusals) - _NEVER_LEFT_OUT
    if not refused:
        return profile
    update: dict[str, Any] = {}
    for name in refused:
        update |= _FIELDS.get(name) or _AND_FIELDS.get(name, {})
    if profile.reasoning_field in refused:
        update["reasoning_field"] = None
    left_out = {*profile.unsupported_parameters, *(refused - _FIELDS.keys())}
    if OUTPUT_LIMIT in left_out:
        left_out = (left_out | set(OUTPUT_LIMITS)) - {OUTPUT_LIMIT}
    update |= _token_limit(left_out)
    gone = left_out | refused
    return profile.model_copy(
        update={
            **update,
            "unsupported_parameters": tuple(sorted(left_out)),
            "request_parameters": _without(profile.request_parameters, gone.__contains__),
        }
    )


def _token_limit(left_out: set[str]) -> dict[str, Any]:
    """The name of the limit: the one that is not refused, or none."""
    refused = [name for name in OUTPUT_LIMITS if name in left_out]
    if len(refused) == 1:
        return {"token_limit_parameter": _OTHER_LIMIT[refused[0]]}
    return {"token_limit_parameter": None} if refused else {}


def _without(parameters: dict[str, Any], is_refused: Callable[[str], bool]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if not is_refused(name)}
