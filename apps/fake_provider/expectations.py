"""Checking a request against what a step expects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnflow.apps.fake_provider.script import Expect


def mismatches(expect: Expect, request: dict[str, Any]) -> list[str]:
    """What a request lacks of what is expected, one sentence each; empty if it fits.

    Args:
        expect: The expectation.
        request: The parsed body of a chat-completions request with a list of message objects.
    """
    return [
        *_texts(expect, request["messages"]),
        *_roles(expect, request["messages"]),
        *_rest(expect, request),
    ]


def message_text(message: dict[str, Any]) -> str:
    """The text of a message: its content, the text of its parts, its tool calls as JSON."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if message.get("tool_calls"):
        texts.append(json.dumps(message["tool_calls"], ensure_ascii=False))
    return "\n".join(texts)


def _texts(expect: Expect, messages: list[dict[str, Any]]) -> Iterator[str]:
    last = message_text(messages[-1])
    for wanted in expect.last_contains:
        if wanted not in last:
            yield f"the last message should contain {wanted!r}, it is {last[:200]!r}"
    whole = "\n".join(message_text(message) for message in messages)
    for wanted in expect.contains:
        if wanted not in whole:
            yield f"some message should contain {wanted!r}"
    for unwanted in expect.not_contains:
        if unwanted in whole:
            yield f"no message should contain {unwanted!r}"


def _roles(expect: Expect, messages: list[dict[str, Any]]) -> Iterator[str]:
    roles = [message["role"] for message in messages]
    if expect.last_role is not None and roles[-1] != expect.last_role:
        yield f"the last message should be from {expect.last_role!r}, it is from {roles[-1]!r}"
    if expect.roles is not None and roles != expect.roles:
        yield f"the roles should be {expect.roles}, they are {roles}"
    if expect.messages is not None and len(messages) != expect.messages:
        yield f"there should be {expect.messages} messages, there are {len(messages)} ({', '.join(roles)})"


def _rest(expect: Expect, request: dict[str, Any]) -> Iterator[str]:
    offered = _offered_tools(request)
    if expect.tools is not None and sorted(offered) != sorted(expect.tools):
        yield f"the tools offered should be {sorted(expect.tools)}, they are {sorted(offered)}"
    if expect.no_tools and "tools" in request:
        yield f"no tools should be offered, there are {sorted(offered)}"
    for name in expect.has:
        if name not in request:
            yield f"the parameter {name!r} should be there"
    for name in expect.lacks:
        if name in request:
            yield f"the parameter {name!r} should not be there, it is {request[name]!r}"
    for name, value in expect.parameters.items():
        if name not in request or request[name] != value:
            yield f"the parameter {name!r} should be {value!r}, it is {request.get(name)!r}"


def _offered_tools(request: dict[str, Any]) -> list[str]:
    tools = request.get("tools")
    functions = (
        [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    )
    return [str(function.get("name")) for function in functions if isinstance(function, dict)]
