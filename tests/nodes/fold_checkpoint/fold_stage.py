"""Runs the node's body on a state, sync and async, with a scripted summariser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig

from turnflow import CancelToken, TurnSettings
from turnflow.graph.context import TurnContext
from turnflow.graph.flow import Body, NodeRun, adrive, drive
from turnflow.graph.outcome import NO_USAGE
from turnflow.graph.resources import Registries, TurnResources
from turnflow.nodes.fold_checkpoint import fold_checkpoint

Mode = Literal["sync", "async"]
Answer = str | BaseMessage | Exception | Callable[[], Any]

LONG = "word " * 400
"""About 500 tokens."""


class Quarter:
    """Counts a token for each four characters, and three for each message."""

    def text(self, text: str) -> int:
        return (len(text) + 3) // 4

    def message(self, message: BaseMessage) -> int:
        calls = getattr(message, "tool_calls", ())
        return 3 + self.text(str(message.content)) + sum(self.text(str(call["args"])) for call in calls)

    def tools(self, definitions: Sequence[Any]) -> int:
        return self.text(str(list(definitions)))


class ScriptedSummariser(Runnable[Any, Any]):
    """Answers with what it was given, one after the other, the last for ever, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[list[BaseMessage]] = []
        self.tags: list[Any] = []

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        self.requests.append(input)
        self.tags.append((config or {}).get("tags"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return AIMessage(content=answer)
        return answer if isinstance(answer, BaseMessage) else answer()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        return await asyncio.to_thread(self.invoke, input, config)

    @property
    def read(self) -> str:
        """All that it was given to read."""
        return "\n".join(str(request[-1].content) for request in self.requests)


@dataclass
class AMemory:
    """A memory that recalls nothing."""

    recent_turns: int = 10
    summary_after: int | None = 20

    def recall(self, query: str, record: Any, budget: int) -> list[Any]:
        return []


@dataclass
class Folded:
    """What a run of the node gave."""

    update: dict[str, Any]
    events: list[dict[str, Any]]

    @property
    def event(self) -> dict[str, Any]:
        (event,) = [event for event in self.events if event["type"] == "folded"]
        return event


@dataclass
class FoldStage:
    """What the node runs with."""

    mode: Mode
    summariser: ScriptedSummariser
    settings: TurnSettings = field(default_factory=lambda: TurnSettings(context_window=8192))
    memory: AMemory = field(default_factory=AMemory)
    cancel: CancelToken | None = None
    remembers: bool = True
    make_model: Callable[..., Any] = lambda *_: None

    def run(self, state: dict[str, Any]) -> Folded:
        return drive(self._body(state)) if self.mode == "sync" else asyncio.run(self.arun(state))

    def run_released(self, release: threading.Event, state: dict[str, Any]) -> Folded:
        """The same, for a summariser that hangs until `release` is set."""
        if self.mode == "async":
            return asyncio.run(self._arun_released(release, state))
        try:
            return self.run(state)
        finally:
            release.set()

    async def arun(self, state: dict[str, Any]) -> Folded:
        return await adrive(self._body(state))

    async def _arun_released(self, release: threading.Event, state: dict[str, Any]) -> Folded:
        try:
            return await self.arun(state)
        finally:
            release.set()  # else the loop would wait for its thread

    def _body(self, state: dict[str, Any]) -> Body[Folded]:
        resources = TurnResources(
            make_model=self.make_model,
            registries=Registries(lambda _: []),
            model=ScriptedSummariser(),
            settings=self.settings,
            memory_of=lambda *_: self.memory,
            given_summariser=self.summariser,
            context=TurnContext(cancel=self.cancel),
        )
        object.__setattr__(resources, "counter_in", lambda turn: Quarter())
        events: list[dict[str, Any]] = []
        runtime: Any = SimpleNamespace(stream_writer=events.append, store=None)
        saver = {"__pregel_checkpointer": self.remembers}
        run = NodeRun(resources, {"configurable": {"thread_id": "t", **saver}}, runtime)
        update = yield from fold_checkpoint(state, run)  # type: ignore[arg-type]
        return Folded(update, events)


def a_turn(number: int, text: str = LONG) -> list[AnyMessage]:
    """A whole turn: a question and a long answer."""
    return [
        HumanMessage(content=f"question {number}", id=f"u{number}"),
        AIMessage(content=f"answer {number} {text}", id=f"a{number}"),
    ]


def a_round(number: int, text: str = LONG, *, tool: str = "read") -> list[AnyMessage]:
    """A call and its result."""
    call = {"name": tool, "args": {"page": number}, "id": f"c{number}"}
    return [
        AIMessage(content="", tool_calls=[call], id=f"r{number}"),
        ToolMessage(content=f"page {number} {text}", tool_call_id=f"c{number}", name=tool, id=f"t{number}"),
    ]


def a_state(
    messages: Sequence[AnyMessage], decision: dict[str, Any], *, round_number: int = 1, **channels: Any
) -> dict[str, Any]:
    """The state of a turn that answers the last user message."""
    users = [message for message in messages if isinstance(message, HumanMessage)]
    turn = {
        "id": f"turn-{users[-1].id}",
        "session_id": "t",
        "input_id": users[-1].id,
        "position": len(users) - 1,
        "archived": "",
        "round": round_number,
        "degradations": [],
        "usage": dict(NO_USAGE),
        **channels.pop("turn", {}),
    }
    return {"messages": list(messages), "turn": turn, "decision": decision, "summary": {}, **channels}


def ten_turns() -> list[AnyMessage]:
    """Ten long turns, and a question."""
    before = [message for number in range(10) for message in a_turn(number)]
    return [*before, HumanMessage(content="question 10", id="u10")]
