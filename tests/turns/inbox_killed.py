"""Turns with input that comes meanwhile, killed: `python -m tests.turns.inbox_killed FOLDER CASE`.

As `tests.turns.killed`, with the inbox in the same file as the thread: its calls are points too. A case is
`sync` or `async`, `yield` or `steer`, and `alone` or `embedded`, joined by dashes. It is killed at every
seventh point, in each case at others; `TURNFLOW_KILL_STRIDE=1` takes all.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.turns.killed import Fuse, Log, fork_all, works
from turnflow import ToolPolicy, TurnContext, arun_turn, as_node, build_turn_graph, open_saver, run_turn
from turnflow.graph.run import is_unfinished
from turnflow.graph.saver import TurnSaver
from turnflow.graph.saver_inbox import SaverInbox

THREAD = "t"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}
GOAL = "All done."
ITEMS = ("go", "late c1", "late c2")
"""Ids of all that is put in: the first by the user, the others while the call of that name runs."""


CASES = ["-".join(c) for c in product(("sync", "async"), ("yield", "steer"), ("alone", "embedded"))]

STRIDE = int(os.environ.get("TURNFLOW_KILL_STRIDE", "7"))


def numbers_of(case: str, points: int) -> range:
    """The points at which a case is killed, of so many."""
    return range(1 + CASES.index(case) % STRIDE, points + 1, STRIDE)


class Working(BaseChatModel):
    """Calls the tool twice, in one turn or in several, then is done."""

    on_request: Any = None

    @property
    def _llm_type(self) -> str:
        return "working"

    def bind_tools(self, tools: Any, **_: Any) -> Working:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        number = sum(isinstance(message, ToolMessage) for message in messages) + 1
        self.on_request(number)
        reply = works(f"c{number}") if number < len(ITEMS) else {"content": GOAL}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**reply))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


class InboxPlayer:
    """The graph of a case, built once, and how a server drains an inbox with it."""

    def __init__(self, case: str) -> None:
        mode, setting, place = case.split("-")
        self.is_async, self.is_embedded = mode == "async", place == "embedded"

        def work(name: str) -> str:
            """Do some work, while the user types."""
            self.reach(f"in tool {name}")
            self.inbox.put(f"Meanwhile {name}.", id=f"late {name}")
            self.log.add("put", f"late {name}")
            return f"did {name}"

        self.log = Log(Path(os.devnull))
        self.reach: Callable[[str], None] = lambda _: None
        self.inbox: Any = None
        model = Working(on_request=lambda number: self.reach(f"in request {number}"))
        inner = build_turn_graph(
            model,
            [work],
            policies={"work": ToolPolicy(read_only=True)},
            settings={"pending_input": setting},
            checkpointer=None if self.is_embedded else True,
        )
        self._graph: Any = inner
        if self.is_embedded:
            builder = StateGraph(MessagesState, context_schema=TurnContext)
            builder.add_node("turn", as_node(inner))
            builder.add_edge(START, "turn")
            builder.add_edge("turn", END)
            self._graph = builder.compile(checkpointer=True)

    def open(self, saver: TurnSaver, log: Log) -> Any:
        """The graph on a saver, for as long as no other is asked for."""
        self.log, self.inbox = log, saver.inbox(THREAD)
        self.graph = self._graph.copy({"checkpointer": saver})
        return self.graph

    def drain(self, runner: asyncio.Runner | None) -> None:
        """Run turns until nothing is waiting."""
        work = self._drain_parent if self.is_embedded else self._drain
        if runner is None:
            work(lambda call, _: call())
        else:
            work(lambda _, acall: runner.run(acall()))

    def _drain(self, wait: Callable[..., Any]) -> None:
        options: Any = {"thread_id": THREAD, "context": TurnContext(inbox=self.inbox)}

        def run(given: Any) -> None:
            wait(
                lambda: run_turn(self.graph, given, **options),
                lambda: arun_turn(self.graph, given, **options),
            )

        while items := self.inbox.pending():
            run(items)
        if is_unfinished(self.graph.get_state(CONFIG)):
            run(None)
            self._drain(wait)

    def _drain_parent(self, wait: Callable[..., Any]) -> None:
        options: Any = {"context": TurnContext(inbox=self.inbox), "durability": "sync"}

        def run(given: Any) -> Any:
            return wait(
                lambda: self.graph.invoke(given, CONFIG, **options),
                lambda: self.graph.ainvoke(given, CONFIG, **options),
            )

        if self.graph.get_state(CONFIG).next:
            run(None)
        while items := self._new_items():
            run({"messages": items})

    def _new_items(self) -> list[Any]:
        """What is waiting that the parent's messages do not hold; what they hold is acknowledged."""
        held = [message.id for message in self.graph.get_state(CONFIG).values.get("messages", ())]
        self.inbox.acknowledge(held)
        return self.inbox.pending()  # type: ignore[no-any-return]


class InboxFuse(Fuse):
    """Counts the calls of the inbox too."""

    def wire(self) -> None:
        """Put the points where they are counted."""
        super().wire()
        for name in ("put", "pending", "acknowledge"):
            setattr(SaverInbox, name, self._wrapped(f"inbox.{name}", getattr(SaverInbox, name)))


def _play(folder: Path, player: InboxPlayer, number: int) -> None:
    """Drain the inbox up to a point; without one, log how many there are."""
    log = Log(folder / f"{number}.log")
    fuse = InboxFuse(log, number)
    fuse.wire()
    player.reach = fuse.reach
    with open_saver(folder / f"{number}.sqlite") as saver:
        player.open(saver, log)
        player.inbox.put("Go.", id="go")
        log.add("put", "go")
        if player.is_async:
            with asyncio.Runner() as runner:
                player.drain(runner)
        else:
            player.drain(None)
    log.add("points", fuse.count)


def main(folder: Path, case: str) -> None:
    """Play the case once as a whole, as number 0, then once for each point at which it is killed."""
    player = InboxPlayer(case)
    gc.collect()
    gc.freeze()
    fork_all([functools.partial(_play, folder, player, 0)])
    points = Log(folder / "0.log").read()[-1][1]
    fork_all(functools.partial(_play, folder, player, number) for number in numbers_of(case, points))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
