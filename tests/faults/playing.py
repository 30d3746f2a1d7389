"""Plays a fault: the turn that meets it, the next turn on its thread, and what holds for both."""

from __future__ import annotations

import socket
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from tests.faults.cases import ANSWER_AFTER, QUICK, Expected, Fault
from tests.turns.stage import (
    Mode,
    Played,
    SaverKind,
    Stage,
    _read,
    add,
    boom,
    check_laws,
    check_plain,
    check_transcript,
    echo,
)
from turnflow import OpenAICompatibleChat, ProviderProfile, build_turn_graph
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph.outcome import TurnError

NEXT = "And how are you now?"
TOOLS = (add, echo, boom)
LONGEST_NEXT = 10.0
"""Seconds that the turn after a fault may take."""


@dataclass(frozen=True)
class Report:
    """What a fault came to."""

    status: str
    requests: int
    """Requests of the turn that met it."""
    seconds: float
    """How long that turn took."""


class FaultStage(Stage):
    """A stage whose model has a name of its own: what the process learns of it holds for it alone.

    Several threads can be played on it at once, by `play` in threads or by `aplay` in tasks.
    """

    def __init__(self, mode: Mode, saver: SaverKind, folder: Path) -> None:
        super().__init__(mode, saver, folder)
        self.model_name = f"fault-{uuid.uuid4().hex}"

    def model(self, provider: FakeProvider, **options: Any) -> OpenAICompatibleChat:
        """A model with clients of its own, closed with the stage."""
        return super().model(provider, **options).model_copy(update={"model_name": self.model_name})

    async def aplay(self, graph: Any, given: str, *, thread: str) -> Played:
        """Run one input inside the stage's loop, as `play` does from outside; checks the laws."""
        played = Played()
        self._played[thread] = graph
        config = {"configurable": {"thread_id": thread}}
        parts = graph.astream(
            {"messages": [HumanMessage(content=given)]},
            config,
            stream_mode=["custom", "messages", "values"],
            version="v2",
        )
        try:
            await _read(played, parts)
        except TurnError as error:
            played.error = error
        check_laws(played)
        check_plain(dict((await graph.aget_state(config)).values))
        return played

    def fault_graph(self, provider: FakeProvider, fault: Fault) -> Any:
        """The graph that meets a fault."""
        return build_turn_graph(
            self.model(provider, **fault.model),
            list(TOOLS),
            provider_profile=ProviderProfile(**fault.profile),
            checkpointer=self.saver,
            settings={**QUICK, **fault.settings},
            protocol=fault.protocol,
        )


def play_fault(fault: Fault, mode: Mode, saver: SaverKind, folder: Path) -> Report:
    """Play a fault and check all that has to hold.

    Args:
        fault: The fault.
        mode: How turns are run.
        saver: Where the thread is kept.
        folder: A folder for the thread's file.

    Raises:
        AssertionError: Something does not hold; the text says what.
    """
    with ExitStack() as stack:
        stage = FaultStage(mode, saver, folder)
        stack.callback(stage.close)
        provider = _provider(fault)
        stack.callback(provider.stop)
        provider.start()
        if fault.is_down:
            provider.stop()  # its address is known now
        report = _play(stage, provider, fault)
        # A connection that the provider broke may still be on its way to it.
        provider.stop()
        _check_provider(provider, fault)
    return report


def _play(stage: FaultStage, provider: FakeProvider, fault: Fault) -> Report:
    graph = stage.fault_graph(provider, fault)
    for number in range(len(fault.before)):
        stage.play(graph, f"Question {number}?")
    sent = len(provider.requests)
    begun = time.monotonic()
    played = stage.play(graph, _given(fault))
    seconds = time.monotonic() - begun
    requests = len(provider.requests) - sent
    check_ending(played, fault.expect, fault.given)
    assert requests == fault.expect.requests, f"{requests} requests were sent"
    _check_time(seconds, fault.expect)
    _check_attempts(played, stage, requests)
    if fault.is_down:
        provider.start()
    _check_next(stage, provider, graph, fault, thread="t")
    if fault.is_learned:
        _check_next(stage, provider, stage.fault_graph(provider, fault), fault, thread="another")
    return Report(played.status, requests, seconds)


def _check_next(stage: FaultStage, provider: FakeProvider, graph: Any, fault: Fault, *, thread: str) -> None:
    """The next turn works: nothing is refused, nothing is tried again, and it ends as if nothing had been."""
    sent = len(provider.requests)
    begun = time.monotonic()
    after = stage.play(graph, NEXT, thread=thread)
    assert (seconds := time.monotonic() - begun) < LONGEST_NEXT, f"the next turn took {seconds:.1f} s"
    assert after.error is None, f"the next turn failed: {after.error}"
    assert (after.status, after.answer) == ("finished", ANSWER_AFTER), after.outcome
    assert len(provider.requests) - sent == len(fault.next), "the next turn needs more requests"
    assert not after.of("degraded"), after.of("degraded")
    assert not after.of("retry"), after.of("retry")
    assert after.outcome["degradations"] == []
    assert after.outcome["error"] is None
    assert [m.content for m in after.messages if isinstance(m, HumanMessage)][-1] == NEXT


def check_ending(played: Played, expected: Expected, given: Any) -> None:
    """The turn ended as it has to."""
    outcome = played.outcome
    assert (outcome["status"], outcome["stop_reason"]) == (expected.status, expected.stop_reason), outcome
    assert (played.error is not None) == expected.raises, outcome
    if expected.answer is not None:
        assert played.answer == expected.answer
    assert sorted(outcome["degradations"]) == sorted(expected.degradations), outcome
    assert outcome["partial"] == expected.partial, outcome
    told = Counter(event["degradation"] for event in played.of("degraded"))
    assert told == Counter(
        [*expected.in_vain, *(name for name in expected.degradations if name != "provider_error")]
    )
    assert len(played.of("retry")) == expected.retries, f"{len(played.of('retry'))} retries"
    counts = {kind: len(played.of(kind)) for kind in expected.events}
    assert counts == expected.events
    own = _own(played)
    assert own[0].content == given
    _check_error(outcome["error"], expected)
    if expected.shape is not None:
        assert played.shape()[-len(own) :] == expected.shape
    if expected.results is not None:
        assert [str(m.content) for m in own if m.type == "tool"] == expected.results
    if expected.thinking is not None:
        last = own[-1]
        assert isinstance(last, AIMessage)
        assert last.additional_kwargs["turnflow"]["thinking"] == expected.thinking


def _check_error(error: dict[str, Any] | None, expected: Expected) -> None:
    if expected.error is not None:
        assert (error or {}).get("type", "") == expected.error
    if expected.error_status is not None:
        assert error is not None
        assert error["status_code"] == expected.error_status
    if expected.raises or "provider_error" in expected.degradations:
        assert error is not None
        assert error["message"]


def _check_time(seconds: float, expected: Expected) -> None:
    if expected.longest is not None:
        assert seconds <= expected.longest, f"it took {seconds:.2f} s"
    if expected.shortest is not None:
        assert seconds >= expected.shortest, f"it took {seconds:.2f} s"


def _check_attempts(played: Played, stage: FaultStage, requests: int) -> None:
    """Each attempt is told of: the usage counts it, and a retry says how long is waited and why."""
    assert played.outcome["usage"]["requests"] >= requests
    for number, event in enumerate(played.of("retry"), start=1):
        assert number >= event["attempt"] >= 1
        assert event["wait"] >= 0
        assert event["error"]["message"]
    for event in played.of("degraded"):
        assert event["error"]["message"]
    if played.error:
        assert isinstance(played.error, TurnError)
        assert played.error.__cause__ is not None
        check_transcript(stage.state(_last_graph(stage), {"configurable": {"thread_id": "t"}})["messages"])


def _last_graph(stage: FaultStage) -> Any:
    return stage._played["t"]


def _own(played: Played) -> list[Any]:
    """The messages of the turn itself, its user message first."""
    messages = played.messages
    first = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
    return messages[first:]


def _given(fault: Fault) -> Any:
    if isinstance(fault.given, str):
        return fault.given
    return {"messages": [HumanMessage(content=list(fault.given))]}


def _check_provider(provider: FakeProvider, fault: Fault) -> None:
    assert provider.refusals == fault.expect.refusals
    assert len(provider.violations) == fault.expect.violations, provider.violations
    if fault.expect.violations:
        provider.allow("violations")
    provider.assert_clean()


def _provider(fault: Fault) -> FakeProvider:
    after = fault.next * (2 if fault.is_learned else 1)
    script = {"note": fault.name, **fault.provider, "steps": [*fault.before, *fault.steps, *after]}
    return FakeProvider(script, port=_free_port() if fault.is_down else 0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
