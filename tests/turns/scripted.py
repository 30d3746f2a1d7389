"""Short forms for scripts of the fake provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnflow.apps.fake_provider import FakeProvider

Start = Callable[..., FakeProvider]


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


def calls(*tool_calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    reply: dict[str, Any] = {"tool_calls": list(tool_calls)}
    if content:
        reply["content"] = content
    return {"reply": reply}


def says(content: str) -> dict[str, Any]:
    return {"reply": {"content": content}}


def script(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(steps)}


def asks(*prompts: str, call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return call("ask_user", call_id, questions=[{"prompt": prompt, **fields} for prompt in prompts])
