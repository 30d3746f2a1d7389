"""What a reply, or the state of a turn, asks for next."""

from __future__ import annotations

from typing import Any, Literal

DecisionKind = Literal[
    "tool", "intermediate", "continue", "violation", "fold", "overflow", "terminal", "stop"
]

TRUNCATED = frozenset({"length", "max_tokens", "max_output_tokens"})
"""Finish reasons, in lower case, of a reply that a limit of tokens cut off."""


def is_truncated(finish_reason: str | None) -> bool:
    """Whether a reply was cut off by a limit of tokens."""
    return (finish_reason or "").lower() in TRUNCATED


def decide(kind: DecisionKind, key: str = "", **fields: Any) -> dict[str, Any]:
    """A decision as it stands in the state.

    Args:
        kind: `tool`: calls to run; `intermediate`: another round; `continue`: the same reply goes on;
            `violation`: the reply breaks a rule; `overflow`: the request was too long; `terminal`: the reply
            is the answer; `fold`: something is to be summed up before the next request; `stop`: the turn
            ends for another reason.
        key: Which violation, or why the turn stops.
        fields: What else the decision's reader needs.
    """
    return {"kind": kind, "key": key, **fields}
