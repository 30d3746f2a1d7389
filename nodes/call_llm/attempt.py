"""One attempt at a reply: a request is sent, and what comes of it is shown and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp

from turnflow.graph.content import iter_text
from turnflow.graph.degradation import STREAM
from turnflow.graph.events import LiveText
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.outcome import NO_USAGE, ErrorInfo, Usage
from turnflow.graph.partial_replies import is_broken_off, keep_partial, take_partial
from turnflow.graph.protocol import UNKNOWN, LabelProtocol
from turnflow.graph.state import TurnState
from turnflow.graph.step import Step, Stop
from turnflow.graph.text import plain_json
from turnflow.graph.transcript import call_order, message_of
from turnflow.nodes.call_llm.chunks import add_usage, chunk_permission
from turnflow.nodes.call_llm.errors.classify import PrematureEndError, classify_error, describe_error
from turnflow.nodes.call_llm.errors.failure import Failure
from turnflow.nodes.call_llm.model_stream import Chunk
from turnflow.nodes.call_llm.reader import ReplyReader
from turnflow.nodes.call_llm.reading import Reading
from turnflow.nodes.call_llm.reply_events import ReplyEvent
from turnflow.nodes.call_llm.request import Request
from turnflow.nodes.call_llm.stream_clock import StreamClock
from turnflow.nodes.call_llm.streamless import EmptyStreamError, of_empty_stream, refuses_stream

_STOPS: dict[str, Stop] = {"context_too_long": "context_too_long", "content_filter": "content_filter"}
"""What a failure means that is no matter of trying again; any other is the provider's error."""


@dataclass(frozen=True)
class Attempt:
    """What came of one request.

    Attributes:
        usage: What it took, `requests` included.
        cause: What the model raised.
        failure: What that means; None where the reply is whole, or was cancelled.
        is_silent: Whether the user was shown nothing, so that the same may be asked again.
        was_taken: Whether the provider took the request: a part of a reply came.
        settle: Shows the rest of it and gives the step, for the last attempt. A reason to stop that is given
            takes the place of its own.
    """

    usage: Usage
    cause: BaseException | None
    failure: Failure | None
    is_silent: bool
    was_taken: bool
    settle: Callable[[Stop], Step]

    @property
    def is_empty(self) -> bool:
        """Whether the stream was over before anything came."""
        return isinstance(self.cause, EmptyStreamError)

    @property
    def error(self) -> ErrorInfo | None:
        """What the model raised, as data."""
        return None if self.cause is None else describe_error(self.cause)


def attempt_reply(
    state: TurnState, view: dict[str, Any], request: Request, clock: StreamClock, run: NodeRun
) -> Body[Attempt]:
    """Send the request once, and read what comes until it ends, fails, is late or is cancelled."""
    left = take_partial(run, state["turn"]["message_id"])
    if left and run.resources.cancelled:  # the run that read it was broken off, and the turn settles
        step, usage = left
        return Attempt(usage, None, None, is_silent=False, was_taken=True, settle=lambda _: step)
    return (yield from _Receiver(state, view, clock, run).receive(request))


class _Receiver:
    """Shows and reads one reply while it comes."""

    def __init__(self, state: TurnState, view: dict[str, Any], clock: StreamClock, run: NodeRun) -> None:
        turn, resources = state["turn"], run.resources
        form = resources.form_in(turn)
        so_far = message_of(state["messages"], turn["message_id"]) if turn["continuing"] else None
        self._run, self._clock = run, clock
        self._emitter = run.emitter(turn)
        self._message_id: str = turn["message_id"]
        self._reading = Reading(
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
        self._live = LiveText(
            self._emitter,
            self._message_id,
            interval_ms=resources.settings.coalesce_ms,
            has_begun=so_far is not None,
            as_messages=not isinstance(form.protocol, LabelProtocol),
        )
        self._shows = not isinstance(form.protocol, LabelProtocol) or form.protocol.stream_final
        self._usage: Usage = {**NO_USAGE, "requests": 1}

    def receive(self, request: Request) -> Body[Attempt]:
        """Read to the end, however it comes."""
        due = self._live.due_in if self._run.resources.settings.coalesce_ms else None
        stream = request.open(due, self._clock)
        stop: Stop = ""
        cause: BaseException | None = None
        try:
            while True:
                chunk: Chunk = "cancelled" if self._run.resources.cancelled else (yield stream)
                if chunk == "end":
                    if request.names_its_end and self._reading.has_begun and not self._reading.has_ended:
                        cause = PrematureEndError("the stream ended without a finish reason")
                    break
                if chunk == "cancelled":
                    stop = "cancelled"
                    break
                if chunk == "late":
                    cause = self._clock.expired()
                    break
                self._take(chunk)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            # Whatever a provider or its client raises ends the reply; being broken off ends the task.
            if is_broken_off(error):
                keep_partial(self._run, self._message_id, self._partial)
                raise
            cause = of_empty_stream(error)
        finally:
            stream.close()
        return self._attempt(request, stop, cause)

    def _take(self, chunk: Chunk) -> None:
        if not isinstance(chunk, BaseMessage):
            self._live.tick()
            return
        usage = self._usage
        self._usage = add_usage(usage, chunk)
        if asked := chunk_permission(chunk):
            self._emitter.emit("permission", source="provider", request=plain_json(asked))
        self._show(self._reading.feed(chunk))
        self._clock.seen(
            has_output=self._reading.brought,
            finish_reason=bool(self._reading.finish_reason),
            usage=self._usage is not usage,
        )

    def _attempt(self, request: Request, stop: Stop, cause: BaseException | None) -> Attempt:
        reading = self._reading
        failure = None if cause is None else classify_error(cause, request.sent)
        if cause and failure and failure.kind == "final" and request.streams and refuses_stream(cause):
            failure = Failure("refused", STREAM)
        if failure and failure.kind == "transient" and reading.finish_reason:
            cause = failure = None  # the reply was whole when the connection broke
        if failure:
            stop = _STOPS.get(failure.kind, "provider_error")
        error = describe_error(cause) if cause else None

        def settle(other: Stop) -> Step:
            why = other or stop
            self._show(reading.close(broken_off=bool(why)))
            self._live.flush()
            return reading.step(self._message_id, shown=self._live.shown, stop=why, error=error)

        is_silent = not self._live.shown and not reading.retracted
        return Attempt(self._usage, cause, failure, is_silent, was_taken=reading.has_begun, settle=settle)

    def _partial(self) -> tuple[Step, Usage]:
        """What was shown of a reply that is broken off from outside: nobody listens to the rest any more."""
        self._reading.close(broken_off=True)
        step = self._reading.step(self._message_id, shown=self._live.sent, stop="cancelled")
        sent = self._live.sent
        return {**step, "text": sent, "body": sent, "raw": sent}, self._usage

    def _show(self, events: Iterable[ReplyEvent]) -> None:
        live = self._live
        for event in events:
            if event["kind"] == "content" and self._shows:
                live.content(event["text"])
            elif event["kind"] == "label":
                live.label(event["text"])
            elif event["kind"] == "thinking":
                live.thinking(event["text"])
            elif event["kind"] == "retract" and self._shows:
                live.retract(event["text"])
