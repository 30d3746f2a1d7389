"""What a provider says no to: the parameter that its error names, else what its words say."""

from __future__ import annotations

from collections.abc import Collection

from turnflow.graph.degradation import OUTPUT_LIMIT, OUTPUT_LIMITS
from turnflow.graph.profile import REASONING_FIELDS
from turnflow.nodes.call_llm.errors.named_parameters import (
    named_parameter,
    names_another,
    quoted_parameter,
    same_parameter,
)
from turnflow.nodes.call_llm.errors.overflow import is_too_large
from turnflow.nodes.call_llm.errors.refused_content import (
    cannot_read_image,
    complains_of_calls,
    complains_of_messages,
    refuses_images,
    refuses_system,
    refuses_tools,
)
from turnflow.nodes.call_llm.errors.told_error import Told
from turnflow.nodes.call_llm.errors.transient import speaks_of_trouble
from turnflow.nodes.call_llm.errors.vague import is_vague

_STATUSES = frozenset({None, 400, 404, 405, 415, 422, 500, 501})
"""Statuses under which something is refused; some local servers answer 500, others inside the stream."""
_KINDS = frozenset({"tools", "images", "system_role", "messages"})
_NEVER_LEFT_OUT = frozenset({"model", "stream"})
_PREFERENCES = frozenset(
    {
        "provider",
        "models",
        "route",
        "transforms",
        "plugins",
        "preset",
        "service_tier",
        "inference_geo",
        "region",
    }
    | {"data_collection", "zdr", "store", "prompt_cache_retention", "metadata", "user", "safety_identifier"}
    | {"safe_prompt", "safety_settings", "guardrails", "guardrail_config", "moderation", "data_sources"}
)
"""What the user wants of privacy, safety, place, price or account: never left out for words alone."""
_TOOLS = frozenset({"tools", "functions"})
_TOOL_CHOICE = frozenset({"tool_choice", "function_call"})
_NAMELESS = frozenset({"parallel_tool_calls", "parallel tool calls", "parallel function calling"})
_WRONG = "-"
"""What is wrong is a definition of a tool, which nothing here can mend."""


def find_refusal(told: Told, sent: Collection[str]) -> str:
    """The name of what is refused and was sent, or ''.

    Args:
        told: What the error says.
        sent: Names of what the request had: parameters, `tools`, `images`, `system_role`, `messages`.
    """
    if told.status not in _STATUSES:
        return ""
    is_in_trouble = speaks_of_trouble(told)
    for place in told.fields if is_in_trouble else told.places:
        found = _at(place, told.text, sent)
        if found in _PREFERENCES and not _is_given(place, told):
            continue
        if found:
            return "" if found == _WRONG else found
    return "" if is_in_trouble else _in_words(told.text, sent, strictly=is_vague(told))


def refuses_one_image(told: Told, sent: Collection[str]) -> bool:
    """Whether one of the images that were sent is refused, for its size or because it cannot be read."""
    if "images" not in sent:
        return False
    if is_too_large(told):
        return True
    about = "\n".join([told.text, *told.codes])
    return told.status in {*_STATUSES, 413} and cannot_read_image(about)


def sends_limit(sent: Collection[str]) -> bool:
    """Whether the request limited its output."""
    return any(name in sent for name in OUTPUT_LIMITS)


def _at(place: str, text: str, sent: Collection[str]) -> str:
    """What is refused where an error names this place; '' if that says nothing."""
    head, _, rest = place.partition(".")
    if head in _TOOLS:
        if "tools" not in sent:
            return ""
        return _WRONG if rest else "tools"
    if head in _TOOL_CHOICE:
        return _tool_choice(sent)
    if head == "messages":
        return _in_messages(rest, text, sent)
    if head in OUTPUT_LIMITS and head not in sent and sends_limit(sent):
        return OUTPUT_LIMIT  # the client sends it under another name than it was given
    return same_parameter(head, [name for name in sent if name not in _KINDS | _NEVER_LEFT_OUT])


def _tool_choice(sent: Collection[str]) -> str:
    return next((name for name in ("tool_choice", "tools") if name in sent), "")


def _in_messages(rest: str, text: str, sent: Collection[str]) -> str:
    """What is refused where an error names a place in the messages."""
    last = rest.rpartition(".")[2]
    if last in REASONING_FIELDS and last in sent:
        return last
    calls = complains_of_calls(text)
    if "images" in sent and not calls and (refuses_images(text) or refuses_images(rest)):
        return "images"
    if "system_role" in sent and refuses_system(text):
        return "system_role"
    return "messages" if "messages" in sent else ""


def _is_given(place: str, told: Told) -> bool:
    """Whether the error names the place in a field of its own, or in quotes."""
    return place in told.fields or any(f"{mark}{place}{mark}" in told.text for mark in "'\"`")


def _in_words(text: str, sent: Collection[str], *, strictly: bool) -> str:
    """What is refused by the words of an error; strictly, by plain ones only."""
    calls = complains_of_calls(text)
    others = _KINDS | _NEVER_LEFT_OUT | _TOOL_CHOICE | _PREFERENCES
    parameters = [] if calls else [name for name in sent if name not in others]
    if quoted := quoted_parameter(text, parameters):
        return quoted
    if "images" in sent and not calls and refuses_images(text, strictly=strictly):
        return "images"
    if "system_role" in sent and refuses_system(text, strictly=strictly):
        return "system_role"
    if named := named_parameter(text, parameters, strictly=strictly):
        return named
    if complains_of_messages(text, strictly=strictly):
        return "messages" if "messages" in sent else ""
    return _tools_in_words(text, sent, strictly=strictly)


def _tools_in_words(text: str, sent: Collection[str], *, strictly: bool) -> str:
    lowered = text.lower()
    if not refuses_tools(text, strictly=strictly) or any(name in lowered for name in _NAMELESS):
        return ""
    if names_another(text, _TOOLS | _TOOL_CHOICE):
        return ""
    chosen = "tool_choice" in lowered or "tool choice" in lowered
    if chosen and "tool_choice" in sent and "--enable" not in lowered:
        return "tool_choice"
    return "tools" if "tools" in sent else ""
