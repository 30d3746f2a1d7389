"""What follows a reply that breaks a rule: a repair, or the end by force (docs/protocols.md). Pure."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide
from turnflow.graph.repairs import FORCED_AFTER, times_in_a_row


def refuse(violation: dict[str, Any], turn: dict[str, Any]) -> dict[str, Any]:
    """The decision for a violation; at the third time in a row the turn finishes without it."""
    key = violation["key"]
    times = times_in_a_row(turn, key)
    rest = {name: value for name, value in violation.items() if name != "key"}
    return decide("intermediate" if times >= FORCED_AFTER else "violation", key, times=times, **rest)
