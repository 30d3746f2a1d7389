"""A random mixture of good replies and faults, and conversations that go through it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal
from unittest.mock import patch

from langchain_core.messages import AnyMessage, HumanMessage

from tests.faults.cases import Expected, Fault
from tests.faults.playing import FaultStage
from tests.turns.scripted import call, calls, says
from tests.turns.stage import Mode, Played, check_transcript
from tests.turns.written import calls_tool, decides, hermes
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph.history import full_history
from turnflow.nodes.fold_checkpoint import summary_call

Speech = Literal["native", "label", "json", "text"]
"""How a model says what it wants: natively, under labels, by JSON decisions, or with calls as text."""

SPEECHES: tuple[Speech, ...] = ("native", "label", "native", "json", "native", "text", "native", "native")
"""The threads of a mixture, by the speech of each."""

LONGEST_TURN = 30.0
"""Seconds that a turn may take, whatever befalls it."""

STEPS_A_TURN = 20
SUMMARY_SECONDS = 1.0

SETTINGS: dict[str, Any] = {
    "max_rounds": 3,
    "settle_rounds": 1,
    "max_output_tokens": 400,
    "first_token_timeout": 0.5,
    "idle_timeout": 0.5,
    "usage_timeout": 0.2,
    "final_timeout": 0.5,
    "round_timeout": 6.0,
    "max_retry_wait": 0.05,
}

_STATUSES = (400, 401, 402, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504, 529)
_REFUSED: tuple[dict[str, Any], ...] = (
    {"status": 400, "message": "Unknown parameter: 'stream_options'.", "param": "stream_options"},
    {"status": 400, "message": "Unrecognized request argument supplied: temperature"},
    {"status": 400, "message": "Unsupported parameter: 'max_tokens'.", "param": "max_tokens"},
    {"status": 400, "message": "Conversation roles must alternate user/assistant/user/assistant/..."},
    {"status": 400, "message": "System role not supported"},
)
_ENDS: tuple[dict[str, Any], ...] = (
    {"status": 429, "message": "You exceeded your current quota.", "code": "insufficient_quota"},
    {"status": 400, "message": "Your input is too long.", "code": "context_length_exceeded"},
    {"status": 400, "message": "The response was filtered.", "code": "content_filter"},
    {"status": 429, "message": "slow down", "headers": {"Retry-After": "3600"}},
    {"status": 200, "html": "<html><body>Please log in to the network.</body></html>"},
)
_RAW: tuple[list[str | dict[str, str]], ...] = (
    [""],
    ["data: [DONE]\n\n"],
    [": keep-alive\n\n"],
    ["data: {\n\n"],
    ['data: {"choices":[{"index":0,"delta":{"content":"', {"hex": "ff9fc3"}, '"}}]}\n\n'],
    ['data: {"choices":[{"index":0,"delta":null}]}\n\n', "data: [DONE]\n\n"],
)
_BREAKS = ("truncate", "close", "reset", "error", "malformed", "hang")
_WEIGHTS = (5, 5, 5, 5, 5, 2)
"""A hang costs the time that it takes to notice it."""


@dataclass
class Walk:
    """What a thread went through."""

    statuses: Counter[str] = field(default_factory=Counter)
    raised: int = 0
    retries: int = 0
    requests: int = 0
    longest: float = 0.0
    """Seconds of its longest turn."""


def random_steps(random: Random, count: int, speech: Speech) -> list[dict[str, Any]]:
    """So many answers of a provider on a bad day; then good ones for ever."""
    steps = [_step(random, number, speech) for number in range(count)]
    return [*steps, {**_answer(count, speech), "forever": True}]


def _step(random: Random, number: int, speech: Speech) -> dict[str, Any]:
    kind = random.choices(
        ("good", "cut", "broken", "status", "refused", "ends", "raw"), (46, 6, 24, 12, 4, 4, 4)
    )[0]
    if kind == "status":
        wait = str(random.choice((1, 5, 20)))
        error = {
            "status": random.choice(_STATUSES),
            "message": "A bad day.",
            "headers": {"retry-after-ms": wait},
        }
        return {"error": error}
    if kind == "refused":
        return {"error": random.choice(_REFUSED)}
    if kind == "ends":
        return {"error": random.choice(_ENDS)}
    if kind == "raw":
        return {"raw": random.choice(_RAW)}
    step = {**_reply(random, number, speech), "stream": _stream(random)}
    if kind == "cut":
        step["reply"]["finish_reason"] = random.choice(("length", "content_filter", "eos", None))
    elif kind == "broken":
        step["fault"] = _break(random)
    return step


def _reply(random: Random, number: int, speech: Speech) -> dict[str, Any]:
    kind = random.choices(("answer", "thought", "calls", "silence"), (60, 10, 26, 4))[0]
    if kind == "silence":
        return says(random.choice(("", "\n\n", "<think>Hm.</think>")))
    if kind == "calls":
        return _calls(random, number, speech)
    step = _answer(number, speech)
    if kind == "thought":
        step["reply"]["reasoning_content"] = f"Thought {number}, and what to make of it."
    return step


def _answer(number: int, speech: Speech) -> dict[str, Any]:
    text = f"Answer {number}: 答案 🙂, as it should be."
    if speech == "json":
        return decides("reply", text)
    return says(f"``FINISH``\n{text}" if speech == "label" else text)


def _calls(random: Random, number: int, speech: Speech) -> dict[str, Any]:
    a = random.randrange(100)
    if speech == "json":
        return calls_tool("add", a=a, b=number)
    if speech == "text":
        return says(hermes("add", a=a, b=number))
    # The same ids again and again, a tool that fails, and one that does not exist.
    made = [
        call("add", "c1", a=a, b=number),
        call("echo", random.choice(("c1", "c2")), text=f"echo {number}"),
        call("boom", "c3"),
        call("bomb", "c4"),
    ]
    content = "``TOOL``\nLet me see." if speech == "label" else random.choice(("", "Let me see."))
    return calls(*random.sample(made, random.randint(1, 2)), content=content)


def _stream(random: Random) -> dict[str, Any]:
    style = random.choice(([], ["no_index"], ["index_zero"], ["repeat_ids"], ["whole"], ["interleaved"]))
    return {
        "chunk": random.choice((1, 3, 7, "word", "whole")),
        "write_bytes": random.choice((None, None, 1, 5, 64)),
        "call_style": style,
        "comments": random.random() < 0.1,
        "usage_frame": random.choice(("asked", "always", "with_finish")),
    }


def _break(random: Random) -> dict[str, Any]:
    kind = random.choices(_BREAKS, _WEIGHTS)[0]
    places: list[int | str] = [*range(8), "headers", "finish", "end"]
    if kind in {"close", "reset", "hang"}:
        places.append("request")
    return {"kind": kind, "after": random.choice(places)}


def walk_threads(seed: int, turns: int, mode: Mode, folder: Path) -> list[Walk]:
    """Let each thread go through a mixture of its own, all at once, on one saver and in one event loop.

    Args:
        seed: What is drawn; the same seed gives each thread the same answers again.
        turns: Turns in all.
        mode: How they are run.
        folder: A folder for the threads' file.

    Raises:
        AssertionError: Something that has to hold for each turn does not.
        Exception: A turn raised something else than a `TurnError`.
    """
    share = -(-turns // len(SPEECHES))
    with ExitStack() as stack:
        stage = FaultStage(mode, "sqlite", folder)
        stack.callback(stage.close)
        # A summary that never comes is given up after a minute, which no setting says.
        stack.enter_context(patch.object(summary_call, "SUMMARY_SECONDS", SUMMARY_SECONDS))
        walkers = []
        for number, speech in enumerate(SPEECHES):
            steps = random_steps(Random(f"{seed}-{number}"), share * STEPS_A_TURN, speech)  # noqa: S311
            provider = stack.enter_context(FakeProvider({"steps": steps}))
            walkers.append(_Walker(stage, provider, speech, str(number)))
        if mode == "async":
            stage.run(_together([walker.awalk(share) for walker in walkers]))
        else:
            with ThreadPoolExecutor(len(walkers)) as pool:
                list(pool.map(lambda walker: walker.walk(share), walkers))
        return [walker.walked for walker in walkers]


async def _together(walks: list[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*walks)


class _Walker:
    """Goes through one thread's mixture, turn by turn."""

    def __init__(self, stage: FaultStage, provider: FakeProvider, speech: Speech, thread: str) -> None:
        self._stage, self._provider, self._thread = stage, provider, thread
        self._graph = stage.fault_graph(provider, _setting(speech))
        self._turns = 0
        self._begun = 0.0
        self.walked = Walk()

    def walk(self, turns: int) -> None:
        for _ in range(turns):
            played = self._stage.play(self._graph, self._question(), thread=self._thread)
            self._check(played, full_history(self._graph, self._thread))

    async def awalk(self, turns: int) -> None:
        for _ in range(turns):
            played = await self._stage.aplay(self._graph, self._question(), thread=self._thread)
            self._check(played, await asyncio.to_thread(full_history, self._graph, self._thread))

    def _question(self) -> str:
        self._begun = time.monotonic()
        self._turns += 1
        return _question(self._turns)

    def _check(self, played: Played, history: list[AnyMessage]) -> None:
        walked, seconds = self.walked, time.monotonic() - self._begun
        walked.statuses[played.status] += 1
        walked.raised += played.error is not None
        walked.retries += len(played.of("retry"))
        walked.longest = max(walked.longest, seconds)
        walked.requests = len(self._provider.requests)
        assert seconds < LONGEST_TURN, f"a turn took {seconds:.1f} s"
        assert not self._provider.violations
        assert not self._provider.errors
        _check_nothing_lost(played, history, self._turns)


def _question(number: int) -> str:
    return f"Question {number}, in a few words?"


def _setting(speech: Speech) -> Fault:
    return Fault(
        fault="a bad day",
        name="mixture",
        settings=SETTINGS,
        profile={"native_tools": speech != "text"},
        model={"temperature": 0.2},
        protocol=None if speech == "text" else speech,
        expect=Expected(status="finished", stop_reason="stop", requests=1),
    )


def _check_nothing_lost(played: Played, history: list[AnyMessage], turns: int) -> None:
    """Each user message stands in the thread once, in order, and each answer behind its own."""
    check_transcript(history)
    asked = [message.content for message in history if isinstance(message, HumanMessage)]
    assert asked == [_question(number) for number in range(1, turns + 1)]
    if played.error is None:
        assert history[-1].content == played.answer
    last = max(at for at, message in enumerate(history) if isinstance(message, HumanMessage))
    own = played.messages[last - len(history) :]
    assert [(m.id, m.content) for m in history[last:]] == [(m.id, m.content) for m in own]
