"""Input that came while the turn ran: the turn ends for it, or takes it in (docs/inbox.md)."""

from __future__ import annotations

from typing import Any

from turnflow.graph.decision import decide
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.inbox_access import look, note_taken
from turnflow.graph.langgraph_access import remembers
from turnflow.graph.routes import ends
from turnflow.graph.state import TurnState
from turnflow.graph.transcript import steering
from turnflow.nodes.assemble_context.rounds import next_round


def with_pending_input(update: Update, state: TurnState, run: NodeRun) -> Body[Update]:
    """The update that takes in a batch, with what the turn does about input that is waiting.

    Nothing where the turn ends anyway. What comes too late to be acted on waits for the next turn.

    Args:
        update: That takes in the batch.
        state: The state before it.
        run: The node's run.
    """
    resources = run.resources
    if resources.context.inbox is None or ends(update) or resources.cancelled:  # type: ignore[arg-type]
        return update
    looked = yield from look(state, run)
    if not looked.new:
        return update
    if resources.settings.pending_input == "yield":
        return {**update, "decision": decide("stop", "pending_input")}
    turn: dict[str, Any] = update["turn"]
    if next_round(turn, state.get("decision") or {}, resources.settings)["phase"] == "finish":
        return update
    ids = [str(item.id) for item in looked.new]
    run.emitter(turn).emit("steered", message_ids=ids)
    steered = {**update, "messages": [steering(item) for item in looked.new]}
    if remembers(run.config) and (noted := note_taken(state, ids)):
        steered["session"] = {**update.get("session", {}), **noted}
    return steered


def taken_as_input(state: TurnState, run: NodeRun) -> Body[dict[str, Any]]:
    """The change of the session that notes which items came as the input of a turn that starts."""
    looked = yield from look(state, run)
    return note_taken(state, looked.held) if remembers(run.config) else {}
