"""Scheduling a question to the user: said by the node that schedules it, so that resuming repeats nothing."""

from __future__ import annotations

from turnflow.graph.batch import Batch, BatchCall, next_wave
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.outcome import make_outcome


def next_question(batch: Batch) -> BatchCall | None:
    """The call of the next wave that asks the user, or None."""
    return next((call for call in next_wave(batch) if call["asks"]), None)


def announce_pause(turn: dict[str, object], call: BatchCall, run: NodeRun) -> Body[Update]:
    """Say that the turn pauses for this call; gives the state update that shows it."""
    questions = call["args"]["questions"]
    run.emitter(turn).emit("paused", tool_call_id=call["id"], questions=questions)
    yield from run.hook("on_pause", turn, tool_call_id=call["id"], questions=questions)
    return {
        "answer": "\n".join(question["prompt"] for question in questions),
        "outcome": make_outcome(turn, "paused", "question"),
    }
