"""A turn with effects, in the variants in which it is killed, and the points at which that can be."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Durability, StateSnapshot

from tests.turns.crash_report import true_result
from tests.turns.killed import SAVER_CALLS, THREAD, Fuse, Log, Scripted, works
from turnflow import ToolPolicy, arun_turn, build_turn_graph, run_turn
from turnflow.graph.run import is_unfinished
from turnflow.graph.saver import TurnSaver
from turnflow.graph.saver_connection import SaverConnection

CALLS = ("c1", "c2", "c3", "c4", "c5", "c6")
ANSWER = "All done."
REPLIES = (works("c1", "c2"), works("c3", "c4"), works("c5", "c6"), {"content": ANSWER})

FIRST = HumanMessage("Go.", id="in-1")
SECOND = HumanMessage("Something else.", id="in-2")
ASIDE = "Fine."

CONFIG: Any = {"configurable": {"thread_id": THREAD}}

DELAYS = (0.01, 0.0, 0.004)
"""Seconds that slow methods take more, in turns."""

Reach = Callable[[str], None]


@dataclass(frozen=True)
class Variant:
    """How a turn is run, and what is done after the kill."""

    name: str
    is_async: bool = False
    is_parallel: bool = True
    is_embedded: bool = False
    is_idempotent: bool = False
    is_undeclared: bool = False
    """Whether the tool is wrongly said to be read-only: the control, in which effects are doubled."""
    durability: Durability = "sync"
    is_cut: bool = False
    """Whether the user sends something else after the kill, instead of going on."""
    slow: Sequence[str] = ()
    """Methods of the saver that take their time, as on a busy disk."""


VARIANTS = (
    Variant("sync, one at a time", is_parallel=False),
    Variant("async, one at a time", is_async=True, is_parallel=False),
    Variant("sync, parallel"),
    Variant("async, parallel", is_async=True),
    Variant("sync, embedded", is_embedded=True),
    Variant("async, embedded", is_async=True, is_embedded=True),
    Variant("idempotent", is_idempotent=True),
    Variant("sync, durability async", durability="async"),
    Variant("async, durability async", is_async=True, durability="async"),
    Variant("sync, durability async, slow", durability="async", slow=("put",)),
    Variant("async, durability async, slow", is_async=True, durability="async", slow=("aput",)),
    Variant("sync, new input", is_parallel=False, is_cut=True),
    Variant("async, new input", is_async=True, is_cut=True),
    Variant("new input, durability async", durability="async", is_cut=True),
)
CONTROL = Variant("control: not declared", is_undeclared=True)


class Parent(MessagesState, total=False):
    """The state of a graph around the turn graph."""

    answer: str
    outcome: dict[str, Any]
    is_over: bool


class EffectTurn:
    """The graph of a variant, built once; its tool and its model come by at the points of the moment."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.reach: Reach = lambda _: None
        self.effects = Path(os.devnull)
        model = Scripted(
            replies=REPLIES,
            asides={SECOND.content: {"content": ASIDE}},
            on_request=lambda number: self.reach(f"in request {number}"),
        )
        policy = ToolPolicy(
            parallel_safe=variant.is_parallel,
            idempotent=variant.is_idempotent,
            read_only=variant.is_undeclared,
        )
        options: Any = {"policies": {"work": policy}}
        if variant.is_embedded:
            self._graph = _embedded(build_turn_graph(model, [self._tool()], **options))
        else:
            self._graph = build_turn_graph(model, [self._tool()], **options, checkpointer=True)

    def begin(self, saver: TurnSaver) -> None:
        """Run the turn."""
        graph = self.graph(saver)
        if self.variant.is_embedded or self.variant.durability != "sync":
            self._invoke(graph, FIRST, self.variant.durability)
        else:
            self._run_turn(graph, FIRST)

    def go_on(self, saver: TurnSaver, *, plainly: bool, is_cut: bool) -> None:
        """Do what a user does after a crash: go on with the turn or with something else, or say it again.

        Args:
            saver: A fresh saver on the file of the process that was killed.
            plainly: Whether to go on with LangGraph's own means alone.
            is_cut: Whether to send something else.
        """
        graph = self.graph(saver)
        snapshot = graph.get_state(CONFIG)
        messages = snapshot.values.get("messages", [])
        if is_cut and SECOND.id not in {message.id for message in messages}:
            self._invoke(graph, SECOND, "sync")
        elif not messages and START not in snapshot.next:
            self.begin(saver)
        elif self._is_open(snapshot):
            if plainly or self.variant.is_embedded:
                self._invoke(graph, None, "sync")
            else:
                self._run_turn(graph, None)

    def graph(self, saver: TurnSaver) -> Any:
        """The graph on a saver."""
        return self._graph.copy({"checkpointer": saver})

    def _is_open(self, snapshot: StateSnapshot) -> bool:
        return not snapshot.values.get("is_over") if self.variant.is_embedded else is_unfinished(snapshot)

    def _invoke(self, graph: Any, message: BaseMessage | None, durability: Durability) -> None:
        given = {"messages": [message]} if message else None
        if self.variant.is_async:
            asyncio.run(graph.ainvoke(given, CONFIG, durability=durability))
        else:
            graph.invoke(given, CONFIG, durability=durability)

    def _run_turn(self, graph: Any, message: BaseMessage | None) -> None:
        if self.variant.is_async:
            asyncio.run(arun_turn(graph, message, thread_id=THREAD))
        else:
            run_turn(graph, message, thread_id=THREAD)

    def _tool(self) -> StructuredTool:
        def work(name: str) -> str:
            """Do some work."""
            for _ in self._work(name):
                pass
            return true_result(name)

        async def awork(name: str) -> str:
            for _ in self._work(name):
                await asyncio.sleep(0)
            return true_result(name)

        return StructuredTool.from_function(func=work, coroutine=awork)

    def _work(self, name: str) -> Iterator[None]:
        self.reach(f"on entry of {name}")
        yield
        self.reach(f"before the effect of {name}")
        _append(self.effects, name)
        self.reach(f"after the effect of {name}")
        yield
        self.reach(f"on return of {name}")


def _embedded(turn: Any) -> Any:
    builder = StateGraph(Parent)
    builder.add_node("turn", turn)
    builder.add_node("after", lambda _: {"is_over": True})
    builder.add_edge(START, "turn")
    builder.add_edge("turn", "after")
    builder.add_edge("after", END)
    return builder.compile(checkpointer=True)


def _append(path: Path, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


class EffectFuse(Fuse):
    """Has points in the journal and in each transaction, too."""

    calls = (*SAVER_CALLS[:-1], "start_effect", "astart_effect", "find_effects", "afind_effects")

    def __init__(self, log: Log, number: int, *, slow: Sequence[str] = ()) -> None:
        super().__init__(log, number)
        self._slow = slow
        self._delays = itertools.cycle(DELAYS)

    def wire(self) -> None:
        super().wire()
        setattr(SaverConnection, "transaction", self._in_parts(SaverConnection.transaction))  # noqa: B010

    def before(self, name: str, arguments: Sequence[Any]) -> None:
        if name == "start_effect":
            self.log.add("begun", arguments[1].call_id)
        super().before(name, arguments)

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return super()._wrapped(name, self._delayed(function) if name in self._slow else function)

    def _delayed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            time.sleep(next(self._delays))
            return function(*arguments, **named)

        @functools.wraps(function)
        async def acall(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(next(self._delays))
            return await function(*arguments, **named)

        return acall if asyncio.iscoroutinefunction(function) else call

    def _in_parts(self, transaction: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def in_parts(connection: SaverConnection, *, writing: bool) -> Iterator[sqlite3.Cursor]:
            with connection.lock:
                is_point = writing and not connection.sqlite.in_transaction
                with transaction(connection, writing=writing) as cursor:
                    if is_point:
                        self.reach("after begin")
                    yield cursor
                    if is_point:
                        self.reach("before commit")
                if is_point:
                    self.reach("after commit")

        return in_parts
