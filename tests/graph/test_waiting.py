"""A pause that a cancel token ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from turnflow import CancelToken
from turnflow.graph.waiting import Pause

LONG = 60.0
"""Seconds that no test waits for."""

INTERRUPTED = """
import signal
from turnflow.graph.cancel import CancelToken
from turnflow.graph.waiting import Pause

for number in range(100):
    token = CancelToken()
    signal.signal(signal.SIGALRM, lambda *_: token.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.00001 + number * 0.00001)
    assert Pause(60, token).call(), number
print("woken")
"""

INTERRUPTED_LOOP = """
import asyncio
import signal
from turnflow.graph.cancel import CancelToken
from turnflow.graph.waiting import Pause

async def main():
    token = CancelToken()
    signal.signal(signal.SIGALRM, lambda *_: token.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    assert await Pause(60, token).acall()

asyncio.run(main())
print("woken")
"""


def run(pause: Pause, *, awaiting: bool) -> bool:
    return asyncio.run(pause.acall()) if awaiting else pause.call()


both_ways = pytest.mark.parametrize("awaiting", [False, True], ids=["call", "acall"])


@both_ways
@pytest.mark.parametrize("cancel", [None, CancelToken()], ids=["no token", "a token"])
def test_a_pause_lasts_its_time(*, awaiting: bool, cancel: CancelToken | None) -> None:
    begun = time.monotonic()
    assert not run(Pause(0.05, cancel), awaiting=awaiting)
    assert time.monotonic() - begun >= 0.049


@both_ways
@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_pause_of_no_time_still_looks_at_the_token(*, awaiting: bool, seconds: float) -> None:
    token = CancelToken()
    assert not run(Pause(seconds, token), awaiting=awaiting)
    assert not run(Pause(seconds), awaiting=awaiting)
    token.cancel()
    assert run(Pause(seconds, token), awaiting=awaiting)


@both_ways
def test_a_token_that_is_cancelled_already_ends_it_at_once(*, awaiting: bool) -> None:
    token = CancelToken()
    token.cancel()
    assert run(Pause(LONG, token), awaiting=awaiting)


@both_ways
def test_another_thread_ends_it(*, awaiting: bool) -> None:
    token = CancelToken()
    threading.Timer(0.05, token.cancel).start()
    begun = time.monotonic()
    assert run(Pause(LONG, token), awaiting=awaiting)
    assert time.monotonic() - begun < LONG / 4


def test_another_task_ends_it() -> None:
    async def main() -> bool:
        token = CancelToken()
        pause = asyncio.create_task(Pause(LONG, token).acall())
        await asyncio.sleep(0.01)
        token.cancel()
        return await pause

    assert asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_it() -> None:
    async def main() -> CancelToken:
        token = CancelToken()
        pause = asyncio.create_task(Pause(LONG, token).acall())
        await asyncio.sleep(0.01)
        pause.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pause
        return token

    assert asyncio.run(main())._wakers == []


@pytest.mark.skipif(sys.platform == "win32", reason="no interval timers")
@pytest.mark.parametrize("program", [INTERRUPTED, INTERRUPTED_LOOP], ids=["call", "acall"])
def test_a_signal_handler_ends_it(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.returncode) == ("woken\n", 0), done.stderr


@both_ways
def test_nobody_is_left_to_be_woken(*, awaiting: bool) -> None:
    token = CancelToken()
    run(Pause(0.001, token), awaiting=awaiting)
    wakers: list[Callable[[], None]] = token._wakers
    assert wakers == []
