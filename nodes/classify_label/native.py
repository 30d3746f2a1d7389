"""Deciding by native tool calls: calls are run, text is the answer, nothing is a violation."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide
from turnflow.graph.settings import TurnSettings
from turnflow.nodes.classify_label.endings import settled


def decide_native(step: dict[str, Any], turn: dict[str, Any], settings: TurnSettings) -> dict[str, Any]:
    """What a reply that came whole, or was cut off, asks for (docs/turn.md). Pure.

    A `continue` decision goes on with the same text, its key says why: `truncated` or `broken_off`. An
    `intermediate` one with a key asks for the answer without tools.
    """
    if step["calls"] and turn["phase"] != "finish":
        return decide("tool")
    if not step["text"].strip() and not turn["continuing"]:
        return _after_silence(step, turn)
    return settled(step, turn, settings)


def _after_silence(step: dict[str, Any], turn: dict[str, Any]) -> dict[str, Any]:
    """Nothing was said and nothing called: one nudge a turn, then the finish without tools."""
    key = "thinking_only" if step["thinking"].strip() else "empty_reply"
    if turn["phase"] == "finish":
        return decide("terminal", key)
    if turn["nudged"]:
        return decide("intermediate", key)
    return decide("violation", key)
