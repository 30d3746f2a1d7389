"""`fold_checkpoint`: closed rounds give way to a tool's checkpoint in the requests (docs/folding.md)."""

from __future__ import annotations

from turnflow.graph.batch import batch_of, checkpoints, needs_fold
from turnflow.graph.decision import decide
from turnflow.graph.flow import NodeRun, Update
from turnflow.graph.state import TurnState
from turnflow.graph.transcript import turn_messages
from turnflow.nodes.fold_checkpoint.checkpoint import fold_rounds


def fold_checkpoint(state: TurnState, run: NodeRun) -> Update:
    """Fold under a checkpoint; a request that was too long, with nothing to fold, ends the turn."""
    batch = batch_of(state)
    if not needs_fold(batch):
        return {"decision": decide("stop", "context_overflow")}
    turn = state["turn"]
    own = turn_messages(state["messages"], turn["input_id"])
    before = (state.get("summary") or {}).get("folds", [])
    folds = fold_rounds(own, turn["input_id"], batch["id"], checkpoints(batch), before)
    run.emitter(turn).emit("folded", reason="checkpoint", message_ids=folds[-1]["message_ids"])
    return {"summary": {"folds": folds}, "batch": {"id": batch["id"], "calls": {}, "folded": True}}
