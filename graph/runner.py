"""The calls of a compiled graph that running a turn waits for, each blocking or awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Durability, Interrupt, StreamMode

OnEvent = Callable[[dict[str, Any]], None]

_MODES: tuple[StreamMode, ...] = ("custom", "values")

Ran = tuple[dict[str, Any], tuple[Interrupt, ...]]
"""The output values and the open interrupts of a run."""


@dataclass(frozen=True)
class GraphCall:
    """One call, in its two forms."""

    blocking: Callable[[], Any]
    awaiting: Callable[[], Awaitable[Any]]

    def call(self) -> Any:
        """Do it, blocking."""
        return self.blocking()

    async def acall(self) -> Any:
        """Do it, awaiting."""
        return await self.awaiting()


class Runner:
    """One graph with one configuration."""

    def __init__(
        self,
        graph: Pregel[Any, Any, Any, Any],
        config: RunnableConfig,
        context: Any,
        on_event: OnEvent | None,
        durability: Durability | None,
    ) -> None:
        self._graph = graph
        self._config = config
        self._options: dict[str, Any] = {"context": context, "version": "v2", "durability": durability}
        self._on_event = on_event

    @property
    def is_saved(self) -> bool:
        """Whether the graph keeps threads."""
        return bool(self._graph.checkpointer)

    @property
    def thread_id(self) -> str | None:
        """The thread."""
        return self._config.get("configurable", {}).get("thread_id")

    def state(self) -> GraphCall:
        """The thread's state, a `StateSnapshot`."""
        return GraphCall(
            lambda: self._graph.get_state(self._config), lambda: self._graph.aget_state(self._config)
        )

    def update(self, values: dict[str, Any], *, as_node: str) -> GraphCall:
        """A change of the thread's state, as if a node had made it."""
        return GraphCall(
            lambda: self._graph.update_state(self._config, values, as_node=as_node),
            lambda: self._graph.aupdate_state(self._config, values, as_node=as_node),
        )

    def run(self, given: Any) -> GraphCall:
        """A run; gives `Ran`."""
        return GraphCall(lambda: self._run(given), lambda: self._arun(given))

    def _run(self, given: Any) -> Ran:
        if self._on_event is None:
            output = self._graph.invoke(given, self._config, **self._options)
            return dict(output.value or {}), output.interrupts
        ran: Ran = ({}, ())
        for part in self._graph.stream(given, self._config, stream_mode=_MODES, **self._options):
            ran = self._seen(part, ran)
        return ran

    async def _arun(self, given: Any) -> Ran:
        if self._on_event is None:
            output = await self._graph.ainvoke(given, self._config, **self._options)
            return dict(output.value or {}), output.interrupts
        ran: Ran = ({}, ())
        async for part in self._graph.astream(given, self._config, stream_mode=_MODES, **self._options):
            ran = self._seen(part, ran)
        return ran

    def _seen(self, part: Any, ran: Ran) -> Ran:
        if part["type"] == "custom":
            if self._on_event is not None:
                self._on_event(part["data"])
            return ran
        return dict(part["data"]), tuple(part.get("interrupts") or ())
