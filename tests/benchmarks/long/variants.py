"""What holds the conversation: turnflow, and LangChain's agent on LangGraph's own saver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.benchmarks.cases import SYSTEM
from tests.benchmarks.long.script import TOOL, ScriptedChat, Stage, look_up
from turnflow import build_turn_graph, open_saver, run_turn

THREAD = "long"

_CONFIG: Any = {"configurable": {"thread_id": THREAD}}
_SUMMED_UP_AT = 12_000
"""Tokens of about ten turns: as many as turnflow keeps in its state."""
_KEPT_MESSAGES = 20
_QUADRATIC_TURNS = 200
"""Where a conversation whose cost grows with its square is stopped."""
_REOPENED_EVERY = 100


@dataclass(frozen=True)
class Talk:
    """A conversation on an open file."""

    say: Callable[[str], list[BaseMessage]]
    """Runs a turn; gives the transcript, or its end, with the turn's messages."""
    state: Callable[[], dict[str, int]]
    """Bytes that each channel of the state takes, serialised."""


@dataclass(frozen=True)
class Variant:
    """One way to hold the conversation."""

    name: str
    open: Callable[[Path, Stage], AbstractContextManager[Talk]]
    """Opens the file, which may have turns of the conversation already."""
    last: int | None = None
    """The turn that it is stopped at."""
    reopened_every: int | None = None
    """Turns after which everything is closed and opened anew."""


def turnflow(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    saver_options: Mapping[str, Any] | None = None,
    reopened_every: int | None = None,
) -> Variant:
    """`run_turn` on `open_saver`; further options are for `build_turn_graph` and for `open_saver`."""

    @contextmanager
    def opened(path: Path, stage: Stage) -> Iterator[Talk]:
        with open_saver(path, **(saver_options or {})) as saver:
            graph = build_turn_graph(
                ScriptedChat(stage=stage),
                [_tool()],
                instructions=SYSTEM,
                checkpointer=saver,
                **(options or {}),
            )
            yield Talk(
                lambda text: [*run_turn(graph, text, thread_id=THREAD).messages],
                lambda: _sizes(graph, saver),
            )

    return Variant(name, opened, reopened_every=reopened_every)


def agent(name: str, *, sums_up: bool, last: int | None = None) -> Variant:
    """`create_agent` on LangGraph's `SqliteSaver`, with the pragmas and the durability of turnflow's."""

    @contextmanager
    def opened(path: Path, stage: Stage) -> Iterator[Talk]:
        model = ScriptedChat(stage=stage)
        middleware: list[AgentMiddleware[Any, Any]] = []
        if sums_up:
            middleware = [
                SummarizationMiddleware(
                    model, trigger=("tokens", _SUMMED_UP_AT), keep=("messages", _KEPT_MESSAGES)
                )
            ]
        with SqliteSaver.from_conn_string(str(path)) as saver:
            saver.setup()
            saver.conn.execute("PRAGMA synchronous=NORMAL")
            graph: Any = create_agent(
                model, [_tool()], system_prompt=SYSTEM, middleware=middleware, checkpointer=saver
            )

            def say(text: str) -> list[BaseMessage]:
                said = {"messages": [HumanMessage(text)]}
                messages: list[BaseMessage] = graph.invoke(said, _CONFIG, durability="sync")["messages"]
                return messages

            yield Talk(say, lambda: _sizes(graph, saver))

    return Variant(name, opened, last=last)


def variants(memory: str | None = None) -> dict[str, Variant]:
    """All variants, by the name that an option calls them by.

    Args:
        memory: turnflow's memory strategy; None leaves it to its default.
    """
    options = {} if memory is None else {"memory": memory}
    name = "turnflow" if memory is None else f"turnflow, memory={memory}"
    reopened = f"{name}, reopened every {_REOPENED_EVERY} turns"
    return {
        "turnflow": turnflow(name, options=options),
        "reopened": turnflow(reopened, options=options, reopened_every=_REOPENED_EVERY),
        "agent": agent("create_agent", sums_up=False, last=_QUADRATIC_TURNS),
        "summarization": agent("create_agent + SummarizationMiddleware", sums_up=True),
    }


def _tool() -> StructuredTool:
    return StructuredTool.from_function(look_up, name=TOOL)


def _sizes(graph: Any, saver: Any) -> dict[str, int]:
    values = graph.get_state(_CONFIG).values
    return {channel: len(saver.serde.dumps_typed(value)[1]) for channel, value in values.items()}
