"""Which messages leave no trace in a request: blank ones, calls and results without a partner."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from turnflow.graph.content import Content, iter_text
from turnflow.graph.strict_projection import project
from turnflow.graph.transcript import own_fields
from turnflow.nodes.assemble_context.style import Style


def unsent(messages: Sequence[BaseMessage], style: Style) -> tuple[int, ...]:
    """Places of the messages of which nothing is sent."""
    missing: list[int] = []
    at = 0
    while at < len(messages):
        first, message = at, messages[at]
        at += 1
        results: list[ToolMessage] = []
        while at < len(messages) and isinstance(result := messages[at], ToolMessage):
            results.append(result)
            at += 1
        if isinstance(message, AIMessage):
            missing += [first + place for place in _unsent_of_round(message, results, style)]
            continue
        if not _is_sent(message):
            missing.append(first)
        missing += range(first + 1, at)
    return tuple(missing)


def has_text(content: Content) -> bool:
    """Whether there is a text in it that is not blank."""
    if isinstance(content, str):
        return bool(content) and not content.isspace()
    return any(text and not text.isspace() for text in iter_text(content))


def says_something(reply: AIMessage) -> bool:
    """Whether a reply has text, so that it is sent in any form."""
    raw = own_fields(reply).get("raw")
    return has_text(reply.content) and not (isinstance(raw, str) and raw.isspace())


def _is_sent(message: BaseMessage) -> bool:
    if isinstance(message, ToolMessage):
        return False  # it stands behind no reply
    return bool(project([message]))


def _unsent_of_round(reply: AIMessage, results: Sequence[ToolMessage], style: Style) -> list[int]:
    """Places within a round: 0 is the reply."""
    waiting = {call["id"] for call in reply.tool_calls}
    answered: list[int] = []
    for place, result in enumerate(results, start=1):
        if result.tool_call_id in waiting:
            waiting.discard(result.tool_call_id)  # the first result of a call wins
            answered.append(place)
    if not answered or not style.form.native_tools:
        is_sent = says_something(reply) or _is_written(reply, results if answered else (), style)
        missing = [] if is_sent else [0]
        return missing if answered else [*missing, *range(1, len(results) + 1)]
    return [place for place in range(1, len(results) + 1) if place not in answered]


def _is_written(reply: AIMessage, results: Sequence[ToolMessage], style: Style) -> bool:
    said = style.written([reply, *results])
    return any(isinstance(message, AIMessage) and project([message]) for message in said)
