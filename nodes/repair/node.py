"""`repair`: turns a violation into a directive for the next request (docs/turn.md)."""

from __future__ import annotations

from turnflow.graph.decision import is_truncated
from turnflow.graph.flow import NodeRun, Update
from turnflow.graph.state import TurnState

THINKING_OUTPUT_FACTOR = 2
"""How much more output a reply gets that was cut off while it still thought."""


def repair(state: TurnState, run: NodeRun) -> Update:
    """Nudge a model that said nothing. The directive is rendered into one request, never stored as text."""
    key, turn = state["decision"]["key"], state["turn"]
    text = run.resources.prompts.text("directive", key)
    run.emitter(turn).emit("nudge", key=key)
    turn = {**turn, "nudged": True, "directives": [*turn["directives"], {"key": key, "text": text}]}
    if key == "thinking_only" and is_truncated(state["step"]["finish_reason"]):
        turn["output_factor"] = THINKING_OUTPUT_FACTOR
    return {"turn": turn}
