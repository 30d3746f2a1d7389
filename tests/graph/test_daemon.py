"""Work in daemon threads: context, waiting, waking, giving up."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any

import pytest

from turnflow import CancelToken
from turnflow.graph import daemon
from turnflow.graph.flow import InThread

NAME: ContextVar[str] = ContextVar("name", default="nobody")

INTERRUPTED = """
import signal
from concurrent.futures import Future
from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken

token = CancelToken()
signal.signal(signal.SIGALRM, lambda *_: token.cancel())
for number in range(200):
    token = CancelToken()
    signal.setitimer(signal.ITIMER_REAL, 0.00001 + number * 0.000001)
    try:
        daemon.wait_done(Future(), timeout=0.2, cancel=token)
    except daemon.GivenUpError as error:
        assert error.cancelled, number
    else:
        raise AssertionError(number)
print("woken")
"""

FORKED = """
import os
from turnflow.graph import daemon

daemon.start(int).result(10)
child = os.fork()
if child == 0:
    print(daemon.start(lambda: "in the child").result(10), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_work_sees_the_callers_context_variables() -> None:
    token = NAME.set("ann")
    future = daemon.start(NAME.get)
    NAME.reset(token)
    assert future.result(10) == "ann"
    assert daemon.start(NAME.get).result(10) == "nobody"


def test_what_work_sets_stays_in_its_thread() -> None:
    daemon.start(lambda: NAME.set("bob")).result(10)
    assert NAME.get() == "nobody"


def test_a_thread_works_again_and_an_abandoned_one_holds_up_nobody() -> None:
    thread = daemon.start(threading.get_ident).result(10)
    assert {daemon.start(threading.get_ident).result(10) for _ in range(20)} == {thread}
    go_on = threading.Event()
    abandoned = daemon.start(lambda: go_on.wait(10) and threading.get_ident())
    assert daemon.start(threading.get_ident).result(10) != thread
    go_on.set()
    assert abandoned.result(10) == thread


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_work_goes_on_in_a_forked_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("in the child\n", 0), done.stderr


def test_a_task_that_stops_waiting_for_work_costs_no_thread() -> None:
    go_on = threading.Event()

    async def main() -> None:
        waiting = asyncio.ensure_future(InThread(lambda: go_on.wait(10) and threading.get_ident()).acall())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    abandoned = daemon.start(threading.get_ident).result(10)
    go_on.set()
    assert {daemon.start(threading.get_ident).result(10) for _ in range(40)} >= {abandoned}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_what_work_raises_ends_up_in_the_future(error: type[BaseException]) -> None:
    def work() -> None:
        raise error

    assert isinstance(daemon.start(work).exception(10), error)


@pytest.mark.skipif(sys.platform == "win32", reason="no interval timers")
def test_a_signal_handler_may_cancel_within_the_wait() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("woken\n", 0), done.stderr


def test_cancelling_waits_for_nobody_who_registers() -> None:
    """A signal handler may have interrupted the very thread that holds the lock."""
    token = CancelToken()
    with token._lock:
        cancelling = threading.Thread(target=token.cancel, daemon=True)
        cancelling.start()
        cancelling.join(5)
        assert not cancelling.is_alive()
    assert token.cancelled


def test_a_wait_ends_when_its_time_is_over() -> None:
    with pytest.raises(daemon.GivenUpError) as blocking:
        daemon.wait_done(Future(), timeout=0.01, cancel=CancelToken())
    with pytest.raises(daemon.GivenUpError) as awaiting:
        asyncio.run(daemon.await_done(Future(), timeout=0.01, cancel=CancelToken()))
    assert not blocking.value.cancelled
    assert not awaiting.value.cancelled


def test_a_token_that_is_cancelled_already_ends_a_wait_at_once() -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(daemon.GivenUpError) as blocking:
        daemon.wait_done(Future(), timeout=20, cancel=token)
    with pytest.raises(daemon.GivenUpError) as awaiting:
        asyncio.run(daemon.await_done(Future(), timeout=20, cancel=token))
    assert blocking.value.cancelled
    assert awaiting.value.cancelled


def test_work_that_ends_after_the_loop_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    future: Future[int] = Future()
    with pytest.raises(daemon.GivenUpError):
        asyncio.run(daemon.await_done(future, timeout=0.01, cancel=None))
    future.set_result(1)
    assert caplog.records == []


class Sleeper:
    """A coroutine that sleeps before it has its effect."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.effects: list[str] = []

    async def sleep(self) -> str:
        self.begun.set()
        await asyncio.sleep(20)
        self.effects.append("acted")
        return "late"


def test_a_sleeping_coroutine_that_is_given_up_ends_without_its_effect() -> None:
    sleeper = Sleeper()
    thread = daemon.CoroutineThread(sleeper.sleep)
    assert sleeper.begun.wait(10)
    thread.give_up()
    assert isinstance(thread.future.exception(10), asyncio.CancelledError)
    assert sleeper.effects == []


def test_a_coroutine_that_is_given_up_before_it_begins_does_not_begin() -> None:
    sleeper, made, given_up = Sleeper(), threading.Event(), threading.Event()

    def make() -> Coroutine[Any, Any, str]:
        made.set()
        given_up.wait(10)
        return sleeper.sleep()

    thread = daemon.CoroutineThread(make)
    assert made.wait(10)
    thread.give_up()
    given_up.set()
    assert isinstance(thread.future.exception(10), asyncio.CancelledError)
    assert not sleeper.begun.is_set()


def test_giving_up_a_coroutine_that_has_ended_does_nothing() -> None:
    async def quick() -> int:
        return 1

    thread = daemon.CoroutineThread(quick)
    assert thread.future.result(10) == 1
    thread.give_up()
    assert thread.future.result() == 1
