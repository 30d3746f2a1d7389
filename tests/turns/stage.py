"""Plays turns against the fake provider, sync and async, on each saver, and checks the laws of every turn."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

from tests.turns.record_check import check_record
from turnflow import (
    OpenAICompatibleChat,
    ProviderProfile,
    TurnError,
    TurnSettings,
    build_turn_graph,
    open_saver,
)
from turnflow.apps.fake_provider import FakeProvider
from turnflow.graph.outcome import STATUSES

T = TypeVar("T")
Mode = Literal["sync", "async"]
SaverKind = Literal["none", "memory", "sqlite"]


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def echo(text: str) -> str:
    """Give the text back."""
    return text


def boom() -> str:
    """Raise an error."""
    raise RuntimeError("the boiler is cold")


@dataclass
class Played:
    """What a run gave."""

    events: list[dict[str, Any]] = field(default_factory=list)
    live: list[BaseMessage] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    interrupts: tuple[Interrupt, ...] = ()
    error: TurnError | None = None

    @property
    def messages(self) -> list[Any]:
        return list(self.values["messages"])

    @property
    def outcome(self) -> dict[str, Any]:
        return dict(self.error.outcome) if self.error else dict(self.values["outcome"])

    @property
    def status(self) -> str:
        return str(self.outcome["status"])

    @property
    def answer(self) -> str:
        return str(self.values["answer"])

    def shape(self) -> list[str]:
        """The transcript's roles, calls by name."""
        return [_role(message) for message in self.messages]

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def results(self) -> dict[str, str]:
        return {m.tool_call_id: str(m.content) for m in self.messages if isinstance(m, ToolMessage)}


def _role(message: BaseMessage) -> str:
    if isinstance(message, AIMessage) and message.tool_calls:
        return "ai:" + ",".join(call["name"] for call in message.tool_calls)
    return message.type


class Stage:
    """Runs turns in one mode on one saver."""

    def __init__(self, mode: Mode, saver: SaverKind, folder: Path) -> None:
        self.mode = mode
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.saver: Any = None
        self._played: dict[str, Any] = {}
        if saver == "memory":
            self.saver = InMemorySaver()
        elif saver == "sqlite":
            self.saver = self._stack.enter_context(open_saver(folder / "threads.sqlite"))

    def close(self) -> None:
        """Check that the record says what the state is, in each thread, then close all."""
        with self._stack:
            for thread, graph in self._played.items():
                check_record(graph, thread, self.state(graph, {"configurable": {"thread_id": thread}}))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the stage's loop, to which the model's connections belong."""
        return self._runner.run(work)

    def model(self, provider: FakeProvider, **options: Any) -> OpenAICompatibleChat:
        """A model with clients of its own, closed with the stage."""
        client = DefaultHttpxClient(verify=False)
        async_client = DefaultAsyncHttpxClient(verify=False)
        self._stack.callback(client.close)
        self._stack.callback(lambda: self._runner.run(async_client.aclose()))
        return OpenAICompatibleChat(
            model="fake",
            base_url=provider.base_url,
            http_client=client,
            http_async_client=async_client,
            **options,
        )

    def graph(
        self,
        provider: FakeProvider,
        *,
        tools: Any = (add, echo, boom),
        profile: ProviderProfile | None = None,
        retries: int = 0,
        settings: Any = None,
        **options: Any,
    ) -> Any:
        given = settings.model_dump() if isinstance(settings, TurnSettings) else dict(settings or {})
        return build_turn_graph(
            self.model(provider, provider_profile=profile or ProviderProfile()),
            list(tools),
            provider_profile=profile,
            checkpointer=self.saver,
            settings={"retries_per_round": retries, **given},
            **options,
        )

    def play(
        self, graph: Any, given: Any, *, thread: str = "t", context: Any = None, laws: bool = True
    ) -> Played:
        """Run one input and read every stream; checks the laws unless told not to."""
        played = Played()
        if self.saver:
            self._played[thread] = graph
        config = {"configurable": {"thread_id": thread}} if self.saver else {}
        if isinstance(given, str):
            given = {"messages": [HumanMessage(content=given)]}
        options = {"stream_mode": ["custom", "messages", "values"], "version": "v2", "context": context}
        try:
            if self.mode == "sync":
                for part in graph.stream(given, config, **options):
                    _take(played, part)
            else:
                self._runner.run(_read(played, graph.astream(given, config, **options)))
        except TurnError as error:
            played.error = error
        if laws:
            check_laws(played, resumed=given is None or isinstance(given, Command))
            if self.saver:
                check_plain(self.state(graph, config))
        return played

    def state(self, graph: Any, config: Any) -> dict[str, Any]:
        """The stored state."""
        if self.mode == "sync":
            return dict(graph.get_state(config).values)
        return dict(self.run(graph.aget_state(config)).values)


async def _read(played: Played, parts: AsyncIterator[Any]) -> None:
    async for part in parts:
        _take(played, part)


def _take(played: Played, part: Mapping[str, Any]) -> None:
    if part["type"] == "custom":
        played.events.append(part["data"])
    elif part["type"] == "messages":
        played.live.append(part["data"][0])
    else:
        played.values = dict(part["data"])
        told = {i.id: i for i in (*played.interrupts, *(part.get("interrupts") or ()))}
        played.interrupts = tuple(told.values())


def check_plain(value: Any) -> None:
    """The stored state holds plain JSON values and messages, nothing else."""
    if isinstance(value, dict):
        for key, item in value.items():
            assert type(key) is str
            check_plain(item)
    elif isinstance(value, list):
        for item in value:
            check_plain(item)
    else:
        assert value is None or isinstance(value, BaseMessage) or type(value) in {str, int, float, bool}


def check_laws(played: Played, *, resumed: bool = False) -> None:
    """What holds for every run, however it ends."""
    check_transcript(played.messages, paused=bool(played.interrupts))
    check_live_text(played)
    sequence = [event["seq"] for event in played.events]
    assert sequence == sorted(sequence)
    assert played.outcome["status"] in STATUSES
    if played.error:
        assert played.types()[-1] == "turn.ended"
        return
    if not resumed:
        assert played.types()[0] == "turn.started"
    assert json.loads(json.dumps(played.outcome)) == played.outcome
    if played.interrupts:
        assert played.status == "paused"
        return
    assert played.types().count("turn.ended") == 1
    assert played.types()[-1] == "turn.ended"
    last = played.messages[-1]
    assert isinstance(last, AIMessage)
    assert not last.tool_calls
    assert played.answer
    assert last.content == played.answer
    assert played.events[-1]["outcome"] == played.outcome


def check_transcript(messages: Sequence[BaseMessage], *, paused: bool = False) -> None:
    """Each call has exactly one result, right behind its message, in the model's order."""
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        assert not isinstance(message, ToolMessage), f"a result without a call: {message!r}"
        if not isinstance(message, AIMessage):
            continue
        expected = [call["id"] for call in message.tool_calls]
        found = []
        while index < len(messages) and isinstance(result := messages[index], ToolMessage):
            found.append(result.tool_call_id)
            index += 1
        is_open = paused and index == len(messages)
        assert found == expected or (is_open and set(found) < set(expected))
    ids = [message.id for message in messages]
    assert len(set(ids)) == len(ids)


def check_live_text(played: Played) -> None:
    """What was streamed is what is stored, in both streams."""
    if played.error is not None:
        return
    stored = {m.id: str(m.content) for m in played.messages if isinstance(m, AIMessage)}
    for message_id, text in _shown(played.events).items():
        assert text == stored.get(message_id, "")
    shown = {str(message.id) for message in played.live if message.content}
    for message_id, text in _read_live(played.live).items():
        # An empty piece alone keeps a message that is not for the user out of the stream.
        if message_id in shown:
            assert text == stored.get(message_id, "")


def _shown(events: list[dict[str, Any]]) -> dict[str, str]:
    shown: dict[str, str] = defaultdict(str)
    for event in events:
        if event["type"] == "content.delta":
            shown[event["message_id"]] += event["text"]
        elif event["type"] == "content.retract":
            text = shown[event["message_id"]]
            assert text.endswith(event["text"])
            shown[event["message_id"]] = text[: len(text) - len(event["text"])]
    return shown


def _read_live(messages: list[BaseMessage]) -> dict[str, str]:
    read: dict[str, str] = defaultdict(str)
    for message in messages:
        if isinstance(message, AIMessageChunk):
            read[str(message.id)] += str(message.content)
        elif isinstance(message, AIMessage):
            read[str(message.id)] = str(message.content)
    return read
