"""Asks a person about all calls of a batch that need approval, and takes in what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import interrupt

from turnflow.graph.batch import BatchCall, batch_of, waiting_calls
from turnflow.graph.events import Emitter
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.langgraph_access import read_state
from turnflow.graph.permissions import AskPermissions
from turnflow.graph.text import plain_json
from turnflow.nodes.dispatch_tools.approval import (
    approval_value,
    decision_schema,
    in_review,
    review_requests,
    settle,
)
from turnflow.nodes.dispatch_tools.ending import tell_end


def review(turn: dict[str, Any], run: NodeRun) -> Body[Update]:
    """Ask, and say which calls run. The interrupt comes first: a resumed task starts again from its top."""
    resources, state = run.resources, read_state(run.config)
    batch = batch_of(state)
    waiting = waiting_calls(batch)
    registry, prompts = resources.tools_in(state["turn"]), resources.prompts
    answer = interrupt(
        approval_value(waiting, registry, prompts),
        response_schema=decision_schema(waiting, registry),
    )
    decisions = answer["decisions"]
    emitter = run.emitter(turn)
    _tell_decisions(in_review(waiting), decisions, resources.context.user_id, emitter)
    grants = (state.get("session") or {}).get("grants", {})
    requests = review_requests(waiting, decisions, registry, state["turn"], grants, resources.context)
    said = yield AskPermissions(resources.permissions, list(requests.values()), resources.cancel)
    for call_id, judged in zip(requests, said, strict=True):
        verdict = {"permission": judged.verdict, "policy": judged.policy, "reason": judged.reason}
        emitter.record("judged", tool_call_id=call_id, **verdict)
    settled = settle(
        waiting,
        decisions,
        registry,
        prompts,
        permissions=dict(zip(requests, said, strict=True)),
        turn_id=turn["id"],
        max_chars=resources.settings.max_result_chars,
    )
    calls = dict(settled.calls)
    messages = []
    for call in waiting:
        if ended := settled.results.get(call["id"]):
            message, report = yield from tell_end(call, ended, turn, run)
            messages.append(message)
            calls[call["id"]] = {**calls[call["id"]], **report}
    update: Update = {
        "messages": messages,
        "batch": {"id": batch["id"], "calls": calls, "approval": {**batch["approval"], "done": True}},
        # The question stands alone in its superstep: its task may take back what announced the pause.
        "answer": "",
        "outcome": {},
    }
    return {**update, "session": {"grants": settled.grants}} if settled.grants else update


def _tell_decisions(
    asked: Sequence[BatchCall], decisions: Sequence[Mapping[str, Any]], user_id: str | None, emitter: Emitter
) -> None:
    answer = {"decisions": plain_json(decisions)}
    emitter.emit("resumed", tool_call_ids=[call["id"] for call in asked], answer=answer)
    for call, decision in zip(asked, decisions, strict=True):
        emitter.emit(
            "permission",
            source="user",
            user_id=user_id,
            tool_call_id=call["id"],
            name=call["name"],
            decision=decision["type"],
            scope=decision.get("scope", "once"),
            **({"edited_action": decision["edited_action"]} if decision["type"] == "edit" else {}),
        )
