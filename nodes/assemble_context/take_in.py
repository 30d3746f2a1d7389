"""Taking in a batch whose calls are all done: sources, loaded tools, circles, and what ends the turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnflow.graph.batch import NO_BATCH, Batch, BatchCall, checkpoints
from turnflow.graph.content import as_text
from turnflow.graph.decision import decide
from turnflow.graph.flow import NodeRun, Update
from turnflow.graph.loop_guard import Circle, digest, watch
from turnflow.graph.state import TurnState, merge_session
from turnflow.graph.transcript import results_by_call
from turnflow.nodes.assemble_context.loading import loaded_by
from turnflow.nodes.assemble_context.told import told


def take_in(batch: Batch, state: TurnState, run: NodeRun) -> Update:
    """The update that takes in the results of a batch."""
    calls = list(batch["calls"].values())
    turn, session = _gathered(calls, state, run)
    turn, circle = _watched(turn, batch, state, run)
    emitter = run.emitter(turn)
    if circle:
        emitter.emit("nudge", key="loop", level=circle.level, count=circle.count, length=circle.length)
    emitter.emit("round.ended", text="narration")
    # Nothing of the batch is needed any more, but for a checkpoint in it that waits to be folded.
    rest: Any = {"id": batch["id"], "calls": {}, "joined": True} if checkpoints(batch) else NO_BATCH
    update: Update = {"turn": turn, "batch": rest, **({"session": session} if session else {})}
    if any(call.get("asked") for call in calls):
        update["decision"] = decide("stop", "paused")
    elif final := next((call["id"] for call in calls if call.get("terminate")), None):
        update["decision"] = decide("terminal", "terminate", call_id=final)
    return update


def keep_done(batch: Batch, state: TurnState, run: NodeRun) -> Update:
    """The update that keeps what the finished calls of a batch said, where the turn is cancelled midway."""
    turn, session = _gathered([call for call in batch["calls"].values() if call["done"]], state, run)
    return {"turn": turn, **({"session": session} if session else {})}


def _gathered(
    calls: Sequence[BatchCall], state: TurnState, run: NodeRun
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The turn with what calls have said, and the change of the session that they ask for."""
    turn = state["turn"]
    fresh = _without_known([source for call in calls for source in call.get("sources", [])], turn["sources"])
    said = [text for call in calls for text in call.get("directives", [])]
    turn = told({**turn, "sources": [*turn["sources"], *fresh]}, "on_tool_result", said)
    turn = {**turn, **_marks(calls, turn)}
    if fresh:
        run.emitter(turn).emit("sources", sources=fresh)
    session = loaded_by(calls)
    if "loaded" in session:
        turn["loaded"] = list(merge_session(state.get("session"), session)["loaded"])
    return turn, session


def _marks(calls: Sequence[BatchCall], turn: dict[str, Any]) -> dict[str, Any]:
    """Fields of the turn that say what came of its calls; left out where there is nothing to say."""
    uncertain = [call["key"] for call in calls if call.get("uncertain") and "key" in call]
    marks: dict[str, Any] = {}
    for call in calls:
        if unasked := call.get("unasked"):
            marks["asks"] = turn["asks"] - 1
            marks["asked"] = turn.get("asked", [])[: -len(unasked)]
    if uncertain:
        marks["uncertain"] = [*turn.get("uncertain", ()), *uncertain]
    if any(call.get("handle") for call in calls):
        marks["has_handles"] = True
    return marks


def _watched(
    turn: dict[str, Any], batch: Batch, state: TurnState, run: NodeRun
) -> tuple[dict[str, Any], Circle | None]:
    """The turn with what the loop guard saw and says of this batch."""
    settings, prompts = run.resources.settings, run.resources.prompts
    if not settings.loop_guard:
        return turn, None
    results = results_by_call(state["messages"], batch["id"])
    entries = [
        # A handle is new each time, whatever it stands for.
        [call["key"], digest(as_text(results[call_id].content).replace(call.get("handle") or "\0", ""))]
        for call_id, call in batch["calls"].items()
        if "key" in call and call_id in results
    ]
    watched = watch(turn.get("window", []), [*batch.get("refused", []), *entries])
    turn, circle = {**turn, "window": watched.window}, watched.circle
    if circle is None:
        return turn, None
    if circle.level == "stop":
        return {**turn, "phase": "finish", "finish_cause": "loop"}, circle
    key = "loop" if circle.level == "note" else "loop_firm"
    return told(turn, key, [prompts.text("directive", key, count=circle.count)]), circle


def _without_known(sources: Sequence[Any], known: Sequence[Any]) -> list[Any]:
    fresh: list[Any] = []
    for source in sources:
        if source not in known and source not in fresh:
            fresh.append(source)
    return fresh
