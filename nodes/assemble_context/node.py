"""`assemble_context`: starts a turn, joins a wave of tool calls, and plans the next request."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from turnflow.graph.archiving import find_place
from turnflow.graph.batch import NO_BATCH, batch_of, calls_ahead, needs_fold, next_wave
from turnflow.graph.budget import budget_of
from turnflow.graph.decision import decide
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.folding import fold_wanted
from turnflow.graph.langgraph_access import remembers
from turnflow.graph.learned import known_refusals
from turnflow.graph.open_calls import SUPERSEDED, close_open_calls
from turnflow.graph.outcome import ErrorInfo
from turnflow.graph.pauses import announce_pause, next_pause
from turnflow.graph.protocol import LabelProtocol
from turnflow.graph.routes import ends
from turnflow.graph.session import touched
from turnflow.graph.state import TurnState, merge_batch, merge_session
from turnflow.graph.transcript import has_handles, merge_messages
from turnflow.nodes.assemble_context.loading import left_behind, loaded_by
from turnflow.nodes.assemble_context.request import plan_request
from turnflow.nodes.assemble_context.rounds import next_round
from turnflow.nodes.assemble_context.steering import taken_as_input, with_pending_input
from turnflow.nodes.assemble_context.take_in import keep_done, take_in
from turnflow.nodes.assemble_context.told import told
from turnflow.nodes.assemble_context.turn_start import end_abandoned, new_turn, starts_turn


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
    closed = yield from close_open_calls(
        messages, old, SUPERSEDED, run, never_began=calls_ahead(batch_of(state))
    )
    yield from end_abandoned(state, run)
    whole = merge_messages(messages, [closed.messages]) if closed.messages else messages
    place = yield from find_place(whole, turn["input_id"], old, run)
    meta = touched((state.get("session") or {}).get("meta", {}), resources.context.user_id, time.time())
    reports = [*left_behind(batch_of(state), old), *closed.reports]
    taken = yield from taken_as_input(state, run)
    session = merge_session(loaded_by(reports), {"meta": meta, **taken})
    turn |= {"unavailable": unavailable, **place.fields, **_learned(old, run)}
    turn |= _loaded(merge_session(state.get("session"), session), whole)
    changes = [*closed.messages, *place.removed]
    run.emitter(turn).emit("turn.started", input_id=turn["input_id"])
    said = yield from run.hook("on_turn_start", turn)
    return {
        **({"messages": changes} if changes else {}),
        "session": session,
        "turn": told(turn, "on_turn_start", said),
        "batch": NO_BATCH,
        "step": {},
        "decision": {},
        "answer": "",
        "outcome": {},
    }


def _learned(old: dict[str, Any], run: NodeRun) -> dict[str, Any]:
    """Fields of the turn: what earlier turns have learned about the model that it asks, and its provider."""
    learned, refused = run.resources.learned_in(old), known_refusals(run.resources.model_key)
    return {
        **({"learned": learned} if learned else {}),
        **(run.resources.refusing(refused) if refused else {}),
    }


def _join(state: TurnState, run: NodeRun) -> Body[Update]:
    """Go on with the next wave, or take in the results once all calls are done."""
    batch = batch_of(state)
    pause = next_pause(batch, run.resources.prompts)
    if run.resources.cancelled and next_wave(batch):
        return keep_done(batch, state, run)
    if pause:
        return (yield from announce_pause(state["turn"], pause, run))
    if batch["joined"] or next_wave(batch):
        return {}
    return (yield from with_pending_input(take_in(batch, state, run), state, run))


def _loaded(session: dict[str, Any], messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Fields of the turn: what of the thread decides which tools it has."""
    loaded = list(session.get("loaded", {}))
    return {
        **({"loaded": loaded} if loaded else {}),
        **({"has_handles": True} if has_handles(messages) else {}),
    }


def _next_request(state: TurnState, run: NodeRun) -> Body[Update]:
    turn = next_round(state["turn"], state.get("decision") or {}, run.resources.settings)
    emitter = run.emitter(turn)
    if turn["round"] > state["turn"]["round"]:
        emitter.emit("round.started", phase=turn["phase"])
        if turn["round"] == 1:
            said = yield from run.hook("on_first_round", turn)
            turn = told(turn, "on_first_round", said)
        said = yield from run.hook("before_round", turn)
        turn = told(turn, "before_round", said)
        turn = yield from _ask_protocol(turn, run)
    planned = yield from plan_request({**state, "turn": turn}, run)
    manifest = planned["view"]["manifest"]
    resources, counter = run.resources, run.resources.counter_in(planned["turn"])
    if key := fold_wanted(
        manifest,
        {**state, **planned},
        resources.settings,
        resources.memory,
        counter,
        remembers=remembers(run.config),
    ):
        return {**planned, "decision": decide("fold", key)}
    emitter.emit("context.assembled", manifest=manifest)
    if not manifest["fits"] and not _may_fit(manifest, planned["turn"], run):
        refused = (state.get("step") or {}).get("error")  # by the provider, and nothing got it shorter
        turn = {**planned["turn"], "error": refused or _too_long(manifest)}
        return {**planned, "turn": turn, "decision": decide("stop", "context_overflow")}
    return {**planned, "decision": {}}


def _may_fit(manifest: dict[str, Any], turn: dict[str, Any], run: NodeRun) -> bool:
    """Whether a request is too long only by what earlier ones have taught: the provider judges, once."""
    resources, learned = run.resources, run.resources.learned_in(turn)
    if not learned or manifest["tokens"] >= turn.get("overflow_tokens", math.inf):
        return False
    limit = resources.settings.max_output_tokens
    requested = None if limit is None else limit * turn["output_factor"]
    room = budget_of(resources.window_in({}), requested, 0).room
    return room is None or manifest["tokens"] / max(1.0, learned.get("factor", 1.0)) <= room


def _too_long(manifest: dict[str, Any]) -> ErrorInfo:
    """What does not fit, in numbers."""
    taken, window = manifest["tokens"], manifest["window"]
    told = f"the request takes about {taken:,} tokens, of a window of {window:,}"
    return {"type": "ContextOverflow", "message": told, "status_code": None}


def _ask_protocol(turn: dict[str, Any], run: NodeRun) -> Body[dict[str, Any]]:
    """The turn with what the label protocol's own functions want the model told."""
    protocol = run.resources.form_in(turn).protocol
    if not isinstance(protocol, LabelProtocol):
        return turn
    said = yield from run.ask(protocol.before_round, "before_round", turn)
    turn = told(turn, "before_round", said)
    if turn["phase"] == "finish":
        said = yield from run.ask(protocol.force_finalize, "force_finalize", turn, cause=turn["finish_cause"])
        turn = {**turn, "finish_text": said[0]} if said else turn
    return turn


def _merged(state: TurnState, update: Update) -> TurnState:
    """The state as the next node will see it."""
    merged: Any = {**state, **update}
    if "messages" in update:
        merged["messages"] = merge_messages(list(state.get("messages", [])), [update["messages"]])
    if "batch" in update:
        merged["batch"] = merge_batch(state.get("batch"), update["batch"])
    if "session" in update:
        merged["session"] = merge_session(state.get("session"), update["session"])
    return merged  # type: ignore[no-any-return]
