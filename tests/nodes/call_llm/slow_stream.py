"""A stream whose chunks come when they are told to, and clocks for it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from langchain_core.messages import AIMessageChunk

from turnflow.nodes.call_llm.stream_clock import Limits, StreamClock

X = AIMessageChunk(content="x")
HOURS = 9999.0
SHORT = 0.3

both_ways = pytest.mark.parametrize("awaiting", [False, True], ids=["call", "acall"])


class Slow:
    """A stream of chunks that come after so many seconds each; `math.inf` for one that never comes."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = seconds
        self.go_on = threading.Event()

    def stream(self) -> Iterator[AIMessageChunk]:
        for seconds in self._seconds:
            if seconds == math.inf:
                self.go_on.wait(20)
                return
            if seconds:
                time.sleep(seconds)
            yield X

    async def astream(self) -> AsyncIterator[AIMessageChunk]:
        for seconds in self._seconds:
            await asyncio.sleep(20 if seconds == math.inf else seconds)
            for _ in range(5):
                await asyncio.sleep(0)  # as between a socket and a client
            yield X


def clock(
    first: float = HOURS,
    idle: float = HOURS,
    usage: float = HOURS,
    final: float = HOURS,
    deadline: float = HOURS,
) -> StreamClock:
    return StreamClock(Limits(first, idle, usage, final, time.monotonic() + deadline))
