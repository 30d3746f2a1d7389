"""`finalize`: settles the answer and the outcome of a turn (docs/outcomes.md)."""

from __future__ import annotations

from langchain_core.messages import AIMessage, AnyMessage

from turnflow.graph.batch import batch_of, waiting_calls
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.open_calls import CANCELLED, close_open_calls
from turnflow.graph.outcome import make_outcome
from turnflow.graph.state import TurnState
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
    return {
        **({"messages": messages} if messages else {}),
        "answer": answer,
        "outcome": outcome,
        "turn": {**turn, "phase": "ended", "directives": []},
        "step": {},
        "decision": {},
    }


def _fallback(status: str, state: TurnState, run: NodeRun) -> str:
    """What the turn says where the model gave no answer."""
    if status == "paused":
        return state["answer"]  # the questions, from the node that announced the pause
    return run.resources.prompts.text("answer", status)
