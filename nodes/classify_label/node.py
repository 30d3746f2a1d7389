"""`classify_label`: decides what a reply asks for, and stores the reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage

from turnflow.graph.batch import PlannedBatch
from turnflow.graph.events import complete_live_message
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.pauses import announce_pause, next_question
from turnflow.graph.resources import TurnResources
from turnflow.graph.state import TurnState
from turnflow.graph.transcript import message_of
from turnflow.nodes.classify_label.native import decide_native
from turnflow.nodes.classify_label.reply_message import reply_message

PlanBatch = Callable[[dict[str, Any], dict[str, Any], TurnResources], PlannedBatch]


class ClassifyLabel:
    """The node's body; `plan_batch` plans the calls of a reply."""

    def __init__(self, plan_batch: PlanBatch) -> None:
        self._plan_batch = plan_batch

    def __call__(self, state: TurnState, run: NodeRun) -> Body[Update]:
        """Decide by the step, store its message, and plan its calls."""
        step, turn = state["step"], state["turn"]
        decision = decide_native(step, turn, run.resources.settings)
        if decision["kind"] == "tool":
            return (yield from self._call_tools(state, decision, run))
        update = _settled(state, decision)
        if decision["kind"] != "continue":
            text = "finish" if decision["kind"] == "terminal" else "none"
            run.emitter(turn).emit("round.ended", text=text)
        return update

    def _call_tools(self, state: TurnState, decision: dict[str, Any], run: NodeRun) -> Body[Update]:
        step = state["step"]
        planned = self._plan_batch(step, state["turn"], run.resources)
        turn = {**state["turn"], **planned.turn}
        message = reply_message(step, so_far=_so_far(state), calls=planned.calls, partial=False)
        _announce(message, step)
        emitter = run.emitter(turn)
        refused = {result.tool_call_id: result for result in planned.refusals}
        for call in planned.calls:
            emitter.emit("tool.call", tool_call_id=call["id"], name=call["name"], args=call["args"])
            if result := refused.get(call["id"] or ""):
                emitter.emit(
                    "tool.result",
                    tool_call_id=call["id"],
                    name=call["name"],
                    status="refused",
                    content=result.content,
                )
        update: Update = {}
        if question := next_question(planned.batch):
            update = yield from announce_pause(turn, question, run)
        return {
            **update,
            "messages": [message, *planned.refusals],
            "batch": planned.batch,
            "decision": decision,
            "step": _slim(step),
            "turn": turn,
        }


def _settled(state: TurnState, decision: dict[str, Any]) -> Update:
    """The update of a reply without calls."""
    step, turn = state["step"], dict(state["turn"])
    cut_off = decision["key"] in {"truncated", "broken_off"} or decision["kind"] in {"stop", "overflow"}
    message = reply_message(step, so_far=_so_far(state), calls=(), partial=cut_off)
    if step["error"]:
        turn["error"] = step["error"]
    if step["stop"] == "provider_error" and "provider_error" not in turn["degradations"]:
        turn["degradations"] = [*turn["degradations"], "provider_error"]
    if decision["kind"] == "intermediate":
        turn |= {"phase": "finish", "finish_cause": decision["key"]}
    update: Update = {"decision": decision, "step": _slim(step)}
    if turn != state["turn"]:
        update["turn"] = turn
    if message:
        _announce(message, step)
        update["messages"] = [message]
    elif step["retracted"]:
        # Front ends have shown what was taken back, and nothing is stored that would replace it.
        _announce(AIMessage(content="", id=step["message_id"]), step)
    return update


def _announce(message: AIMessage | None, step: dict[str, Any]) -> None:
    if message:
        complete_live_message(message, retracted=step["retracted"])


def _so_far(state: TurnState) -> AIMessage | None:
    return message_of(state["messages"], state["step"]["message_id"]) if state["turn"]["continuing"] else None


def _slim(step: dict[str, Any]) -> dict[str, Any]:
    """The step without what its message holds now; checkpoints carry it until the next reply."""
    return {key: step[key] for key in ("message_id", "finish_reason", "stop", "error")}
