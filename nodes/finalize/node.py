"""`finalize`: settles the answer and the outcome of a turn (docs/outcomes.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph.message import push_message
from langgraph.types import Overwrite

from turnflow.graph.archiving import archive_turn
from turnflow.graph.batch import batch_of, waiting_calls
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.inbox_access import look
from turnflow.graph.memory import recent_turns, sums_up
from turnflow.graph.open_calls import CANCELLED, close_open_calls
from turnflow.graph.outcome import make_outcome
from turnflow.graph.state import TurnState
from turnflow.graph.transcript import merge_messages
from turnflow.graph.turns import last_turns
from turnflow.nodes.finalize.ending import end_status, model_answer, stop_reason


def finalize(state: TurnState, run: NodeRun) -> Body[Update]:
    """End the turn: each call has its result, the transcript ends with the answer, the outcome says how."""
    turn, decision = state["turn"], state["decision"]
    reply, partial = model_answer(state)
    status = end_status(decision, turn, has_answer=bool(reply.strip()))
    outcome = make_outcome(
        turn, status, stop_reason(decision, turn), partial=partial, error=turn.get("error")
    )
    # The tasks of a wave are all over before its join leads here.
    waiting = [call["id"] for call in waiting_calls(batch_of(state))]
    closed = yield from close_open_calls(state["messages"], turn, CANCELLED, run, never_began=waiting)
    messages: list[AnyMessage] = [*closed.messages]
    emitter = run.emitter(turn)
    answer = reply
    if not reply.strip() or "call_id" in decision:
        answer = reply if reply.strip() else _fallback(status, state, run)
        message = AIMessage(content=answer, id=f"{turn['id']}-answer")
        emitter.emit("content.delta", text=answer, message_id=message.id)
        messages.append(message)
    emitter.emit("turn.ended", outcome=outcome, answer=answer)
    yield from run.hook("on_turn_end", turn, outcome=outcome, answer=answer)
    yield from look(state, run)
    kept = yield from _archived(state, messages, status, run)
    return {
        **kept.update,
        "answer": answer,
        "outcome": outcome,
        "turn": {**turn, **kept.fields, "phase": "ended", "directives": []},
        "step": {},
        "decision": {},
    }


UNSUMMED_FACTOR = 3
"""Turns that wait for a summary stay in the state, up to so many times `state_turns`."""


@dataclass(frozen=True)
class _Kept:
    """What of the conversation stays in the state.

    Attributes:
        update: Of the channels `messages` and `summary`.
        fields: Of the `turn` channel.
    """

    update: Update
    fields: dict[str, Any]


def _archived(state: TurnState, new: Sequence[AnyMessage], status: str, run: NodeRun) -> Body[_Kept]:
    """Archive the turn, and keep the last turns in the state; all of them where there is no archive.

    The transcript is written whole then: what came before is not needed to read it (docs/archive.md).
    """
    turn = state["turn"]
    messages = merge_messages(state["messages"], [list(new)]) if new else state["messages"]
    key = yield from archive_turn(messages, turn, status, run)
    if not key:
        return _Kept({"messages": list(new)} if new else {}, {})
    run.keep_messages(new)
    for message in new:
        push_message(message, state_key=None)  # LangGraph does not look for messages in an `Overwrite`
    resources = run.resources
    settings, summary = resources.settings, state.get("summary") or {}
    wanted = max(settings.state_turns, settings.protected_turns, recent_turns(resources.memory))
    if sums_up(resources.memory):  # what is in no summary yet is shown, so it stays
        unsummed = turn.get("position", 0) - (summary.get("anchor") or {}).get("position", -1)
        waiting = recent_turns(resources.memory) + resources.memory.summary_after // 2 + 1  # type: ignore[operator]
        wanted = max(wanted, min(unsummed, max(UNSUMMED_FACTOR * settings.state_turns, waiting)))
    kept = last_turns(messages, wanted)
    ids = {message.id for message in kept}
    folds = [fold for fold in summary.get("folds", ()) if fold["after_id"] in ids]
    changed = {"summary": {**summary, "folds": folds}} if len(folds) < len(summary.get("folds", ())) else {}
    fields = {"archived": key, "archived_input": turn["input_id"]}
    return _Kept({"messages": Overwrite(kept), **changed}, fields)


def _fallback(status: str, state: TurnState, run: NodeRun) -> str:
    """What the turn says where the model gave no answer."""
    if status == "paused":
        return state["answer"]  # the questions, from the node that announced the pause
    return run.resources.prompts.text("answer", status)
