"""`classify_label`: decides what a reply asks for, and stores the reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, RemoveMessage

from turnflow.graph.batch import PlannedBatch
from turnflow.graph.decision import is_truncated
from turnflow.graph.events import Emitter
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.pauses import announce_pause, next_pause
from turnflow.graph.protocol import JsonProtocol, LabelProtocol, Protocol
from turnflow.graph.recording import tell_decision
from turnflow.graph.repairs import MAX_DRAFT
from turnflow.graph.reply_form import TOOLS_REFUSED
from turnflow.graph.state import TurnState
from turnflow.graph.step import whole_step
from turnflow.graph.tool_names import ASK_USER
from turnflow.graph.transcript import message_of
from turnflow.nodes.classify_label.endings import ended_early
from turnflow.nodes.classify_label.json_decisions import decide_json
from turnflow.nodes.classify_label.labels import (
    content_violation,
    decide_finish,
    decide_label,
    form_violation,
    label_of,
)
from turnflow.nodes.classify_label.live import LiveReply
from turnflow.nodes.classify_label.native import decide_native
from turnflow.nodes.classify_label.reply_message import reply_message, text_so_far

PlanCalls = Callable[[dict[str, Any], TurnState, NodeRun], Body[PlannedBatch]]


class ClassifyLabel:
    """The node's body.

    Args:
        plan_calls: Plans the calls of a reply.
    """

    def __init__(self, plan_calls: PlanCalls) -> None:
        self._plan_calls = plan_calls

    def __call__(self, state: TurnState, run: NodeRun) -> Body[Update]:
        """Decide by the step, store its message, and plan its calls."""
        reply = _Reply(state, run)
        decision = yield from reply.decide()
        tell_decision(decision, run.emitter(reply.turn))
        if decision["kind"] == "tool":
            planned = yield from self._plan_calls(reply.step, state, run)
            return (yield from _call_tools(reply, decision, planned, run))
        return (yield from reply.settle(decision))


def _call_tools(reply: _Reply, decision: dict[str, Any], planned: PlannedBatch, run: NodeRun) -> Body[Update]:
    """Store the reply, and start on its calls."""
    step = reply.step
    turn = {**reply.turn, **planned.turn}
    turn.pop("repair", None)
    message = reply_message(
        step,
        content=step["text"],
        label=decision.get("label") or None,
        so_far=reply.so_far,
        calls=planned.calls,
        partial=False,
    )
    if message:
        reply.live.accept(message)
    _tell(planned, run.emitter(turn))
    update: Update = {}
    if pause := next_pause(planned.batch, run.resources.prompts):
        update = yield from announce_pause(turn, pause, run)
    return {
        **update,
        "messages": [message, *planned.refusals],
        "batch": planned.batch,
        "decision": decision,
        "step": _slim(step),
        "turn": turn,
    }


def _tell(planned: PlannedBatch, emitter: Emitter) -> None:
    """Tell of each call, and of the results of those that do not run."""
    refused = {result.tool_call_id: result for result in planned.refusals}
    for call in planned.calls:
        call_id = call["id"] or ""
        said = planned.permissions.get(call_id)
        judged = {"permission": said.verdict, "policy": said.policy} if said else {}
        why = {"reason": said.reason} if said and said.reason else None
        told = {"name": call["name"], "args": call["args"], **judged}
        emitter.emit("tool.call", tool_call_id=call_id, recorded=why, **told)
        if result := refused.get(call_id):
            status = "refused" if result.status == "error" else "duplicate"
            fields = {"name": call["name"], "status": status, "content": result.content}
            emitter.emit("tool.result", tool_call_id=call_id, **fields)


class _Reply:
    """One reply on its way to a decision, and what becomes of it."""

    def __init__(self, state: TurnState, run: NodeRun) -> None:
        self.turn, self.run = state["turn"], run
        self.step = whole_step(state["step"])
        self.protocol: Protocol = run.resources.form_in(self.turn).protocol
        if self.protocol and self.turn["phase"] == "finish":
            self.step["text"] = self.step["body"]  # whatever its label, the last reply is for the user
        is_part = self.turn["continuing"]
        self.so_far = message_of(state["messages"], self.step["message_id"]) if is_part else None
        shown = text_so_far(self.so_far) if self.turn.get("part_shown", True) else ""
        self.live = LiveReply(run.emitter(self.turn), self.step, shown, self.protocol)

    def decide(self) -> Body[dict[str, Any]]:
        step, turn, settings = self.step, self.turn, self.run.resources.settings
        if ended := ended_early(step, turn, settings):
            return ended
        if self.protocol is None:
            return decide_native(step, turn, settings)
        if turn["phase"] == "finish":
            return decide_finish(step, turn, settings)
        if isinstance(self.protocol, JsonProtocol):
            may_ask = ASK_USER in self.run.resources.tools_in(turn).names
            return decide_json(step, turn, settings, may_ask=may_ask)
        label = label_of(step, self.protocol)
        violation = yield from self._violation(label, self.protocol)
        return decide_label(step, turn, settings, label=label, protocol=self.protocol, violation=violation)

    def settle(self, decision: dict[str, Any]) -> Body[Update]:
        """The update of a reply without calls."""
        step, kind = self.step, decision["kind"]
        turn = dict(self.turn)
        update: Update = {"decision": decision, "step": _slim(step)}
        if decision.get("again"):
            # The same is asked once more; what a part of it left is as it was.
            self._note(decision, turn)
            return {**update, "turn": turn}
        is_refused = kind == "violation" or (kind == "intermediate" and "times" in decision)
        if is_refused:
            message = None
            update |= self._draft(decision)
        else:
            message = self._message(decision)
            if message:
                update["messages"] = [message]
        said = yield from self._on_intermediate(decision)
        turn["directives"] = [*turn["directives"], *said]
        self._note(decision, turn)
        self._show(decision, message)
        if kind != "continue":
            text = "finish" if kind == "terminal" else "narration" if message and message.content else "none"
            self.run.emitter(turn).emit("round.ended", text=text if kind != "stop" else "none")
        if turn != self.turn:
            update["turn"] = turn
        return update

    def _violation(self, label: str, protocol: LabelProtocol) -> Body[dict[str, Any] | None]:
        step = self.step
        text = text_so_far(self.so_far) + step["body"]
        if violation := form_violation(step, text, label, protocol):
            return violation
        verdict = ""
        is_whole = not is_truncated(step["finish_reason"])  # else it cannot be judged yet, or never
        if label in protocol.terminal and protocol.validate_terminal and is_whole:
            said = yield from self.run.ask(
                protocol.validate_terminal, "validate_terminal", self.turn, label=label, text=text
            )
            verdict = said[0].strip() if said else ""
        return content_violation(text, label, protocol, verdict)

    def _draft(self, decision: dict[str, Any]) -> Update:
        """The update that keeps the beginning of a rejected reply, and nothing of it in the transcript."""
        before = self.so_far.additional_kwargs["turnflow"]["raw"] if self.so_far else ""
        draft = (before + self.step["raw"])[:MAX_DRAFT] if self.protocol else ""
        update: Update = {"decision": {**decision, "draft": draft}}
        if self.so_far and self.so_far.id:
            update["messages"] = [RemoveMessage(id=self.so_far.id)]
        return update

    def _message(self, decision: dict[str, Any]) -> AIMessage | None:
        kind, step = decision["kind"], self.step
        cut_off = bool(decision.get("cut_off")) or kind in {"stop", "overflow"}
        is_kept = kind == "intermediate" and bool(decision.get("label"))
        label = step["label"] if self.protocol else None
        message = reply_message(
            step,
            content=step["body"] if decision.get("is_hidden") else step["text"],
            label=label,
            so_far=self.so_far,
            calls=(),
            partial=cut_off,
            is_kept=is_kept,
        )
        if message and isinstance(self.protocol, JsonProtocol) and (self.so_far or cut_off):
            message.additional_kwargs["turnflow"]["raw"] = ""  # parts of JSON objects make none together
        return message

    def _on_intermediate(self, decision: dict[str, Any]) -> Body[list[dict[str, str]]]:
        protocol = self.protocol
        if decision["kind"] != "intermediate" or decision["key"] or not isinstance(protocol, LabelProtocol):
            return []
        text = text_so_far(self.so_far) + self.step["body"]
        said = yield from self.run.ask(
            protocol.on_intermediate, "on_intermediate", self.turn, label=decision["label"], text=text
        )
        return [{"key": "on_intermediate", "text": text} for text in said]

    def _note(self, decision: dict[str, Any], turn: dict[str, Any]) -> None:
        """Write into the turn what the decision changes there."""
        kind, key, step = decision["kind"], decision["key"], self.step
        if step["error"]:
            turn["error"] = step["error"]
        if step["stop"] == "provider_error" and "provider_error" not in turn["degradations"]:
            turn["degradations"] = [*turn["degradations"], "provider_error"]
        if decision.get("again"):
            turn["degradations"] = [*turn["degradations"], TOOLS_REFUSED]
            resources = self.run.resources
            turn |= resources.refusing([*resources.refused_in(self.turn), TOOLS_REFUSED])
            if turn["continuing"] and self.protocol is None:
                turn["plain_part"] = turn["message_id"]  # its end has no label, as its beginning has none
            form = self.run.resources.form_in(turn)
            self.run.emitter(turn).emit(
                "degraded", degradation=TOOLS_REFUSED, dialect=form.dialect, error=step["error"]
            )
        elif kind == "intermediate" and key:
            turn |= {"phase": "finish", "finish_cause": key}
        if kind == "continue":
            shown = self.live.shows(text_so_far(self.so_far) + step["text"])
            turn |= {} if shown else {"part_shown": False}
        elif kind != "violation" and not decision.get("again"):
            turn.pop("repair", None)

    def _show(self, decision: dict[str, Any], message: AIMessage | None) -> None:
        if message is None:
            self.live.reject()
        elif decision["kind"] == "continue":
            self.live.wait(message)
        else:
            self.live.accept(message, is_shown=not decision.get("is_hidden"))


def _slim(step: dict[str, Any]) -> dict[str, Any]:
    """The step without what its message holds now; checkpoints carry it until the next reply."""
    return {key: step[key] for key in ("message_id", "finish_reason", "stop", "error")}
