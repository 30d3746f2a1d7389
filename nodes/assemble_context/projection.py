"""The strict projection: messages as even a strict provider takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from turnflow.graph.transcript import call_order, iter_text

SEPARATOR = "\n\n"
BRIDGE = "(no answer)"


def project(messages: Iterable[BaseMessage], *, bridge: str = BRIDGE) -> list[BaseMessage]:
    """Messages in an order and a shape that strict providers accept.

    One system message, first. No two user messages and no two plain assistant messages in a row: their
    contents are joined. Each call is followed by its result, each result stands behind its call; what has
    no partner is left out. No empty content, but for an assistant message that calls tools. A user message
    never stands right behind a tool message: where a turn was given up there, the assistant says `bridge`.
    """
    system: list[SystemMessage] = []
    rest: list[BaseMessage] = []
    for message in _paired(list(messages)):
        if not _says_something(message):
            continue
        if isinstance(message, SystemMessage):
            system.append(message)
        else:
            if isinstance(message, HumanMessage) and rest and isinstance(rest[-1], ToolMessage):
                rest.append(AIMessage(content=bridge))
            _append(rest, message)
    head: list[BaseMessage] = []
    if system:
        content = _join([message.content for message in system])
        head.append(SystemMessage(content=content))
    return head + rest


def _append(messages: list[BaseMessage], message: BaseMessage) -> None:
    last = messages[-1] if messages else None
    if isinstance(message, HumanMessage) and isinstance(last, HumanMessage):
        messages[-1] = last.model_copy(update={"content": _join([last.content, message.content])})
    elif isinstance(message, AIMessage) and isinstance(last, AIMessage) and not last.tool_calls:
        content = _join([last.content, message.content]) if _has_content(message) else last.content
        messages[-1] = message.model_copy(update={"content": content})
    else:
        messages.append(message)


def _paired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages without calls that have no result right behind them, and without results that have no call."""
    kept: list[Any] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, ToolMessage):
            continue
        order = call_order(message)
        if not order:
            kept.append(message)
            continue
        results: dict[str, ToolMessage] = {}
        while index < len(messages) and isinstance(result := messages[index], ToolMessage):
            if result.tool_call_id in order:
                results.setdefault(result.tool_call_id, result)
            index += 1
        kept.append(_with_calls(message, results))
        kept.extend(sorted(results.values(), key=lambda r: order[r.tool_call_id]))
    return kept


def _with_calls(message: BaseMessage, results: dict[str, ToolMessage]) -> BaseMessage:
    if not isinstance(message, AIMessage) or len(results) == len(message.tool_calls):
        return message
    calls = [call for call in message.tool_calls if call["id"] in results]
    return message.model_copy(update={"tool_calls": calls})


def _says_something(message: BaseMessage) -> bool:
    if isinstance(message, ToolMessage) or (isinstance(message, AIMessage) and message.tool_calls):
        return True
    return _has_content(message)


def _has_content(message: BaseMessage) -> bool:
    content = message.content
    if isinstance(content, str):
        return bool(content.strip())
    has_media = any(isinstance(block, dict) and block.get("type") != "text" for block in content)
    return has_media or bool("".join(iter_text(content)).strip())


def _join(contents: Sequence[str | list[Any]]) -> str | list[Any]:
    if all(isinstance(content, str) for content in contents):
        return SEPARATOR.join(str(content) for content in contents)
    blocks: list[Any] = []
    for content in contents:
        blocks.extend([{"type": "text", "text": content}] if isinstance(content, str) else content)
    return blocks
