"""Whether the tools are there for which an answer would let calls run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnflow.apps.command_line.approving import is_approval
from turnflow.apps.command_line.plain import visible
from turnflow.graph.tool_names import READ_RESULT, SEARCH_TOOLS
from turnflow.graph.tool_registry import ToolRegistry

_BUILT_IN = {READ_RESULT, SEARCH_TOOLS}


def check_offered(tools: ToolRegistry, batch: Mapping[str, Any], value: Any, answer: Any) -> None:
    """Refuse an answer that would let a call run whose tool this command does not have.

    Such a call would be answered as one of an unknown tool, and the approval would be used up.

    Args:
        tools: The command's tools.
        batch: The `batch` channel of the thread.
        value: What is asked.
        answer: The answer to it, in the shape that resumes the turn; one of another shape the graph refuses.

    Raises:
        ValueError: The text names the call and the mend.
    """
    decided = _decided(value, answer)
    is_rejected = False
    for call in (batch.get("calls") or {}).values():
        decision = decided.get(call["id"])
        is_rejected = is_rejected or decision == "reject"
        runs = decision == "approve" or (decision is None and not is_rejected)
        if runs and not call["done"] and not call["asks"] and not _has(tools, call):
            raise ValueError(
                f"this command does not offer {visible(call['name'])} as it was when the turn paused; give "
                "the options that it had then (--root, --sqlite or --sqlite-write). Nothing was answered"
            )


def _decided(value: Any, answer: Any) -> dict[str, Any]:
    """Kinds of the decisions, by id of the call."""
    decisions = answer.get("decisions") if is_approval(value) and isinstance(answer, Mapping) else None
    if not isinstance(decisions, list):
        return {}
    pairs = zip(value["action_requests"], decisions, strict=False)
    return {
        request.get("tool_call_id", ""): decision.get("type")
        for request, decision in pairs
        if isinstance(decision, Mapping)
    }


def _has(tools: ToolRegistry, call: Mapping[str, Any]) -> bool:
    """Whether the tool is there, and the one that somebody was asked about, not just one of its name."""
    tool = tools.find(call["name"])
    if tool is None:
        return call["name"] in _BUILT_IN
    asked_about: str = call.get("tool", tool.fingerprint)
    return asked_about == tool.fingerprint
