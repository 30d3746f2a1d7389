"""A small graph that runs calls as the turn graph does, on any saver, sync or async."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph._internal._runnable import RunnableCallable
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.runtime import Runtime
from langgraph.types import Send
from typing_extensions import TypedDict

from tests.graph.saver_chat import thread
from turnflow.graph.effects import Effect, EffectFound, FindEffects, StartEffect, WithdrawEffect
from turnflow.graph.flow import Body, NodeRun, adrive, drive
from turnflow.graph.saver import open_saver

BATCH = "message-1"

EFFECT = Effect(
    thread_id="t",
    namespace="",
    batch_id="message",
    call_id="call",
    key="key",
    name="send",
    task_id="task",
    checkpoint_id="",
)

KINDS = [
    ("ours", "sync"),
    ("ours", "async"),
    ("memory", "sync"),
    ("memory", "async"),
    ("stock", "sync"),
    ("aiosqlite", "async"),
]
"""Savers, and the kinds of runs that each can do."""


@asynccontextmanager
async def opened(kind: str, path: Path) -> AsyncIterator[Any]:
    """A saver of a kind, on a file if it has one."""
    if kind == "ours":
        async with open_saver(path) as ours:
            yield ours
    elif kind == "stock":
        with SqliteSaver.from_conn_string(str(path)) as stock:
            yield stock
    elif kind == "aiosqlite":
        async with AsyncSqliteSaver.from_conn_string(str(path)) as aiosqlite:
            yield aiosqlite
    else:
        yield InMemorySaver() if kind == "memory" else None


class Calls(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]
    key: str
    calls: list[str]
    turns: Annotated[int, operator.add]


class Sent(TypedDict):
    call: str
    key: str


class Stage:
    """The graph and what its calls do: `looks`, one `tool` task for each call, and `after` all of them."""

    def __init__(self, saver: Any, mode: str = "sync", **options: Any) -> None:
        self.mode = mode
        self.options = options
        self.again = False
        self.act: Callable[[str], object] = lambda call: f"did {call}"
        self.ran: list[str] = []
        self.states: list[str] = []
        self.looked: dict[str, EffectFound] = {}
        self.infos: list[Any] = []
        builder = StateGraph(Calls)
        builder.add_node("looks", _node("looks", self._look))
        builder.add_node("tool", _node("tool", self._run_tool))
        builder.add_node("after", lambda _: {"turns": 1})
        builder.add_edge(START, "looks")
        builder.add_conditional_edges("looks", _send, ["tool"])
        builder.add_edge("tool", "after")
        self.builder = builder
        self.graph: Any = builder.compile(checkpointer=saver)

    async def go(self, *calls: str, config: RunnableConfig | None = None, key: str = "k") -> dict[str, Any]:
        """Run the graph: from new input if there are calls, else from where it stands."""
        text = HumanMessage(f"call {' '.join(calls)}")
        given = {"messages": [text], "calls": [*calls], "key": key} if calls else None
        return await self.give(given, config=config)

    async def give(self, given: Any, *, config: RunnableConfig | None = None) -> dict[str, Any]:
        config = config or thread("t")
        if self.mode == "async":
            return dict(await self.graph.ainvoke(given, config, **self.options))
        return dict(await asyncio.to_thread(self.graph.invoke, given, config, **self.options))

    async def state(self) -> Any:
        if self.mode == "async":
            return await self.graph.aget_state(thread("t"))
        return self.graph.get_state(thread("t"))

    async def history(self) -> list[Any]:
        """All states, the newest first."""
        if self.mode == "async":
            return [state async for state in self.graph.aget_state_history(thread("t"))]
        return list(self.graph.get_state_history(thread("t")))

    async def before_tools(self) -> RunnableConfig:
        """The oldest checkpoint that tasks of calls come after."""
        states = [state for state in await self.history() if "tool" in state.next or _called(state)]
        return cast("RunnableConfig", states[-1].config)

    def _look(self, state: Calls, run: NodeRun) -> Body[dict[str, Any]]:
        self.looked = yield FindEffects(run, BATCH)
        return {}

    def _run_tool(self, sent: Sent, run: NodeRun) -> Body[dict[str, Any]]:
        call = sent["call"]
        self.infos.append(run.runtime.execution_info)
        found: EffectFound = yield StartEffect(
            run, batch_id=BATCH, call_id=call, name="send", key=sent["key"], again=self.again
        )
        self.states.append(found.state)
        text: str = found.result.text if found.result else found.state
        if found.state == "new":
            self.ran.append(call)
            try:
                text = str(self.act(call))
            except GraphInterrupt:
                yield WithdrawEffect(run, batch_id=BATCH, call_id=call)
                raise
        return {"messages": [ToolMessage(text, tool_call_id=call)]}


def _called(state: Any) -> bool:
    return any(task.name == "tool" for task in state.tasks)


def _send(state: Calls) -> list[Send]:
    return [Send("tool", {"call": call, "key": state["key"]}) for call in state["calls"]]


def _node(name: str, body: Callable[[Any, NodeRun], Body[dict[str, Any]]]) -> RunnableCallable:
    def node(state: Any, config: RunnableConfig, runtime: Runtime[Any]) -> dict[str, Any]:
        return drive(body(state, NodeRun(cast("Any", None), config, runtime)))

    async def anode(state: Any, config: RunnableConfig, runtime: Runtime[Any]) -> dict[str, Any]:
        return await adrive(body(state, NodeRun(cast("Any", None), config, runtime)))

    return RunnableCallable(node, anode, name=name, trace=False)


def results(values: dict[str, Any]) -> dict[str, str]:
    """The text of each result, by call."""
    return {
        message.tool_call_id: message.text
        for message in values["messages"]
        if isinstance(message, ToolMessage)
    }


def main(kind: str, mode: str, path: str, durability: str) -> None:
    """Run two calls; the process dies inside the second, once the first is over."""

    def act(call: str) -> str:
        if call == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"did {call}"

    async def play() -> None:
        async with opened(kind, Path(path)) as saver:
            stage = Stage(saver, mode, durability=durability)
            stage.act = act
            await stage.go("dies")

    asyncio.run(play())


if __name__ == "__main__":
    main(*sys.argv[1:])
