"""Every conditional edge: pure functions of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from langgraph.types import Send

from turnflow.graph.batch import batch_of, needs_fold, next_wave
from turnflow.graph.state import TurnState

AfterAssemble = Literal["call_llm", "dispatch_tools", "fold_checkpoint", "finalize"]
AfterClassify = Literal["dispatch_tools", "assemble_context", "repair", "fold_checkpoint", "finalize"]


def after_assemble(state: TurnState) -> AfterAssemble | Sequence[Send]:
    """Where a new turn, a round or the join of a wave goes on."""
    if ends(state):
        return "finalize"
    if sends := send_wave(state):
        return sends
    if needs_fold(batch_of(state)):
        return "fold_checkpoint"
    return "call_llm"


def after_classify(state: TurnState) -> AfterClassify | Sequence[Send]:
    """Where a reply goes."""
    if ends(state):
        return "finalize"
    kind = state["decision"]["kind"]
    if kind == "violation":
        return "repair"
    if kind == "overflow":
        return "fold_checkpoint"
    return send_wave(state) or "assemble_context"


def ends(state: TurnState) -> bool:
    """Whether the turn ends here."""
    return (state.get("decision") or {}).get("kind") in {"terminal", "stop"}


def send_wave(state: TurnState) -> list[Send]:
    """One task for each call of the next wave."""
    batch = batch_of(state)
    turn = {key: state["turn"][key] for key in ("id", "session_id", "round")}
    return [
        Send("dispatch_tools", {"call": call, "turn": turn, "batch_id": batch["id"]})
        for call in next_wave(batch)
    ]
