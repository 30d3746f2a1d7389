"""Replies as models write them under each protocol, for scripts of the fake provider."""

from __future__ import annotations

import json
from typing import Any

from tests.turns.scripted import says


def hermes(name: str, /, **arguments: Any) -> str:
    """A call as Hermes models write it."""
    return f"<tool_call>\n{_json(name=name, arguments=arguments)}\n</tool_call>"


def decision(action: str, action_input: Any, thought: str = "Hm.") -> str:
    """A JSON decision."""
    return _json(thought=thought, action=action, action_input=action_input)


def decides(action: str, action_input: Any, thought: str = "Hm.") -> dict[str, Any]:
    """A step whose reply is a JSON decision."""
    return says(decision(action, action_input, thought))


def calls_tool(name: str, /, **parameters: Any) -> dict[str, Any]:
    """A step whose reply is the JSON decision to call a tool."""
    return decides("call_tool", {"tool_name": name, "parameters": parameters})


def labelled(label: str, text: str = "") -> dict[str, Any]:
    """A step whose reply has a label."""
    return says(f"``{label}``\n{text}")


def cut_off(content: str) -> dict[str, Any]:
    """A step whose reply a limit of tokens cut off."""
    return {"reply": {"content": content, "finish_reason": "length"}}


def refuses_tools(**error: Any) -> dict[str, Any]:
    """A step in which the provider takes no tools."""
    message = "tools is not supported with this model"
    return {"error": {"status": 400, "message": message, "param": "tools", **error}}


def _json(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)
