"""`call_llm`: sends the planned request, shows the reply as it comes, and keeps it as a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from turnflow.graph.budget import window_for
from turnflow.graph.decision import is_truncated
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.learned import learn_refusals
from turnflow.graph.model_access import endpoint_of
from turnflow.graph.outcome import TurnError, Usage, make_outcome, sum_usage
from turnflow.graph.recording import tell_reply
from turnflow.graph.resources import TurnResources
from turnflow.graph.state import TurnState
from turnflow.graph.step import Step, Stop
from turnflow.graph.text import without_credentials
from turnflow.graph.tokens import calibrated
from turnflow.graph.transcript import turn_messages
from turnflow.nodes.call_llm.attempts import Reply, ask_model
from turnflow.nodes.call_llm.usage import estimated

_ASKED_AGAIN = frozenset({"tools_refused", "context_too_long"})
"""Ways to end early after which the same is asked once more, in another form."""

_MORE = 1.25
"""Where a request was taken that had no room in what was learned, so much of it is taken to fit."""

PlanRequest = Callable[[Any, NodeRun], Body[dict[str, Any]]]


class CallLLM:
    """The node's body; `plan_request` makes the request again where a resumed run has lost it."""

    def __init__(self, plan_request: PlanRequest) -> None:
        self._plan_request = plan_request

    def __call__(self, state: TurnState, run: NodeRun) -> Body[Update]:
        """Call the model, again where that helps.

        Raises:
            TurnError: The request failed and the turn had gathered nothing yet.
        """
        turn = state["turn"]
        view = state.get("view")
        if not view:
            planned = yield from self._plan_request(state, run)
            view, turn = planned["view"], planned["turn"]
            run.emitter(turn).emit("context.assembled", manifest=view["manifest"])
        begun = time.monotonic()
        reply = yield from ask_model({**state, "turn": turn}, view, run)
        seconds = time.monotonic() - begun
        turn, step = reply.turn, reply.step
        usage = reply.usage_with(
            estimated(reply.last_usage, step, view["manifest"], run.resources.counter_in(turn))
        )
        tell_reply(step, usage, seconds, run.emitter(turn))
        turn = {**turn, "usage": sum_usage(turn["usage"], usage)}
        if step["stop"] or is_truncated(step["finish_reason"]):  # the round may go on
            turn["round_seconds"] = round(turn.get("round_seconds", 0.0) + seconds, 3)
        turn |= _learned(turn, view, reply.last_usage, step["stop"], run.resources)
        _learn_for_all(reply, run.resources)
        if step["stop"] not in _ASKED_AGAIN:
            turn["directives"] = []
            if repair := turn.get("repair"):
                turn["repair"] = {**repair, "pending": False}
        if step["stop"] == "provider_error" and not _gathered(state, step):
            yield from _fail(step, turn, reply.cause, run)
        run.emitter(turn).emit("usage", usage=usage, finish_reason=step["finish_reason"])
        return {"step": step, "turn": turn}


def _learned(
    turn: dict[str, Any], view: dict[str, Any], usage: Usage, stop: Stop, resources: TurnResources
) -> dict[str, Any]:
    """Fields of the turn: the largest request that was taken, and how the provider counts compared with us.

    A request that was taken fits: a report of more than the window is none, and a learned window in which
    it would have no room was too small.
    """
    if stop == "context_too_long" or (stop and not usage["input"]):
        return {}
    tokens = view["manifest"]["tokens"]
    learned = {"model": resources.model_name, **resources.learned_in(turn)}
    learned["accepted"] = max(tokens, learned.get("accepted", 0))
    if "window" in learned:
        limit = resources.settings.max_output_tokens
        requested = None if limit is None else limit * turn["output_factor"]
        if window_for(tokens, requested) > learned["window"]:
            learned["window"] = window_for(int(tokens * _MORE), requested)
    if 0 < usage["input"] <= resources.window_in({}):
        learned["factor"] = calibrated(learned.get("factor", 1.0), tokens, usage["input"])
    return {"learned": learned}


def _learn_for_all(reply: Reply, resources: TurnResources) -> None:
    """Remember for later turns what the provider refuses, once it took a request without that."""
    refused = set(resources.refused_in(reply.turn)) - set(reply.turn.get("refused_once", ()))
    if refused and reply.was_taken and not reply.step["stop"]:
        learn_refusals(resources.model_key, refused)


def _gathered(state: TurnState, step: Step) -> bool:
    """Whether the turn has something to make an answer of."""
    own = turn_messages(state["messages"], state["turn"]["input_id"])
    return bool(step["text"].strip()) or bool(own)


def _fail(step: Step, turn: dict[str, Any], cause: BaseException | None, run: NodeRun) -> Body[None]:
    error = step["error"]
    outcome = make_outcome(turn, "provider_error", "provider_error", error=error)
    run.emitter(turn).emit("turn.ended", outcome=outcome, answer="")
    yield from run.hook("on_turn_end", turn, outcome=outcome, answer="")
    told = f"{error['type']}: {error['message']}" if error else "no reason given"
    endpoint = endpoint_of(run.resources.chat_model)
    at = f" at {without_credentials(endpoint)}" if endpoint else ""
    raise TurnError(f"the model could not be called{at}: {told}", outcome) from cause
