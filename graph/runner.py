"""The calls of a compiled graph that running a turn waits for, each blocking or awaited."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Durability, Interrupt, StreamMode

from turnflow.graph.cancel import CancelToken
from turnflow.graph.context import TurnContext, as_context
from turnflow.graph.flow import TwoWays
from turnflow.graph.inbox import InputSource

OnEvent = Callable[[dict[str, Any]], None]

_MODES: tuple[StreamMode, ...] = ("custom", "values")

Ran = tuple[dict[str, Any], tuple[Interrupt, ...]]
"""The output values and the open interrupts of a run."""


class Runner:
    """One graph with one configuration.

    Attributes:
        token: Cancels what runs; it follows the token of the context while the runner is open (`with`).
    """

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any],
        config: RunnableConfig,
        context: Any,
        on_event: OnEvent | None,
        durability: Durability,
    ) -> None:
        self._graph = graph
        self._config = config
        if on_event is not None and (not callable(on_event) or inspect.iscoroutinefunction(on_event)):
            raise ValueError(f"on_event is a plain function, called with each event; not {on_event!r}")
        given = as_context(context) or TurnContext()
        self.token = CancelToken()
        self._given_token: CancelToken | None = given.cancel
        self._unfollow: Callable[[], None] | None = None
        self._context = replace(given, cancel=self.token)
        self._options: dict[str, Any] = {"version": "v2"}
        if self.is_saved:
            self._options["durability"] = durability
        self._on_event = on_event

    def __enter__(self) -> Self:
        if self._given_token is not None:
            self._unfollow = self._given_token.on_cancel(self.token.cancel)
        return self

    def __exit__(self, *_: object) -> None:
        if self._unfollow is not None:
            self._unfollow()

    @property
    def is_saved(self) -> bool:
        """Whether the graph keeps threads."""
        return bool(self._graph.checkpointer)

    @property
    def thread_id(self) -> str | None:
        """The thread."""
        return self._config.get("configurable", {}).get("thread_id")

    @property
    def checkpoint_id(self) -> str | None:
        """The checkpoint that is gone on from; None for the newest."""
        return self._config.get("configurable", {}).get("checkpoint_id")

    @property
    def inbox(self) -> InputSource | None:
        """Where input comes that is put in while a turn runs."""
        return self._context.inbox  # type: ignore[no-any-return]

    def newest(self) -> TwoWays:
        """The thread's newest state, a `StateSnapshot`."""
        given = self._config.get("configurable", {})
        named = {key: value for key, value in given.items() if key != "checkpoint_id"}
        config: RunnableConfig = {**self._config, "configurable": named}
        return TwoWays(lambda: self._graph.get_state(config), lambda: self._graph.aget_state(config))

    def saved(self, config: RunnableConfig) -> TwoWays:
        """What the saver has of a checkpoint, a `CheckpointTuple`."""
        saver: Any = self._graph.checkpointer
        return TwoWays(lambda: saver.get_tuple(config), lambda: saver.aget_tuple(config))

    def state(self) -> TwoWays:
        """The thread's state, a `StateSnapshot`."""
        return TwoWays(
            lambda: self._graph.get_state(self._config), lambda: self._graph.aget_state(self._config)
        )

    def update(self, values: dict[str, Any], *, as_node: str) -> TwoWays:
        """A change of the thread's state, as if a node had made it."""
        return TwoWays(
            lambda: self._graph.update_state(self._config, values, as_node=as_node),
            lambda: self._graph.aupdate_state(self._config, values, as_node=as_node),
        )

    def run(self, given: Any, *, cancelled: bool = False) -> TwoWays:
        """A run; gives `Ran`. One under a token that is cancelled already tells nobody of its events."""
        options = {**self._options, "context": _cancelled(self._context) if cancelled else self._context}
        tells = self._on_event is not None and not cancelled
        return TwoWays(lambda: self._run(given, options, tells), lambda: self._arun(given, options, tells))

    def _run(self, given: Any, options: dict[str, Any], tells: bool) -> Ran:  # noqa: FBT001
        if not tells:
            output = self._graph.invoke(given, self._config, **options)
            return dict(output.value or {}), output.interrupts
        ran: Ran = ({}, ())
        for part in self._graph.stream(given, self._config, stream_mode=_MODES, **options):
            ran = self._seen(part, ran)
        return ran

    async def _arun(self, given: Any, options: dict[str, Any], tells: bool) -> Ran:  # noqa: FBT001
        if not tells:
            output = await self._graph.ainvoke(given, self._config, **options)
            return dict(output.value or {}), output.interrupts
        ran: Ran = ({}, ())
        async for part in self._graph.astream(given, self._config, stream_mode=_MODES, **options):
            ran = self._seen(part, ran)
        return ran

    def _seen(self, part: Any, ran: Ran) -> Ran:
        if part["type"] == "custom":
            if self._on_event is not None:
                self._on_event(part["data"])
            return ran
        # LangGraph tells of each interrupt once: a later part comes without it.
        known = {interrupt.id: interrupt for interrupt in (*ran[1], *(part.get("interrupts") or ()))}
        return dict(part["data"]), tuple(known.values())


def _cancelled(context: TurnContext) -> TurnContext:
    """The context with a token that is cancelled already."""
    token = CancelToken()
    token.cancel()
    return replace(context, cancel=token)
