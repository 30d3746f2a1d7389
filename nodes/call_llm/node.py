"""`call_llm`: sends the planned request, shows the reply as it comes, and keeps it as a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp

from turnflow.graph import daemon
from turnflow.graph.budget import window_for
from turnflow.graph.content import iter_text
from turnflow.graph.events import LiveText
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.outcome import NO_USAGE, TurnError, Usage, make_outcome
from turnflow.graph.protocol import UNKNOWN, LabelProtocol
from turnflow.graph.recording import tell_reply
from turnflow.graph.resources import TurnResources
from turnflow.graph.state import TurnState
from turnflow.graph.step import Step, Stop
from turnflow.graph.text import plain_json
from turnflow.graph.tokens import calibrated
from turnflow.graph.transcript import call_order, message_of, turn_messages
from turnflow.nodes.call_llm.chunks import add_usage, chunk_permission
from turnflow.nodes.call_llm.model_stream import Chunk
from turnflow.nodes.call_llm.provider_errors import Failure, classify_error, describe_error
from turnflow.nodes.call_llm.reader import ReplyReader
from turnflow.nodes.call_llm.reading import Reading
from turnflow.nodes.call_llm.reply_events import ReplyEvent
from turnflow.nodes.call_llm.request import open_request

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
        """Call the model once.

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
        step, usage, cause = yield from _read_reply(state, view, run)
        tell_reply(step, usage, time.monotonic() - begun, run.emitter(turn))
        turn = {**turn, "usage": {key: turn["usage"][key] + usage[key] for key in usage}}
        turn |= _learned(turn, view, usage, step["stop"], run.resources)
        if step["stop"] not in _ASKED_AGAIN:
            turn["directives"] = []
            if repair := turn.get("repair"):
                turn["repair"] = {**repair, "pending": False}
        if step["stop"] == "provider_error" and not _gathered(state, step):
            yield from _fail(step, turn, cause, run)
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


def _read_reply(
    state: TurnState, view: dict[str, Any], run: NodeRun
) -> Body[tuple[Step, Usage, BaseException | None]]:
    turn, resources = state["turn"], run.resources
    message_id = turn["message_id"]
    so_far = message_of(state["messages"], message_id) if turn["continuing"] else None
    form = resources.form_in(turn)
    reading = Reading(
        ReplyReader(
            form.protocol,
            profile=resources.profile.model_copy(update={"text_dialects": form.dialects}),
            tool_names=view["offered"],
            after="".join(iter_text(so_far.content)) if so_far else "",
            label=so_far.additional_kwargs["turnflow"]["label"] or UNKNOWN if so_far else None,
        ),
        # Unique in the whole transcript: a strict provider sees the calls of earlier turns too.
        taken_ids={call_id for message in state["messages"] for call_id in call_order(message)},
    )
    interval = resources.settings.coalesce_ms
    live = LiveText(
        run.emitter(turn),
        message_id,
        interval_ms=interval,
        has_begun=so_far is not None,
        as_messages=not isinstance(form.protocol, LabelProtocol),
    )
    shows = not isinstance(form.protocol, LabelProtocol) or form.protocol.stream_final
    stream = open_request(view, resources, run.config, live.due_in if interval else None)
    usage: Usage = {**NO_USAGE, "requests": 1}
    stop: Stop = ""
    cause: BaseException | None = None
    try:
        while True:
            chunk: Chunk = "cancelled" if resources.cancelled else (yield stream)
            if chunk == "end":
                break
            if chunk == "tick":
                live.tick()
            if chunk == "cancelled":
                stop = "cancelled"
                break
            if isinstance(chunk, BaseMessage):
                usage = add_usage(usage, chunk)
                if asked := chunk_permission(chunk):
                    run.emitter(turn).emit("permission", source="provider", request=plain_json(asked))
                _show(live, reading.feed(chunk), content=shows)
    except GraphBubbleUp:
        raise
    except (Exception, asyncio.CancelledError) as error:
        # Whatever a provider or its client raises ends the reply; being cancelled ends the task.
        if isinstance(error, asyncio.CancelledError) and daemon.is_being_cancelled():
            raise
        cause = error
        stop = _meant(classify_error(error), view, reading)
    finally:
        stream.close()
    _show(live, reading.close(), content=shows)
    live.flush()
    step = reading.step(
        message_id, shown=live.shown, stop=stop, error=describe_error(cause) if cause else None
    )
    return step, usage, cause


def _meant(failure: Failure, view: dict[str, Any], reading: Reading) -> Stop:
    """What a failure means here: tools can be refused only where they were sent, and nothing came back."""
    if failure == "tools_refused" and (not view["tools"] or reading.has_begun):
        return "provider_error"
    return failure


def _show(live: LiveText, events: Iterable[ReplyEvent], *, content: bool) -> None:
    for event in events:
        if event["kind"] == "content" and content:
            live.content(event["text"])
        elif event["kind"] == "label":
            live.label(event["text"])
        elif event["kind"] == "thinking":
            live.thinking(event["text"])
        elif event["kind"] == "retract" and content:
            live.retract(event["text"])


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
    endpoint = getattr(run.resources.chat_model, "openai_api_base", None)
    at = f" at {endpoint}" if endpoint else ""
    raise TurnError(f"the model could not be called{at}: {told}", outcome) from cause
