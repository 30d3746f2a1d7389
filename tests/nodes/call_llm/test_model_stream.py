"""A model's stream that is given up, or that breaks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.messages import AIMessageChunk

from turnflow import CancelToken
from turnflow.nodes.call_llm.model_stream import ModelStream

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
