"""Asks contributors, all at the same time and never for longer than they may take (docs/context.md)."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken
from turnflow.graph.contributions import Contribution, ContributionQuery, Contributor, with_built_in
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.redaction import redact
from turnflow.graph.text import storable

logger = logging.getLogger("turnflow")

CANCELLED = "cancelled"
"""What is wrong where the turn was cancelled."""

TIMED_OUT = "timeout"

_MAX_WHY = 300
_MOST_READ = 8000
"""Characters of an error that are read."""


class Got(NamedTuple):
    """What a call gave, or what is wrong with it."""

    value: Any = None
    problem: str | None = None
    """`timeout`, `cancelled`, or the type and the text of what it raised; None if it gave something."""


def bounded(call: Callable[[], Any], timeout: float, cancel: CancelToken | None) -> Bounded:
    """Wait for a call, plain or coroutine function, for so long at most; gives a `Got`, raises nothing.

    Args:
        call: What is called. A plain function runs in a daemon thread, abandoned once its time is over.
        timeout: In seconds.
        cancel: Ends the wait.
    """
    return Bounded([call], timeout, cancel, first_only=True)


def contribute(
    contributors: Sequence[Contributor],
    query: ContributionQuery,
    timeout: float,
    run: NodeRun,
    turn: dict[str, Any],
) -> Body[list[Contribution]]:
    """What contributors give for a turn, in their order; those that fail are left out with an event.

    Args:
        contributors: They are asked at the same time.
        query: What each of them is told, in a copy of its own.
        timeout: How long all of them together may take, in seconds.
        run: The node's run.
        turn: The turn.
    """
    asked = with_built_in(contributors, query["variables"])
    if not asked:
        return []
    calls = [_question(contributor, query) for contributor in asked]
    given: list[Got] = yield Bounded(calls, timeout, run.resources.cancel)
    contributions: list[Contribution] = []
    for contributor, got in zip(asked, map(_text, given), strict=True):
        if got.value:
            contributions.append(_contribution(contributor, got.value))
        elif got.problem and got.problem != CANCELLED:
            logger.warning("contributor %s is left out: %s", contributor.name, got.problem)
            run.emitter(turn).emit("contribution.failed", name=contributor.name, why=got.problem)
    return contributions


def _text(got: Got) -> Got:
    """What a contributor gave as a text that can be stored; None is as good as an empty one."""
    if not isinstance(got.value, str | None):
        return Got(problem=f"it gave a value of type {type(got.value).__name__}, and no text")
    return got._replace(value=storable(str.__str__(got.value or "")).strip())


def _question(contributor: Contributor, query: ContributionQuery) -> Callable[[], Any]:
    told = copy.deepcopy(query)
    give = contributor.give
    if _is_coroutine_function(give):

        async def ask_awaiting() -> Any:
            return await give(told)  # type: ignore[misc]  # a coroutine function

        return ask_awaiting
    return lambda: give(told)


def _contribution(contributor: Contributor, text: str) -> Contribution:
    return {
        "name": contributor.name,
        "text": text,
        "place": contributor.place,
        "budget": contributor.budget,
        "priority": contributor.priority,
    }


@dataclass(frozen=True)
class _Running:
    """A call on its way, and how it is given up."""

    future: Future[Got] | asyncio.Task[Got]
    give_up: Callable[[], Any]


class Bounded:
    """Calls at the same time, with one deadline for all; gives a list of `Got`, in their order.

    Args:
        calls: Plain or coroutine functions.
        timeout: In seconds.
        cancel: Ends the wait.
        first_only: Give the only call's `Got`, not a list.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], Any]],
        timeout: float,
        cancel: CancelToken | None,
        *,
        first_only: bool = False,
    ) -> None:
        self._calls = calls
        self._timeout = timeout
        self._cancel = cancel
        self._first_only = first_only

    def call(self) -> Any:
        """Do it, blocking."""
        deadline = time.monotonic() + self._timeout
        running = [_in_thread(call) for call in self._calls]
        got: list[Got] = []
        try:
            for each in running:
                try:
                    # No task of a loop is among them.
                    daemon.wait_done(each.future, timeout=_left(deadline), cancel=self._cancel)  # type: ignore[arg-type]
                except daemon.GivenUpError as error:
                    got.append(_given_up(error))
                else:
                    got.append(each.future.result())
        finally:
            for each in running:
                each.give_up()
        return self._result(got)

    async def acall(self) -> Any:
        """Do it, awaiting."""
        deadline = time.monotonic() + self._timeout
        running = [
            _in_task(call) if _is_coroutine_function(call) else _in_thread(call) for call in self._calls
        ]
        got: list[Got] = []
        try:
            for each in running:
                try:
                    await daemon.await_done(each.future, timeout=_left(deadline), cancel=self._cancel)
                except daemon.GivenUpError as error:
                    got.append(_given_up(error))
                else:
                    got.append(each.future.result())
        finally:  # also where this task is cancelled itself
            for each in running:
                each.give_up()
        return self._result(got)

    def _result(self, got: list[Got]) -> Any:
        return got[0] if self._first_only else got


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _given_up(error: daemon.GivenUpError) -> Got:
    return Got(problem=CANCELLED if error.cancelled else TIMED_OUT)


def _is_coroutine_function(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def _in_thread(call: Callable[[], Any]) -> _Running:
    """A call in a daemon thread; what it gives is awaited there, if it is to be awaited."""
    if _is_coroutine_function(call):
        thread = daemon.CoroutineThread(lambda: _awaited(call))
        return _Running(thread.future, thread.give_up)
    return _Running(daemon.start(lambda: _called(call)), lambda: None)


def _in_task(call: Callable[[], Any]) -> _Running:
    task = asyncio.get_running_loop().create_task(_awaited(call))
    return _Running(task, task.cancel)


def _called(call: Callable[[], Any]) -> Got:
    try:
        value = call()
        if inspect.isawaitable(value):
            return daemon.run_coroutine(lambda: _awaited(lambda: value))
    except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its result
        return Got(problem=_why(error))
    return Got(value)


async def _awaited(call: Callable[[], Any]) -> Got:
    try:
        return Got(await call())
    except BaseException as error:  # noqa: BLE001 - whatever foreign code raises is its result
        return Got(problem=_why(error))


def _why(error: BaseException) -> str:
    try:
        said = str(redact(storable(str(error).strip()[:_MOST_READ])))
    except Exception:  # noqa: BLE001 - a foreign exception may not even have a text
        said = ""
    return f"{type(error).__name__}: {said}"[:_MAX_WHY].removesuffix(": ")
