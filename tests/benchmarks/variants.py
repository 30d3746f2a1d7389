"""Agent loops on LangGraph, turnflow among them, each as one call that runs a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.benchmarks.cases import QUESTION, SYSTEM, Group, Mode
from tests.benchmarks.fake_model import TOOL, InstantChat
from tests.benchmarks.savers import Savers
from turnflow import TurnResult, arun_turn, build_turn_graph, run_turn

BASELINE = "create_agent"
"""The variant whose time the others' are divided by."""

Saver = BaseCheckpointSaver[Any] | None


@dataclass(frozen=True)
class Seen:
    """What came of a turn."""

    results: int
    """How many tool results its transcript has."""
    answer: str


@dataclass(frozen=True)
class Variant:
    """One agent loop, ready to run."""

    name: str
    run: Callable[[str], Any]
    """Runs a turn in the thread of that id; in async mode, gives an awaitable."""
    read: Callable[[Any], Seen]
    """Reads what `run` gave."""
    path: Path | None = None
    """The SQLite file of its checkpoints."""


def langgraph_variants(group: Group, savers: Savers) -> list[Variant]:
    """All variants on LangGraph, each with a file of its own."""
    model = InstantChat(rounds=group.case.rounds, calls=group.case.calls)
    tool = _tool(group.mode)

    def ours(name: str, run: Callable[[Any, Group], Callable[[str], Any]]) -> Variant:
        saver = savers.turnflow(name)
        graph = build_turn_graph(
            model,
            [tool],
            instructions=SYSTEM,
            settings={"max_rounds": group.case.rounds + 1},
            checkpointer=saver,
        )
        read = _read_turn if run is _turn_runner else _read_state
        return Variant(name, run(graph, group), read, savers.path(name))

    def peer(name: str, build: Callable[[Saver], Any]) -> Variant:
        graph = build(savers.stock(name))
        return Variant(name, _invoker(graph, group), _read_state, savers.path(name))

    return [
        ours("turnflow invoke", _invoker),
        ours("turnflow run_turn", _turn_runner),
        peer(BASELINE, lambda saver: _agent(model, tool, saver)),
        peer("create_agent + 4 middleware", lambda saver: _agent(model, tool, saver, _middleware(model))),
        peer("StateGraph of two nodes", lambda saver: _two_nodes(model, tool, saver, group.mode)),
    ]


def _invoker(graph: Any, group: Group) -> Callable[[str], Any]:
    """Calls `invoke` or `ainvoke`, with a thread where there is a saver."""
    call = graph.invoke if group.mode == "sync" else graph.ainvoke
    durability = group.store.durability
    if durability is None:
        return lambda _: call({"messages": [HumanMessage(QUESTION)]})

    def run(thread_id: str) -> Any:
        config = {"configurable": {"thread_id": thread_id}}
        return call({"messages": [HumanMessage(QUESTION)]}, config, durability=durability)

    return run


def _turn_runner(graph: Any, group: Group) -> Callable[[str], Any]:
    """Calls `run_turn` or `arun_turn`."""
    call: Callable[..., Any] = run_turn if group.mode == "sync" else arun_turn
    durability = group.store.durability
    if durability is None:
        return lambda _: call(graph, QUESTION)
    return lambda thread_id: call(graph, QUESTION, thread_id=thread_id, durability=durability)


def _agent(
    model: InstantChat,
    tool: BaseTool,
    saver: Saver,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
) -> Any:
    return create_agent(model, [tool], system_prompt=SYSTEM, middleware=middleware, checkpointer=saver)


def _middleware(model: InstantChat) -> list[AgentMiddleware[Any, Any]]:
    """What brings `create_agent` closer to what a turn of turnflow does; none of it comes to act here."""
    return [
        SummarizationMiddleware(model, trigger=("tokens", 10**9)),
        HumanInTheLoopMiddleware({"another_tool": True}),
        ToolCallLimitMiddleware(run_limit=1000),
        ModelRetryMiddleware(),
    ]


def _two_nodes(model: InstantChat, tool: BaseTool, saver: Saver, mode: Mode) -> Any:
    """The least that is an agent on LangGraph: the floor of what a graph costs."""

    def request(state: MessagesState) -> list[BaseMessage]:
        return [SystemMessage(SYSTEM), *state["messages"]]

    def calls(state: MessagesState) -> list[Any]:
        return list(getattr(state["messages"][-1], "tool_calls", ()))

    def llm(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(request(state))]}

    async def allm(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(request(state))]}

    def tools(state: MessagesState) -> dict[str, Any]:
        return {"messages": [tool.invoke(call) for call in calls(state)]}

    async def atools(state: MessagesState) -> dict[str, Any]:
        return {"messages": await asyncio.gather(*(tool.ainvoke(call) for call in calls(state)))}

    builder = StateGraph(MessagesState)
    builder.add_node("llm", llm if mode == "sync" else allm)
    builder.add_node("tools", tools if mode == "sync" else atools)
    builder.add_edge(START, "llm")
    builder.add_conditional_edges("llm", lambda state: "tools" if calls(state) else END, ["tools", END])
    builder.add_edge("tools", "llm")
    return builder.compile(checkpointer=saver)


def _tool(mode: Mode) -> BaseTool:
    """A plain function in sync mode, a coroutine function in async mode, as each is used by itself."""
    if mode == "sync":
        return StructuredTool.from_function(double, name=TOOL)
    return StructuredTool.from_function(coroutine=adouble, name=TOOL)


def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


async def adouble(number: int) -> str:
    """Double a number."""
    return str(2 * number)


def _read_state(state: dict[str, Any]) -> Seen:
    return _seen(state["messages"])


def _read_turn(result: TurnResult) -> Seen:
    return _seen(result.messages)


def _seen(messages: Sequence[BaseMessage]) -> Seen:
    return Seen(sum(isinstance(m, ToolMessage) for m in messages), str(messages[-1].content))
