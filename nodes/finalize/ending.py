"""How a turn ended: pure functions of its last decision and its counters."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage

from turnflow.graph.content import iter_text
from turnflow.graph.outcome import WORSE, Status
from turnflow.graph.state import TurnState
from turnflow.graph.transcript import message_of

_STOPS: dict[str, tuple[Status, str]] = {
    "cancelled": ("cancelled", "cancelled"),
    "filtered": ("filtered", "content_filter"),
    "context_overflow": ("context_overflow", "context_too_long"),
    "paused": ("paused", "question"),
    "provider_error": ("provider_error", "provider_error"),
    "pending_input": ("pending_input", "pending_input"),
}
"""Status and stop reason of each way to stop without an answer."""

_BUDGETS = frozenset({"rounds", "call_limit", "loop"})
"""Causes of a finish that are no fault."""


def model_answer(state: TurnState) -> tuple[str, bool]:
    """The answer as the model or a terminating tool gave it, '' if none did; and whether it was cut off."""
    decision = state["decision"]
    if "call_id" in decision:
        results = (m for m in reversed(state["messages"]) if isinstance(m, ToolMessage))
        result = next(m for m in results if m.tool_call_id == decision["call_id"])
        return "".join(iter_text(result.content)), False
    message = message_of(state["messages"], state["turn"]["message_id"])
    if message is None or message.tool_calls:
        return "", False
    return "".join(iter_text(message.content)), bool(message.additional_kwargs["turnflow"].get("partial"))


def end_status(decision: dict[str, Any], turn: dict[str, Any], *, has_answer: bool) -> Status:
    """The status of a turn that ends with this decision."""
    if decision["kind"] == "stop":
        if decision["key"] == "provider_error" and has_answer:
            return "finished_degraded"
        return _STOPS[decision["key"]][0]
    if not has_answer:
        return "provider_error" if turn["finish_cause"] == "provider_error" else "empty"
    if WORSE.intersection(turn["degradations"]) or turn["finish_cause"] not in {"", *_BUDGETS}:
        return "finished_degraded"
    if decision.get("cut_off"):
        return "finished_truncated"
    spent = turn["finish_cause"] and "call_id" not in decision
    return "finished_budget" if spent else "finished"


def stop_reason(decision: dict[str, Any], turn: dict[str, Any]) -> str:
    """What ended the turn."""
    if decision["kind"] == "stop":
        return _STOPS[decision["key"]][1]
    if "call_id" in decision:
        return "terminate"
    if decision.get("is_hidden"):
        return str(decision["label"])
    if decision.get("cut_off"):
        return "length"
    return str(turn["finish_cause"] or decision["key"])
