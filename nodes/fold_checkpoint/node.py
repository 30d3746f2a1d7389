"""`fold_checkpoint`: summaries take the place of turns and rounds in the requests (docs/folding.md)."""

from __future__ import annotations

from typing import Any

from turnflow.graph.batch import batch_of, checkpoints, needs_fold
from turnflow.graph.decision import decide
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.folding import find_foldable, left_turns, may_try, placed_turns, tried
from turnflow.graph.langgraph_access import remembers
from turnflow.graph.memory import recent_turns
from turnflow.graph.state import TurnState
from turnflow.graph.transcript import turn_messages
from turnflow.nodes.fold_checkpoint.checkpoint import fold_rounds
from turnflow.nodes.fold_checkpoint.compact import PLAN_AGAIN, compact
from turnflow.nodes.fold_checkpoint.overflow import after_overflow


def fold_checkpoint(state: TurnState, run: NodeRun) -> Body[Update]:
    """Fold under a tool's checkpoint, or under a summary that is made here.

    Then the request is planned again, in the same round; one that cannot become shorter ends the turn.
    """
    decision = state.get("decision") or {}
    if needs_fold(batch_of(state)):
        return _fold_checkpoint(state, run)
    if decision.get("kind") == "overflow":
        return (yield from _fold_overflow(state, run))
    found = _left(state, run) if decision.get("key") == "memory" else _foldable(state, run)
    if found is None:
        return {"turn": tried(state["turn"]), "decision": PLAN_AGAIN}
    return (yield from compact(state, found, "memory" if decision.get("key") == "memory" else "window", run))


def _fold_checkpoint(state: TurnState, run: NodeRun) -> Update:
    batch, turn, summary = batch_of(state), state["turn"], state.get("summary") or {}
    own = turn_messages(state["messages"], turn["input_id"])
    before = summary.get("folds", [])
    known = {each for fold in before for each in fold["message_ids"]}
    folds = fold_rounds(own, turn["input_id"], batch["id"], checkpoints(batch), before)
    new = [each for each in folds[-1]["message_ids"] if each not in known]
    run.emitter(turn).emit("folded", reason="checkpoint", failed=False, message_ids=new)
    return {
        "summary": {**summary, "folds": folds},
        "batch": {"id": batch["id"], "calls": {}, "folded": True},
    }


def _fold_overflow(state: TurnState, run: NodeRun) -> Body[Update]:
    """Learn what fits, and sum up what can be; the planner leaves out the rest."""
    resources, before = run.resources, state["turn"]
    error = (state.get("step") or {}).get("error") or {}
    turn = after_overflow(
        before,
        failed=_request_tokens(state, run),
        error=str(error.get("message", "")),
        before=resources.window_in(before),
        requested=_requested(before, run),
        model=resources.model_name,
    )
    if turn is None:
        return {"decision": decide("stop", "context_overflow")}
    after: Any = {**state, "turn": turn}
    is_on = resources.settings.fold_at is not None
    found = _foldable(after, run) if is_on and may_try(state.get("summary") or {}, turn) else None
    if found is None:
        run.emitter(turn).emit(
            "folded", reason="overflow", failed=True, why="nothing", window=turn["learned"]["window"]
        )
        return {"turn": turn, "decision": PLAN_AGAIN}
    return (yield from compact(after, found, "overflow", run))


def _foldable(state: Any, run: NodeRun) -> Any:
    resources, turn = run.resources, state["turn"]
    return find_foldable(
        state,
        settings=resources.settings,
        memory=resources.memory,
        window=resources.window_in(turn),
        manifest=_manifest(state),
        counter=resources.counter_in(turn),
        remembers=remembers(run.config),
    )


def _requested(turn: dict[str, Any], run: NodeRun) -> int | None:
    """Tokens of output that a request asks for; None where no limit is sent."""
    limit = run.resources.settings.max_output_tokens
    return None if limit is None else limit * int(turn.get("output_factor", 1))


def _left(state: Any, run: NodeRun) -> Any:
    summary = state.get("summary") or {}
    anchor = (summary.get("anchor") or {}).get("position", -1)
    turns = placed_turns(state["messages"], state["turn"], summary.get("folds", ()))
    return left_turns(turns, anchor=anchor, recent=recent_turns(run.resources.memory))


def _request_tokens(state: TurnState, run: NodeRun) -> int:
    """Tokens of the request that was refused, by our own count; without its plan, of the transcript."""
    planned = _manifest(state).get("tokens")
    if isinstance(planned, int):
        return planned
    counter = run.resources.counter_in(state["turn"])
    return sum(counter.message(message) for message in state["messages"])


def _manifest(state: Any) -> dict[str, Any]:
    """Of the last plan; empty in a run that was resumed since."""
    manifest: dict[str, Any] = (state.get("view") or {}).get("manifest") or {}
    return manifest
