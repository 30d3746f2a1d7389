"""A model's stream that is given up, or that breaks."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from tests.nodes.call_llm.slow_stream import Slow, X, clock
from turnflow import CancelToken, OpenAICompatibleChat
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph import daemon
from turnflow.nodes.call_llm.chunks import chunk_finish_reason, chunk_text
from turnflow.nodes.call_llm.model_stream import Chunk, ModelStream
from turnflow.nodes.call_llm.stream_clock import StreamClock

MANY = 10_000
"""Chunks of a stream that nobody reads to its end, a millisecond apart."""


class Endless:
    """A stream that says when it was broken off."""

    def __init__(self) -> None:
        self.broken_off = threading.Event()

    def stream(self) -> Iterator[AIMessageChunk]:
        try:
            for _ in range(MANY):
                yield AIMessageChunk(content="x")
                time.sleep(0.001)
        finally:
            self.broken_off.set()

    async def astream(self) -> AsyncIterator[AIMessageChunk]:
        try:
            yield AIMessageChunk(content="x")
            await asyncio.sleep(20)
        finally:
            self.broken_off.set()


def opened(endless: Endless, token: CancelToken) -> ModelStream:
    return ModelStream(endless.stream, endless.astream, cancel=token)


def test_a_thread_stops_reading_a_stream_that_is_given_up() -> None:
    endless = Endless()
    stream = opened(endless, CancelToken())
    assert stream.call() == AIMessageChunk(content="x")
    stream.close()
    assert endless.broken_off.wait(5)


def test_a_task_that_reads_a_stream_that_is_given_up_is_cancelled() -> None:
    endless = Endless()

    async def main() -> None:
        stream = opened(endless, CancelToken())
        assert await stream.acall() == AIMessageChunk(content="x")
        stream.close()
        await asyncio.sleep(0.01)
        assert endless.broken_off.is_set()

    asyncio.run(main())


def test_a_cancelled_token_is_noticed_before_the_next_chunk() -> None:
    token = CancelToken()
    stream = opened(Endless(), token)
    stream.call()
    token.cancel()
    assert stream.call() == "cancelled"
    stream.close()


def test_what_the_stream_raises_is_raised_to_the_one_who_waits() -> None:
    class Broken(BaseException):
        pass

    def stream() -> Iterator[AIMessageChunk]:
        yield AIMessageChunk(content="x")
        raise Broken

    async def astream() -> AsyncIterator[AIMessageChunk]:
        yield AIMessageChunk(content="x")
        raise asyncio.CancelledError

    async def main() -> None:
        watched = ModelStream(stream, astream, cancel=CancelToken())
        await watched.acall()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await watched.acall()
        watched.close()

    watched = ModelStream(stream, astream, cancel=CancelToken())
    watched.call()
    with pytest.raises(Broken):
        watched.call()
    watched.close()
    asyncio.run(main())


def test_waking_a_loop_that_is_closed_says_nothing() -> None:
    token = CancelToken()

    async def main() -> ModelStream:
        stream = opened(Endless(), token)
        await stream.acall()
        return stream

    stream = asyncio.run(main())
    token.cancel()
    assert stream is not None


async def raises_as_it_is_closed() -> AsyncIterator[AIMessageChunk]:
    try:
        yield X
        await asyncio.sleep(20)
    finally:
        raise ConnectionError("gone")


async def ignores_that_it_is_cancelled(closed: list[str]) -> AsyncIterator[AIMessageChunk]:
    try:
        while True:
            yield X
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                closed.append("cancelled")
    finally:
        closed.append("closed")


async def never_ends(closed: list[str]) -> AsyncIterator[AIMessageChunk]:
    """A model that gives chunks without ever waiting for one."""
    try:
        while True:
            closed.append("asked")
            yield X
    finally:
        closed.append("closed")


def quietly(main: Callable[[], Coroutine[Any, Any, None]], caplog: pytest.LogCaptureFixture) -> None:
    """Run it in a loop of its own, which must have nothing to say."""
    complaints: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await main()

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        asyncio.run(watched())
        gc.collect()
    assert complaints == []
    assert caplog.records == []


def test_a_stream_that_fails_as_it_is_given_up_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stream = ModelStream(Slow().stream, raises_as_it_is_closed, clock=clock())
        await stream.acall()
        stream.close()
        await asyncio.sleep(0.01)

    quietly(main, caplog)


def test_a_stream_is_given_up_as_the_loop_ends(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        for stream in (
            ModelStream(Slow().stream, raises_as_it_is_closed, clock=clock()),
            ModelStream(Slow().stream, Slow(0, math.inf).astream, clock=clock()),
        ):
            await stream.acall()
            stream.close()

    quietly(main, caplog)


def test_a_stream_is_given_up_before_it_was_opened(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stream = ModelStream(Slow().stream, Slow(0).astream, clock=clock(deadline=-1))
        assert await stream.acall() == "late"
        stream.close()

    quietly(main, caplog)


def test_a_model_that_ignores_that_it_is_cancelled_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[str] = []
    kept = ignores_that_it_is_cancelled(closed)  # so that it is not the collector that closes it

    async def main() -> None:
        stream = ModelStream(Slow().stream, lambda: kept, clock=clock())
        await stream.acall()
        stream.close()
        await asyncio.sleep(0.01)
        assert closed == ["cancelled", "closed"]

    quietly(main, caplog)


def test_a_model_that_never_waits_lets_others_have_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[str] = []

    async def main() -> None:
        stream = ModelStream(Slow().stream, lambda: never_ends(closed), clock=clock())
        for _ in range(1000):
            await stream.acall()
        stream.close()
        await asyncio.sleep(0.01)

    quietly(main, caplog)
    assert closed[-1] == "closed"
    assert len(closed) < 2000


def test_no_timer_outlives_its_stream() -> None:
    async def main() -> None:
        stream = ModelStream(Slow().stream, Slow(0.01, math.inf).astream, clock=clock())
        await stream.acall()
        stream.close()
        await asyncio.sleep(0.01)
        loop: Any = asyncio.get_running_loop()
        assert [timer for timer in loop._scheduled if not timer.cancelled()] == []

    asyncio.run(main())


def test_a_loop_that_is_closed_has_nothing_to_give_up() -> None:
    async def main() -> ModelStream:
        stream = ModelStream(Slow().stream, Slow(0, math.inf).astream, clock=clock())
        await stream.acall()
        return stream

    asyncio.run(main()).close()


HOLDS = {
    "steps": [{"reply": {"content": "Four."}, "fault": {"kind": "hang", "after": "finish"}, "forever": True}]
}
"""A gateway that keeps the connection open behind the finish reason."""

TURNS = 20


def heard(limits: StreamClock, chunk: Chunk, said: list[str]) -> bool:
    """Whether more is to come."""
    if isinstance(chunk, str):
        assert chunk == "late"
        assert limits.expired() is None
        return False
    said.append(chunk_text(chunk))
    limits.seen(has_output=bool(said[-1]), finish_reason=bool(chunk_finish_reason(chunk)), usage=False)
    return True


def opened_at(provider: FakeProvider) -> tuple[ModelStream, StreamClock]:
    model = OpenAICompatibleChat(model="fake-model", base_url=provider.base_url)
    limits = clock(first=20, idle=20, usage=0.05)
    return ModelStream(lambda: model.stream("2+2?"), lambda: model.astream("2+2?"), clock=limits), limits


def until(holds: Callable[[], bool]) -> bool:
    for _ in range(500):
        if holds():
            return True
        time.sleep(0.01)
    return False


def test_threads_of_connections_that_are_held_open_are_not_lost() -> None:
    """Each ends with its connection, and works again."""

    def ours() -> int:
        return sum(thread.name == "turnflow" for thread in threading.enumerate())

    counts = []
    for _ in range(2):
        with FakeProvider(HOLDS) as provider:
            for _ in range(TURNS):
                stream, limits = opened_at(provider)
                said: list[str] = []
                while heard(limits, stream.call(), said):
                    pass
                stream.close()
                assert "".join(said) == "Four."
        assert until(lambda: len(daemon._idle) == ours()), "a thread still reads"
        counts.append(ours())
    assert counts[1] <= counts[0]


def test_connections_that_are_held_open_are_closed() -> None:
    """The provider sees at once that nobody listens any more."""

    async def main(provider: FakeProvider) -> None:
        for _ in range(TURNS):
            stream, limits = opened_at(provider)
            said: list[str] = []
            while heard(limits, await stream.acall(), said):
                pass
            stream.close()
            assert "".join(said) == "Four."
        await asyncio.sleep(0.2)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert until(lambda: not provider._server._tasks), "a connection is still open"

    with FakeProvider(HOLDS) as provider:
        asyncio.run(main(provider))
