"""One body for sync and async: a node is a generator that yields what must be waited for.

A node's body is a generator function `body(state, run)` that yields `Wait` objects and returns the state
update. `turn_node` drives it: with plain calls under `invoke`, with `await` under `ainvoke`. So the two
share everything but the `await`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph._internal._runnable import RunnableCallable
from langgraph.runtime import Runtime

from turnflow.graph.awaiting import await_for, wait_for
from turnflow.graph.cancel import CancelToken
from turnflow.graph.context import Hook, HookName, TurnContext
from turnflow.graph.daemon import GivenUpError, is_being_cancelled, start
from turnflow.graph.events import Emitter
from turnflow.graph.outcome import TurnError
from turnflow.graph.recording import failed_facts, recorded
from turnflow.graph.resources import TurnResources

logger = logging.getLogger("turnflow")

T = TypeVar("T")


class Wait(Protocol):
    """Something that a body waits for."""

    def call(self) -> Any:
        """Do it, blocking."""

    async def acall(self) -> Any:
        """Do it, awaiting."""


@dataclass(frozen=True)
class TwoWays:
    """Something to wait for that has a blocking and an awaiting form."""

    blocking: Callable[[], Any]
    awaiting: Callable[[], Awaitable[Any]]

    def call(self) -> Any:
        """Do it, blocking."""
        return self.blocking()

    async def acall(self) -> Any:
        """Do it, awaiting."""
        return await self.awaiting()


@dataclass(frozen=True)
class InThread:
    """Something to wait for that only blocks; where a run is async, it runs in a worker thread."""

    blocking: Callable[[], Any]

    def call(self) -> Any:
        """Do it, blocking."""
        return self.blocking()

    async def acall(self) -> Any:
        """Do it in a worker thread."""
        # Not behind slow work in the loop's own threads.
        return await asyncio.wrap_future(start(self.blocking))


Update = dict[str, Any]
Body = Generator[Wait, Any, T]


class NodeRun:
    """One run of a node: its resources, its configuration and where its events go."""

    def __init__(
        self, resources: TurnResources, config: RunnableConfig, runtime: Runtime[TurnContext]
    ) -> None:
        self.resources = resources
        self.config = config
        self.runtime = runtime
        self.facts: list[dict[str, Any]] = []
        self.kept: list[AnyMessage] = []

    def emitter(self, turn: dict[str, Any]) -> Emitter:
        """An emitter for events of this turn."""
        log_arguments = self.resources.settings.log_arguments
        return Emitter(self.runtime.stream_writer, turn, self.facts, log_arguments=log_arguments)

    def keep_messages(self, messages: Sequence[AnyMessage]) -> None:
        """Name the messages that are new where the node writes the transcript whole (`Overwrite`)."""
        self.kept += messages

    @property
    def namespace(self) -> str:
        """The checkpoint namespace of the turn graph: '' unless it is embedded in another."""
        return str(self.config.get("configurable", {}).get("checkpoint_ns", "")).rpartition("|")[0]

    @property
    def thread_id(self) -> str | None:
        """The thread that this run is saved under, if any."""
        thread_id = self.config.get("configurable", {}).get("thread_id")
        return None if thread_id is None else str(thread_id)

    def hook(self, name: HookName, turn: dict[str, Any], /, **payload: Any) -> Body[list[str]]:
        """Call a hook, if there is one; gives the directives that it adds."""
        return (yield from self.ask(getattr(self.resources.hooks, name), name, turn, **payload))

    def ask(self, hook: Hook | None, name: str, turn: dict[str, Any], /, **payload: Any) -> Body[list[str]]:
        """Call a function of the caller's, if there is one; gives the text that it returns, if it does."""
        if hook is None:
            return []
        info = {
            "hook": name,
            "session_id": turn.get("session_id"),
            "turn_id": turn.get("id"),
            "round": turn.get("round", 0),
            "user_id": self.resources.context.user_id,
            **payload,
        }
        said = yield HookCall(hook, info, self.resources.cancel)
        return [said] if isinstance(said, str) and said.strip() else []


def turn_node(
    name: str, body: Callable[[Any, NodeRun], Body[Update] | Update], resources: TurnResources
) -> RunnableCallable:
    """The node of a body, sync and async in one; a body that waits for nothing may return its update."""

    def node(state: Any, config: RunnableConfig, runtime: Runtime[TurnContext]) -> Update:
        run = NodeRun(resources.for_run(runtime.context), config, runtime)
        return drive(_run(body, state, run))

    async def anode(state: Any, config: RunnableConfig, runtime: Runtime[TurnContext]) -> Update:
        run = NodeRun(resources.for_run(runtime.context), config, runtime)
        return await adrive(_run(body, state, run))

    return RunnableCallable(node, anode, name=name, trace=False)


def _run(body: Callable[[Any, NodeRun], Body[Update] | Update], state: Any, run: NodeRun) -> Body[Update]:
    """Run a body, and put on record what it did."""
    try:
        update = body(state, run)
        if isinstance(update, Generator):
            update = yield from update
    except TurnError:
        if failed := failed_facts(run):
            saver, given = failed.saver, (failed.config, failed.writes, failed.task_id)
            yield TwoWays(lambda: saver.put_writes(*given), lambda: saver.aput_writes(*given))
        raise
    return recorded(state, update, run)


def drive(body: Body[T]) -> T:
    """Run a body to its end with blocking calls."""
    try:
        wait = next(body)
        while True:
            try:
                value = wait.call()
            except BaseException as error:  # noqa: BLE001 - the body decides
                wait = body.throw(error)
            else:
                wait = body.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def adrive(body: Body[T]) -> T:
    """Run a body to its end, awaiting."""
    try:
        wait = next(body)
        while True:
            try:
                value = await wait.acall()
            except BaseException as error:  # noqa: BLE001 - the body decides
                wait = body.throw(error)
            else:
                wait = body.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class HookCall:
    """Calls a hook, plain or coroutine function; what it raises is logged and goes no further.

    A coroutine is given up when the token is cancelled; one that is called only then has some seconds.
    """

    def __init__(self, hook: Hook, info: dict[str, Any], cancel: CancelToken | None = None) -> None:
        self._hook = hook
        self._info = info
        self._cancel = cancel

    def call(self) -> Any:
        """Call it, blocking."""
        try:
            said = self._hook(self._info)
            return wait_for(said, self._cancel) if inspect.isawaitable(said) else said
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a hook may raise anything
            return self._log(error)

    async def acall(self) -> Any:
        """Call it, awaiting."""
        try:
            said = self._hook(self._info)
            return await await_for(said, self._cancel) if inspect.isawaitable(said) else said
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            return self._log(error)

    def _log(self, error: BaseException) -> None:
        if isinstance(error, GivenUpError):
            logger.warning("hook %s is given up: the turn was cancelled", self._info["hook"])
        else:
            logger.warning("hook %s raised; the turn goes on", self._info["hook"], exc_info=error)
