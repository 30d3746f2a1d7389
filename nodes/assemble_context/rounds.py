"""Counting rounds: explore, settle, finish (docs/turn.md)."""

from __future__ import annotations

from typing import Any

from turnflow.graph.settings import TurnSettings

_OF_A_ROUND = frozenset({"part_shown", "round_retries", "round_seconds"})
"""Fields of the turn that a new round begins without."""


def next_round(turn: dict[str, Any], decision: dict[str, Any], settings: TurnSettings) -> dict[str, Any]:
    """The `turn` channel for the next request.

    A continuation goes on under the same message and is no round. Past `max_rounds` the turn settles for
    `settle_rounds`, then it finishes with one request without tools.
    """
    if decision.get("again"):
        return turn  # the same request again, in another form
    if decision.get("kind") == "continue":
        return {**turn, "continuing": True, "continuations": turn["continuations"] + 1}
    number = turn["round"] + 1
    phase, cause = turn["phase"], turn["finish_cause"]
    if phase != "finish" and number > turn["max_rounds"]:
        cause = "rounds"
        phase = "settle" if number <= turn["max_rounds"] + settings.settle_rounds else "finish"
    rest = {key: value for key, value in turn.items() if key not in _OF_A_ROUND}
    return {
        **rest,
        "round": number,
        "phase": phase,
        "finish_cause": cause,
        "message_id": f"{turn['id']}-{number}",
        "continuing": False,
        "continuations": 0,
    }
