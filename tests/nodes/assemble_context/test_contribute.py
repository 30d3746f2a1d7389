"""Contributors: all are asked at once, and none of them can break or delay a turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from turnflow import CancelToken
from turnflow.graph.contributions import ContributionQuery, Contributor
from turnflow.graph.flow import adrive, drive
from turnflow.nodes.assemble_context.contribute import Got, bounded, contribute

Mode = Literal["sync", "async"]

LONG = 30.0
"""Seconds that no test waits for."""


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


class Run:
    """As much of a node's run as contributors need; keeps the events."""

    def __init__(self, cancel: CancelToken | None = None) -> None:
        self.resources = SimpleNamespace(cancel=cancel)
        self.events: list[dict[str, Any]] = []

    def emitter(self, turn: dict[str, Any]) -> Any:
        def emit(kind: str, **fields: Any) -> None:
            self.events.append({"type": kind, "turn_id": turn["id"], **fields})

        return SimpleNamespace(emit=emit)


def query(**variables: Any) -> ContributionQuery:
    return {
        "session_id": "s",
        "turn_id": "t",
        "user_id": "ann",
        "text": "What now?",
        "variables": variables,
    }


def ask(
    mode: Mode, given: list[Contributor], *, timeout: float = LONG, run: Run | None = None, **variables: Any
) -> tuple[list[Any], list[dict[str, Any]]]:
    """The contributions and the events."""
    used: Any = run or Run()

    def body() -> Any:
        return contribute(given, query(**variables), timeout, used, {"id": "t"})

    contributions = drive(body()) if mode == "sync" else asyncio.run(adrive(body()))
    return contributions, used.events


def wait(mode: Mode, call: Callable[[], Any], timeout: float, cancel: CancelToken | None = None) -> Got:
    waiting = bounded(call, timeout, cancel)
    got: Got = waiting.call() if mode == "sync" else asyncio.run(waiting.acall())
    return got


async def late(_: ContributionQuery) -> str:
    await asyncio.sleep(LONG)
    return "too late"


def stuck(_: ContributionQuery) -> str:
    time.sleep(3)
    return "too late"


class Gives:
    """A plain function that gives something to await."""

    def later(self, asked: ContributionQuery) -> Awaitable[str]:
        return self._later(asked)

    async def _later(self, asked: ContributionQuery) -> str:
        await asyncio.sleep(0)
        return f"4: {asked['turn_id']}"


def nap(_: ContributionQuery) -> str:
    time.sleep(0.2)
    return "x"


def test_texts_come_in_the_order_of_the_contributors(mode: Mode) -> None:
    def slower(asked: ContributionQuery) -> str:
        time.sleep(0.05)
        return f"1: {asked['text']}"

    async def awaited(asked: ContributionQuery) -> str:
        await asyncio.sleep(0.01)
        return f" 2: {asked['user_id']}\n"

    given = [
        Contributor("one", slower, place="system", budget=7, priority=3),
        Contributor("two", awaited),
        Contributor("three", partial(awaited)),
        Contributor("four", Gives().later),
    ]
    contributions, events = ask(mode, given)
    assert contributions[0] == {
        "name": "one",
        "text": "1: What now?",
        "place": "system",
        "budget": 7,
        "priority": 3,
    }
    assert [c["text"] for c in contributions[1:]] == ["2: ann", "2: ann", "4: t"]
    assert events == []


def test_what_gives_nothing_says_nothing(mode: Mode) -> None:
    given = [Contributor("none", lambda _: None), Contributor("blank", lambda _: " \n")]
    assert ask(mode, given) == ([], [])
    assert ask(mode, []) == ([], [])


def test_one_that_fails_is_left_out_with_an_event(mode: Mode) -> None:
    def leave(_: ContributionQuery) -> str:
        raise SystemExit(3)

    async def broken(_: ContributionQuery) -> str:
        raise KeyError("knowledge")

    async def gone(_: ContributionQuery) -> str:
        raise asyncio.CancelledError

    async def interrupted(_: ContributionQuery) -> str:
        raise KeyboardInterrupt

    wrong: Any = lambda _: ["a", "list"]  # noqa: E731 - what the type forbids
    given = [
        Contributor("leave", leave),
        Contributor("broken", broken),
        Contributor("gone", gone),
        Contributor("interrupted", interrupted),
        Contributor("wrong", wrong),
        Contributor("good", lambda _: "I know."),
    ]
    contributions, events = ask(mode, given)
    assert [c["text"] for c in contributions] == ["I know."]
    assert [(e["type"], e["turn_id"]) for e in events] == [("contribution.failed", "t")] * 5
    assert {e["name"]: e["why"] for e in events} == {
        "leave": "SystemExit: 3",
        "broken": "KeyError: 'knowledge'",
        "gone": "CancelledError",
        "interrupted": "KeyboardInterrupt",
        "wrong": "it gave a value of type list, and no text",
    }


def test_the_time_is_one_for_all(mode: Mode) -> None:
    given = [
        Contributor("late", late),
        Contributor("stuck", stuck),
        Contributor("later", late),
        Contributor("good", lambda _: "I know."),
    ]
    started = time.monotonic()
    contributions, events = ask(mode, given, timeout=0.3)
    assert time.monotonic() - started < 1.5
    assert [c["name"] for c in contributions] == ["good"]
    assert {e["name"]: e["why"] for e in events} == dict.fromkeys(["late", "stuck", "later"], "timeout")


def test_all_are_asked_at_the_same_time(mode: Mode) -> None:
    barrier = threading.Barrier(3, timeout=LONG)

    def meet(_: ContributionQuery) -> str:
        return str(barrier.wait())

    contributions, _ = ask(mode, [Contributor(name, meet) for name in "abc"])
    assert {c["text"] for c in contributions} == {"0", "1", "2"}


def test_a_cancelled_turn_waits_no_longer(mode: Mode) -> None:
    token = CancelToken()
    threading.Timer(0.1, token.cancel).start()
    started = time.monotonic()
    given = [Contributor("late", late), Contributor("good", lambda _: "I know."), Contributor("stuck", stuck)]
    contributions, events = ask(mode, given, run=Run(token))
    assert time.monotonic() - started < 1.5
    assert [c["name"] for c in contributions] == ["good"]
    assert events == []


def test_the_event_loop_goes_on_meanwhile() -> None:
    async def both() -> int:
        ticks = 0
        running: Any = Run()
        given = [Contributor("slow", nap)]
        task = asyncio.create_task(adrive(contribute(given, query(), LONG, running, {"id": "t"})))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(both()) > 5


def test_a_task_that_is_cancelled_cancels_those_it_asks() -> None:
    ended: list[str] = []

    async def asked(_: ContributionQuery) -> str:
        try:
            await asyncio.sleep(LONG)
        finally:
            ended.append("cancelled")
        return "x"

    async def main() -> None:
        running: Any = Run()
        given = [Contributor("slow", asked)]
        task = asyncio.create_task(adrive(contribute(given, query(), LONG, running, {"id": "t"})))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_what_one_changes_nobody_else_sees(mode: Mode) -> None:
    def spoil(asked: ContributionQuery) -> str:
        asked["variables"]["form"]["step"] = 99
        asked["text"] = "spoilt"
        return "x"

    def read(asked: ContributionQuery) -> str:
        time.sleep(0.05)
        return f"{asked['text']} {asked['variables']['form']['step']}"

    contributions, _ = ask(mode, [Contributor("spoil", spoil), Contributor("read", read)], form={"step": 2})
    assert [c["text"] for c in contributions] == ["x", "What now? 2", '{"form":{"step":2}}']


def test_variables_come_by_themselves(mode: Mode) -> None:
    contributions, _ = ask(mode, [], form={"step": 2, "city": "北京"}, _own={"secret": 1})
    assert contributions == [
        {
            "name": "session_variables",
            "text": '{"form":{"step":2,"city":"北京"}}',
            "place": "message",
            "budget": 500,
            "priority": 50,
        }
    ]


def test_a_call_is_waited_for_so_long_at_most(mode: Mode) -> None:
    async def awaited() -> int:
        return 3

    assert wait(mode, lambda: [1, 2], LONG) == ([1, 2], None)
    assert wait(mode, awaited, LONG) == (3, None)
    assert wait(mode, lambda: 1 / 0, LONG) == (None, "ZeroDivisionError: division by zero")
    started = time.monotonic()
    assert wait(mode, lambda: time.sleep(3), 0.1) == (None, "timeout")
    token = CancelToken()
    token.cancel()
    assert wait(mode, lambda: time.sleep(3), LONG, token) == (None, "cancelled")
    assert time.monotonic() - started < 1.5


def test_half_characters_are_mended(mode: Mode) -> None:
    contributions, _ = ask(mode, [Contributor("half", lambda _: "a\ud800b")])
    assert contributions[0]["text"] == "a\ufffdb"
