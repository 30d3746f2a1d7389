"""What ends or breaks a reply whatever its protocol: cancelling, overflow, filters, failures, truncation."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide, is_truncated
from turnflow.graph.settings import TurnSettings


def ended_early(step: dict[str, Any], turn: dict[str, Any], settings: TurnSettings) -> dict[str, Any] | None:
    """The decision where the request or its reply came to nothing, or to less than was asked."""
    if step["stop"] == "cancelled":
        return decide("stop", "cancelled")
    if step["stop"] == "context_too_long" and not step["text"].strip():
        return decide("overflow", "context_too_long")
    if step["stop"] == "content_filter" or step["finish_reason"] == "content_filter":
        return decide("stop", "filtered")
    if step["stop"] == "tools_refused":
        return decide("intermediate", "tools_refused", again=True)
    if step["stop"] in {"provider_error", "context_too_long"}:
        return _after_failure(step, turn, may_continue=may_continue(turn, settings))
    return None


def may_continue(turn: dict[str, Any], settings: TurnSettings) -> bool:
    """Whether a text that was cut off may go on."""
    has_time = turn.get("round_seconds", 0.0) < settings.round_timeout
    return bool(turn["continuations"] < settings.max_continuations) and has_time


def settled(
    step: dict[str, Any], turn: dict[str, Any], settings: TurnSettings, label: str = ""
) -> dict[str, Any]:
    """The decision for an answer, whole or cut off.

    Its key may be the provider's finish reason, whatever that is: other nodes look at the other fields.
    """
    if is_truncated(step["finish_reason"]):
        has_text = bool(step["text"].strip()) or turn["continuing"]
        goes_on = has_text and may_continue(turn, settings)
        return decide("continue" if goes_on else "terminal", "truncated", label=label, cut_off=True)
    return decide("terminal", step["finish_reason"] or "stop", label=label)


def _after_failure(step: dict[str, Any], turn: dict[str, Any], *, may_continue: bool) -> dict[str, Any]:
    """A request failed: text for the user goes on, else the turn finishes with what it has."""
    if step["text"].strip() and may_continue:
        return decide("continue", "broken_off", cut_off=True)
    if step["text"].strip() or turn["continuing"] or turn["phase"] == "finish":
        return decide("stop", "provider_error")
    return decide("intermediate", "provider_error")
