"""What a provider says no to: the parameter that its error names, else what its words say."""

from __future__ import annotations

from collections.abc import Collection

from turnflow.nodes.call_llm.errors.named_parameters import named_parameter, same_parameter
from turnflow.nodes.call_llm.errors.overflow import OUTPUT_LIMITS
from turnflow.nodes.call_llm.errors.refused_content import (
    cannot_read_image,
    complains_of_calls,
    complains_of_messages,
    refuses_images,
    refuses_system,
    refuses_tools,
)
from turnflow.nodes.call_llm.errors.told_error import Told

OUTPUT_LIMIT = "output_limit"
"""The limit of output tokens, under either of its names."""

_STATUSES = frozenset({None, 400, 404, 405, 415, 422, 500, 501})
"""Statuses under which something is refused; some local servers answer 500, others inside the stream."""
_KINDS = frozenset({"tools", "images", "system_role", "messages"})
_NEVER_LEFT_OUT = frozenset({"model", "stream"})
_TOOLS = frozenset({"tools", "functions"})
_TOOL_CHOICE = frozenset({"tool_choice", "function_call"})
_NAMELESS = frozenset({"parallel_tool_calls", "parallel tool calls", "parallel function calling"})
_REASONING = ("reasoning_content", "reasoning")
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
    for place in told.places:
        if found := _at(place, told.text, sent):
            return "" if found == _WRONG else found
    return _in_words(told.text, sent)


def refuses_one_image(told: Told, sent: Collection[str]) -> bool:
    """Whether one of the images that were sent is refused, for its size or because it cannot be read."""
    about = "\n".join([told.text, *told.codes])
    return "images" in sent and told.status in {*_STATUSES, 413} and cannot_read_image(about)


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
    if last in _REASONING and last in sent:
        return last
    calls = complains_of_calls(text)
    if "images" in sent and not calls and (refuses_images(text) or refuses_images(rest)):
        return "images"
    if "system_role" in sent and refuses_system(text):
        return "system_role"
    return "messages" if "messages" in sent else ""


def _in_words(text: str, sent: Collection[str]) -> str:
    """What is refused by the words of an error."""
    calls = complains_of_calls(text)
    if "images" in sent and not calls and refuses_images(text):
        return "images"
    if "system_role" in sent and refuses_system(text):
        return "system_role"
    parameters = [name for name in sent if name not in _KINDS | _NEVER_LEFT_OUT | _TOOL_CHOICE]
    if not calls and (named := named_parameter(text, parameters)):
        return named
    if complains_of_messages(text):
        return "messages" if "messages" in sent else ""
    return _tools_in_words(text, sent)


def _tools_in_words(text: str, sent: Collection[str]) -> str:
    lowered = text.lower()
    if not refuses_tools(text) or any(name in lowered for name in _NAMELESS):
        return ""
    chosen = "tool_choice" in lowered or "tool choice" in lowered
    if chosen and "tool_choice" in sent and "--enable" not in lowered:
        return "tool_choice"
    return "tools" if "tools" in sent else ""
