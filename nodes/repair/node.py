"""`repair`: turns a violation into a directive for the next request (docs/turn.md)."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import is_truncated
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.protocol import LabelProtocol
from turnflow.graph.repairs import NUDGES, Repair, repair_text
from turnflow.graph.state import TurnState

THINKING_OUTPUT_FACTOR = 2
"""How much more output a reply gets that was cut off while it still thought."""


def repair(state: TurnState, run: NodeRun) -> Body[Update]:
    """Note the violation, for a directive that the next request renders; it is never stored as text.

    A model that said nothing is nudged once a turn; a reply that broke a rule is sent back.
    """
    decision, turn = state["decision"], state["turn"]
    key = decision["key"]
    found: Repair = {
        "key": key,
        "label": decision.get("label") or "",
        "times": decision.get("times", 1),
        "second": decision.get("second", ""),
        "problem": decision.get("problem", ""),
        "draft": decision.get("draft", ""),
        "pending": True,
    }
    changes: dict[str, Any] = {"repair": found}
    if key in NUDGES:
        run.emitter(turn).emit("nudge", key=key)
        changes["nudged"] = True
        if key == "thinking_only" and is_truncated(state["step"]["finish_reason"]):
            changes["output_factor"] = THINKING_OUTPUT_FACTOR
    else:
        fields = {name: found[name] for name in ("label", "times", "problem")}
        run.emitter(turn).emit("repair", key=key, **fields)
        if said := (yield from _own_words(found, turn, run)):
            found["text"] = said
    return {"turn": {**turn, **changes}, "decision": {}}


def _own_words(found: Repair, turn: dict[str, Any], run: NodeRun) -> Body[str]:
    """What the protocol wants the model told, in place of the standard text."""
    form = run.resources.form_in(turn)
    if not isinstance(form.protocol, LabelProtocol) or form.protocol.repair_message is None:
        return ""
    said = yield from run.ask(
        form.protocol.repair_message,
        "repair_message",
        turn,
        key=found["key"],
        label=found["label"],
        times=found["times"],
        text=repair_text(found, form, run.resources.tools_in(turn).names, run.resources.prompts),
    )
    return said[0] if said else ""
