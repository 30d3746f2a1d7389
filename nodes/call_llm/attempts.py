"""The attempts at one reply: again after a failure that passes, or in another form after a refusal.

Nothing that the user was shown is asked for again (docs/retries.md, docs/degradation.md).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from turnflow.graph.degradation import STREAM
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.outcome import NO_USAGE, ErrorInfo, Usage, sum_usage
from turnflow.graph.reply_form import TOOLS_REFUSED
from turnflow.graph.retrying import pause_before
from turnflow.graph.settings import TurnSettings
from turnflow.graph.state import TurnState
from turnflow.graph.step import Step, Stop
from turnflow.graph.waiting import Pause
from turnflow.nodes.call_llm.attempt import Attempt, attempt_reply
from turnflow.nodes.call_llm.errors.failure import Failure
from turnflow.nodes.call_llm.request import Request
from turnflow.nodes.call_llm.stream_clock import StreamClock

_EMPTY_STREAMS = 2
"""Streams without anything in them, one after the other, after which the reply is asked for whole."""


@dataclass(frozen=True)
class Reply:
    """What came of asking for one reply.

    Attributes:
        turn: The turn, with what it learned of the provider.
        step: The reply.
        earlier_usage: What the requests before the last one took.
        last_usage: What the last one took.
        cause: What the model raised last.
        was_taken: Whether the provider took the last request.
    """

    turn: dict[str, Any]
    step: Step
    earlier_usage: Usage
    last_usage: Usage
    cause: BaseException | None
    was_taken: bool

    def usage_with(self, last: Usage) -> Usage:
        """What all of them took, with another count of the last one."""
        return sum_usage(self.earlier_usage, last)


def ask_model(state: TurnState, view: dict[str, Any], run: NodeRun) -> Body[Reply]:
    """Ask until there is a reply, or nothing that would help is left."""
    turn, settings = state["turn"], run.resources.settings
    deadline = time.monotonic() + max(0.0, settings.round_timeout - turn.get("round_seconds", 0.0))
    earlier: Usage = dict(NO_USAGE)
    stop: Stop = ""
    tried: list[str] = []
    before: ErrorInfo | None = None
    empty = 0
    while True:
        request = Request(view, turn, run.resources, run.config)
        clock = StreamClock(request.limits(deadline))
        attempt = yield from attempt_reply({**state, "turn": turn}, view, request, clock, run)
        failure, empty = attempt.failure, empty + 1 if attempt.is_empty else 0
        if empty >= _EMPTY_STREAMS and request.streams:
            failure = Failure("refused", STREAM)  # it answers a request for a stream with something else
        if tried and tried[-1] != STREAM and attempt.error is not None and attempt.error == before:
            turn = _with_again(tried[-1], turn)  # to leave it out did not help
        before = attempt.error
        if failure is None or not attempt.is_silent:
            break
        if failure.kind == "refused" and failure.refusal not in {*run.resources.refused_in(turn), *tried}:
            if failure.refusal == TOOLS_REFUSED:
                stop = "tools_refused"
                break
            turn = _without(failure, turn, attempt, run)
            tried.append(failure.refusal)
            earlier = sum_usage(earlier, attempt.usage)
            continue
        pause = _pause_before_next(failure, turn, settings, deadline)
        if pause is None:
            break
        turn = _counted(turn)
        run.emitter(turn).emit(
            "retry",
            attempt=turn["round_retries"],
            wait=round(pause, 3),
            error=attempt.error,
            message_id=turn["message_id"],
        )
        if (yield Pause(pause, run.resources.cancel)):
            stop = "cancelled"
            break
        earlier = sum_usage(earlier, attempt.usage)
    return Reply(turn, attempt.settle(stop), earlier, attempt.usage, attempt.cause, attempt.was_taken)


def _pause_before_next(
    failure: Failure, turn: dict[str, Any], settings: TurnSettings, deadline: float
) -> float | None:
    """Seconds to wait before the same is asked again; None where it is not to be."""
    if failure.kind != "transient":
        return None
    in_round, in_turn = turn.get("round_retries", 0), turn.get("retries", 0)
    if in_round >= settings.retries_per_round or in_turn >= settings.retries_per_turn:
        return None
    pause = pause_before(in_round + 1, failure.retry_after, settings)
    return None if pause is None or time.monotonic() + pause >= deadline else pause


def _counted(turn: dict[str, Any]) -> dict[str, Any]:
    return {**turn, "round_retries": turn.get("round_retries", 0) + 1, "retries": turn.get("retries", 0) + 1}


def _without(failure: Failure, turn: dict[str, Any], attempt: Attempt, run: NodeRun) -> dict[str, Any]:
    """The turn, with one more thing that its provider refuses."""
    refusal = failure.refusal
    run.emitter(turn).emit("degraded", degradation=refusal, error=attempt.error)
    return {
        **turn,
        **run.resources.refusing([*run.resources.refused_in(turn), refusal]),
        **({} if failure.lasting else {"refused_once": [*turn.get("refused_once", ()), refusal]}),
        "degradations": [*turn["degradations"], refusal],
        "error": attempt.error,
    }


def _with_again(refusal: str, turn: dict[str, Any]) -> dict[str, Any]:
    """The turn, with what was left out in vain."""
    lists = {name: [each for each in turn[name] if each != refusal] for name in ("refused", "degradations")}
    return {**turn, **lists}
