"""`assemble_context`: starts a turn, joins a wave of tool calls, and plans the next request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnflow.graph.batch import NO_BATCH, Batch, batch_of, needs_fold, next_wave
from turnflow.graph.decision import decide
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.pauses import announce_pause, next_question
from turnflow.graph.protocol import LabelProtocol
from turnflow.graph.routes import ends
from turnflow.graph.state import TurnState, merge_batch
from turnflow.graph.transcript import merge_messages
from turnflow.nodes.assemble_context.rounds import next_round
from turnflow.nodes.assemble_context.turn_start import close_open_calls, new_turn, starts_turn
from turnflow.nodes.assemble_context.view import plan_view


def assemble_context(state: TurnState, run: NodeRun) -> Body[Update]:
    """What the state asks for next, and the request for it if that is a model call."""
    if starts_turn(state.get("messages", []), state.get("turn") or {}):
        update = yield from _start(state, run)
    else:
        update = yield from _join(state, run)
    current = _merged(state, update)
    if run.resources.cancelled and not ends(current):
        return {**update, "decision": decide("stop", "cancelled")}
    batch = batch_of(current)
    if ends(current) or next_wave(batch) or needs_fold(batch):
        return update
    request = yield from _next_request(current, run)
    return {**update, **request}


def _start(state: TurnState, run: NodeRun) -> Body[Update]:
    messages = list(state.get("messages", []))
    resources = run.resources
    unavailable = resources.registry.unavailable(resources.context)
    rounds = max(resources.settings.max_rounds, resources.registry.without(unavailable).min_rounds())
    old = state.get("turn") or {}
    turn = new_turn(messages, old, thread_id=run.thread_id, max_rounds=rounds)
    turn["unavailable"] = unavailable
    run.emitter(turn).emit("turn.started", input_id=turn["input_id"])
    said = yield from run.hook("on_turn_start", turn)
    closed = close_open_calls(messages, old, resources.prompts)
    return {
        **({"messages": closed} if closed else {}),
        "turn": _told(turn, "on_turn_start", said),
        "batch": NO_BATCH,
        "step": {},
        "decision": {},
        "answer": "",
        "outcome": {},
    }


def _join(state: TurnState, run: NodeRun) -> Body[Update]:
    """Go on with the next wave, or take in the results once all calls are done."""
    batch = batch_of(state)
    question = next_question(batch)
    if question and not run.resources.cancelled:
        return (yield from announce_pause(state["turn"], question, run))
    if batch["joined"] or next_wave(batch):
        return {}
    return _take_in(batch, state["turn"], run)


def _take_in(batch: Batch, turn: dict[str, Any], run: NodeRun) -> Update:
    calls = batch["calls"].values()
    fresh = _without_known([source for call in calls for source in call.get("sources", [])], turn["sources"])
    said = [text for call in calls for text in call.get("directives", [])]
    turn = _told({**turn, "sources": [*turn["sources"], *fresh]}, "on_tool_result", said)
    emitter = run.emitter(turn)
    if fresh:
        emitter.emit("sources", sources=fresh)
    emitter.emit("round.ended", text="narration")
    update: Update = {"turn": turn, "batch": {"id": batch["id"], "calls": {}, "joined": True}}
    if any(call.get("asked") for call in calls):
        update["decision"] = decide("stop", "paused")
    elif final := next((call["id"] for call in calls if call.get("terminate")), None):
        update["decision"] = decide("terminal", "terminate", call_id=final)
    return update


def _next_request(state: TurnState, run: NodeRun) -> Body[Update]:
    turn = next_round(state["turn"], state.get("decision") or {}, run.resources.settings)
    emitter = run.emitter(turn)
    if turn["round"] > state["turn"]["round"]:
        emitter.emit("round.started", phase=turn["phase"])
        if turn["round"] == 1:
            said = yield from run.hook("on_first_round", turn)
            turn = _told(turn, "on_first_round", said)
        said = yield from run.hook("before_round", turn)
        turn = _told(turn, "before_round", said)
        turn = yield from _ask_protocol(turn, run)
    view = plan_view({**state, "turn": turn}, run.resources)
    emitter.emit("context.assembled", manifest=view["manifest"])
    return {"turn": turn, "decision": {}, "view": view}


def _ask_protocol(turn: dict[str, Any], run: NodeRun) -> Body[dict[str, Any]]:
    """The turn with what the label protocol's own functions want the model told."""
    protocol = run.resources.form_in(turn).protocol
    if not isinstance(protocol, LabelProtocol):
        return turn
    said = yield from run.ask(protocol.before_round, "before_round", turn)
    turn = _told(turn, "before_round", said)
    if turn["phase"] == "finish":
        said = yield from run.ask(protocol.force_finalize, "force_finalize", turn, cause=turn["finish_cause"])
        turn = {**turn, "finish_text": said[0]} if said else turn
    return turn


def _told(turn: dict[str, Any], key: str, said: Sequence[str]) -> dict[str, Any]:
    """The turn with what hooks want the model told in its next request."""
    return {**turn, "directives": [*turn["directives"], *({"key": key, "text": text} for text in said)]}


def _without_known(sources: Sequence[Any], known: Sequence[Any]) -> list[Any]:
    fresh: list[Any] = []
    for source in sources:
        if source not in known and source not in fresh:
            fresh.append(source)
    return fresh


def _merged(state: TurnState, update: Update) -> TurnState:
    """The state as the next node will see it."""
    merged: Any = {**state, **update}
    if "messages" in update:
        merged["messages"] = merge_messages(list(state.get("messages", [])), [update["messages"]])
    if "batch" in update:
        merged["batch"] = merge_batch(state.get("batch"), update["batch"])
    return merged  # type: ignore[no-any-return]
