"""Deciding by a JSON decision (docs/protocols.md). Pure."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide
from turnflow.graph.settings import TurnSettings
from turnflow.nodes.classify_label.endings import settled
from turnflow.nodes.classify_label.violations import refuse


def decide_json(
    step: dict[str, Any], turn: dict[str, Any], settings: TurnSettings, *, may_ask: bool
) -> dict[str, Any]:
    """What a JSON decision asks for; `may_ask` says whether it could ask the user."""
    if step["label"] == "clarify" and step["calls_in_text"] and not may_ask:
        return refuse({"key": "unknown_action", "label": "clarify"}, turn)
    if step["calls"]:
        return decide("tool", label=step["label"] or "")
    if step["violation"] and not turn["continuing"]:
        violation = {"key": step["violation"], "label": step["label"], "problem": step["problem"]}
        return refuse(violation, turn)
    return settled(step, turn, settings, step["label"] or "")
