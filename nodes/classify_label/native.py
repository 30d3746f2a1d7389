"""Deciding by native tool calls: calls are run, text is the answer, nothing is a violation."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide, is_truncated
from turnflow.graph.settings import TurnSettings


def decide_native(step: dict[str, Any], turn: dict[str, Any], settings: TurnSettings) -> dict[str, Any]:
    """What a reply asks for (docs/turn.md). Pure.

    A `continue` decision goes on with the same text, its key says why: `truncated` or `broken_off`. An
    `intermediate` one asks for the answer without tools.
    """
    if ended := _ended_early(step):
        return ended
    may_continue = turn["continuations"] < settings.max_continuations
    if step["stop"] == "provider_error":
        return _after_failure(step, turn, may_continue=may_continue)
    if step["calls"] and turn["phase"] != "finish":
        return decide("tool")
    if not step["text"].strip() and not turn["continuing"]:
        return _after_silence(step, turn)
    if is_truncated(step["finish_reason"]):
        return decide("continue" if may_continue else "terminal", "truncated")
    return decide("terminal", step["finish_reason"] or "stop")


def _ended_early(step: dict[str, Any]) -> dict[str, Any] | None:
    """The decision where the request or its reply came to nothing, whatever was said."""
    if step["stop"] == "cancelled":
        return decide("stop", "cancelled")
    if step["stop"] == "context_too_long":
        return decide("overflow", "context_too_long")
    if step["stop"] == "content_filter" or step["finish_reason"] == "content_filter":
        return decide("stop", "filtered")
    return None


def _after_failure(step: dict[str, Any], turn: dict[str, Any], *, may_continue: bool) -> dict[str, Any]:
    """A request failed: text that was shown goes on, else the turn finishes with what it has."""
    if step["text"].strip() and may_continue:
        return decide("continue", "broken_off")
    if step["text"].strip() or turn["continuing"] or turn["phase"] == "finish":
        return decide("stop", "provider_error")
    return decide("intermediate", "provider_error")


def _after_silence(step: dict[str, Any], turn: dict[str, Any]) -> dict[str, Any]:
    """Nothing was said and nothing called: one nudge a turn, then the finish without tools."""
    key = "thinking_only" if step["thinking"].strip() else "empty_reply"
    if turn["phase"] == "finish":
        return decide("terminal", key)
    if turn["nudged"]:
        return decide("intermediate", key)
    return decide("violation", key)
