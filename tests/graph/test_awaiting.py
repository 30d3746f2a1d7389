"""Waiting for an awaitable of a caller's: a token ends it, and what is begun late has some seconds."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any, Literal

import pytest

from turnflow import CancelToken
from turnflow.graph import awaiting
from turnflow.graph.awaiting import await_for, wait_for
from turnflow.graph.daemon import GivenUpError

Mode = Literal["sync", "async"]


def wait(mode: Mode, seconds: float, token: CancelToken | None) -> Any:
    async def said() -> str:
        await asyncio.sleep(seconds)
        return "said"

    async def main() -> str:
        return await await_for(said(), token)

    return wait_for(said(), token) if mode == "sync" else asyncio.run(main())


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("token", [None, CancelToken()])
def test_it_gives_what_the_awaitable_gives(mode: Mode, token: CancelToken | None) -> None:
    assert wait(mode, 0.01, token) == "said"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_token_ends_the_wait(mode: Mode) -> None:
    token, began = CancelToken(), time.monotonic()
    threading.Timer(0.1, token.cancel).start()
    with pytest.raises(GivenUpError):
        wait(mode, 20, token)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_begun_late_has_some_seconds(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "LATE_SECONDS", 0.2)
    token = CancelToken()
    token.cancel()
    assert wait(mode, 0.01, token) == "said"
    with pytest.raises(GivenUpError):
        wait(mode, 20, token)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_the_awaitable_raises_is_raised(mode: Mode) -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def main() -> None:
        await await_for(fails(), CancelToken())

    with pytest.raises(ValueError, match="no"):
        wait_for(fails(), None) if mode == "sync" else asyncio.run(main())


async def test_what_a_task_raises_that_is_given_up_is_no_news() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    token = CancelToken()

    async def breaks() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            raise ValueError("as it is given up")

    threading.Timer(0.05, token.cancel).start()
    with pytest.raises(GivenUpError):
        await await_for(breaks(), token)
    await asyncio.sleep(0.01)
    gc.collect()
    assert told == []
