"""A model's stream that takes too long, or only seems to."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from langchain_core.messages import AIMessageChunk

from tests.nodes.call_llm.slow_stream import SHORT, Slow, X, both_ways, clock
from turnflow import CancelToken, OpenAICompatibleChat, build_turn_graph, run_turn
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph import daemon
from turnflow.nodes.call_llm.model_stream import Chunk, ModelStream
from turnflow.nodes.call_llm.stream_clock import (
    FirstTokenTimeoutError,
    IdleTimeoutError,
    Limits,
    RoundTimeoutError,
    StreamClock,
)

Consume = Callable[[Chunk], None]


def read(slow: Slow, limits: StreamClock, consume: Consume, *, awaiting: bool) -> list[Chunk]:
    """All that the waits give, to the end; each chunk is handled before the next is waited for."""
    stream = ModelStream(slow.stream, slow.astream, clock=limits)
    got: list[Chunk] = []

    def took(chunk: Chunk) -> bool:
        got.append(chunk)
        if not isinstance(chunk, str):
            consume(chunk)
        return chunk in ("end", "late")

    async def main() -> None:
        while not took(await stream.acall()):
            pass
        stream.close()

    if awaiting:
        asyncio.run(main())
    else:
        while not took(stream.call()):
            pass
        stream.close()
    slow.go_on.set()
    return got


def telling(limits: StreamClock, *, seconds: float = 0.0, finished: bool = False) -> Consume:
    """Tells the clock of each chunk, and takes so long over it."""

    def consume(_: Chunk) -> None:
        limits.seen(has_output=True, finish_reason=finished, usage=False)
        time.sleep(seconds)

    return consume


@both_ways
def test_a_stream_that_never_begins_is_late(*, awaiting: bool) -> None:
    limits = clock(first=SHORT)
    assert read(Slow(math.inf), limits, telling(limits), awaiting=awaiting) == ["late"]
    assert isinstance(limits.expired(), FirstTokenTimeoutError)


@both_ways
def test_a_stream_that_goes_silent_is_late(*, awaiting: bool) -> None:
    limits = clock(idle=SHORT)
    assert read(Slow(0, 0, math.inf), limits, telling(limits), awaiting=awaiting) == [X, X, "late"]
    assert isinstance(limits.expired(), IdleTimeoutError)


@both_ways
def test_a_stream_that_is_held_open_behind_its_end_is_over(*, awaiting: bool) -> None:
    limits = clock(usage=SHORT)
    consume = telling(limits, finished=True)
    assert read(Slow(0, math.inf), limits, consume, awaiting=awaiting) == [X, "late"]
    assert limits.expired() is None


@both_ways
def test_a_stream_that_trickles_on_behind_its_end_is_over(*, awaiting: bool) -> None:
    limits = clock(final=0.3)
    got = read(Slow(0, *[0.05] * 400), limits, telling(limits, finished=True), awaiting=awaiting)
    assert got[-1] == "late"
    assert limits.expired() is None


@both_ways
@pytest.mark.parametrize("finished", [False, True], ids=["ongoing", "finished"])
def test_a_flood_that_is_read_more_slowly_than_it_comes_ends_too(*, awaiting: bool, finished: bool) -> None:
    limits = clock(final=0.3) if finished else clock(deadline=0.3)
    slow = Slow(*[0.001] * 5000)
    got = read(slow, limits, telling(limits, seconds=0.02, finished=finished), awaiting=awaiting)
    assert got[-1] == "late"
    assert isinstance(limits.expired(), RoundTimeoutError) == (not finished)


@both_ways
def test_the_time_that_the_consumer_takes_is_no_silence(*, awaiting: bool) -> None:
    """Blocking the loop, it even keeps what comes from being read."""
    limits = clock(idle=0.5)
    got = read(Slow(0, 0.01, 0.01), limits, telling(limits, seconds=0.7), awaiting=awaiting)
    assert got == [X, X, X, "end"]


def test_what_has_come_is_given_to_its_end_whatever_the_time() -> None:
    limits = clock(deadline=1)
    slow = Slow(0, 0, 0)
    stream = ModelStream(slow.stream, slow.astream, clock=limits)
    assert stream.call() == X
    time.sleep(1.1)
    assert limits.overdue()
    assert [stream.call() for _ in range(3)] == [X, X, "end"]
    stream.close()


def test_a_loop_that_others_block_makes_nothing_late() -> None:
    limits = clock(idle=0.3)

    async def main() -> list[Chunk]:
        stream = ModelStream(Slow(0, 0.2).stream, Slow(0, 0.2).astream, clock=limits)
        got = [await stream.acall()]
        limits.seen(has_output=True, finish_reason=False, usage=False)
        asyncio.get_running_loop().call_later(0.05, time.sleep, 1)
        got += [await stream.acall(), await stream.acall()]
        stream.close()
        return got

    assert asyncio.run(main()) == [X, X, "end"]


def test_a_process_that_stands_still_makes_nothing_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the shell's job control: meanwhile not even a thread reads."""
    stood_still = 0.0

    class Time:
        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + stood_still

    def stream() -> Iterator[AIMessageChunk]:
        nonlocal stood_still
        yield X
        time.sleep(0.05)
        stood_still = 5.0
        time.sleep(daemon.SLICE_SECONDS + 0.05)
        yield X

    monkeypatch.setattr("turnflow.nodes.call_llm.model_stream.time", Time)
    limits = StreamClock(Limits(first_token=1, idle=1, usage=1, final=1), Time.monotonic)
    watched = ModelStream(stream, Slow().astream, clock=limits)
    got = [watched.call()]
    limits.seen(has_output=True, finish_reason=False, usage=False)
    got += [watched.call(), watched.call()]
    watched.close()
    assert got == [X, X, "end"]


@both_ways
def test_ticks_come_while_the_clock_has_time(*, awaiting: bool) -> None:
    limits, slow = clock(first=0.3), Slow(math.inf)
    stream = ModelStream(slow.stream, slow.astream, due=lambda: 0.05, clock=limits)

    async def main() -> list[Chunk]:
        got = [await stream.acall()]
        while got[-1] == "tick":
            got.append(await stream.acall())
        stream.close()
        return got

    if awaiting:
        got = asyncio.run(main())
    else:
        got = [stream.call()]
        while got[-1] == "tick":
            got.append(stream.call())
        stream.close()
        slow.go_on.set()
    assert got[0] == "tick"
    assert got[-1] == "late"


@both_ways
def test_where_no_tick_is_due_none_comes(*, awaiting: bool) -> None:
    slow = Slow(0.05, 0.05)
    stream = ModelStream(slow.stream, slow.astream, due=lambda: None)

    async def main() -> list[Chunk]:
        return [await stream.acall() for _ in range(4)]

    got = asyncio.run(main()) if awaiting else [stream.call() for _ in range(4)]
    assert got == [X, X, "end", "end"]


@both_ways
def test_a_round_that_is_over_already_gives_nothing(*, awaiting: bool) -> None:
    limits = clock(deadline=-1)
    assert read(Slow(math.inf), limits, telling(limits), awaiting=awaiting) == ["late"]
    assert isinstance(limits.expired(), RoundTimeoutError)


@both_ways
def test_a_token_is_heeded_under_a_clock(*, awaiting: bool) -> None:
    token, slow = CancelToken(), Slow(math.inf)
    stream = ModelStream(slow.stream, slow.astream, cancel=token, clock=clock(first=20))
    threading.Timer(0.05, token.cancel).start()
    begun = time.monotonic()
    assert (asyncio.run(_first(stream)) if awaiting else stream.call()) == "cancelled"
    assert time.monotonic() - begun < 10
    stream.close()
    slow.go_on.set()


async def _first(stream: ModelStream) -> Chunk:
    return await stream.acall()


def test_a_blocking_stream_of_comments_is_hung_up_on(fake_provider: Callable[..., FakeProvider]) -> None:
    step = {
        "reply": {"content": "Fine."},
        "fault": {"kind": "trickle", "of": "comments", "every": 0.05, "after": "finish"},
        "forever": True,
    }
    provider = fake_provider({"steps": [step]})
    model = OpenAICompatibleChat(model="m", base_url=provider.base_url)
    graph = build_turn_graph(model, settings={"usage_timeout": 0.05})

    def readers() -> int:
        """Threads that still read from the endpoint."""
        ours = sum(thread.name == "turnflow" for thread in threading.enumerate())
        return ours - len(daemon._idle)

    before = readers()
    for _ in range(10):
        assert run_turn(graph, "How are you?").answer == "Fine."
    deadline = time.monotonic() + 10
    while readers() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert readers() <= before
    provider.allow("steps_left")
