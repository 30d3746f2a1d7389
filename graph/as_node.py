"""`as_node`: the turn graph as a node of a parent, at a cost that does not grow (docs/embedding.md)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph._internal._runnable import RunnableCallable
from langgraph.graph.message import push_message
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.types import StreamMode

from turnflow.graph.events import hide_live_message
from turnflow.graph.langgraph_access import streams_messages, streams_subgraphs
from turnflow.graph.transcript import last_user_message, marked_id, turn_messages
from turnflow.graph.turns import last_turns as turns_at_the_end

Output = Literal["answer", "outcome"]

_ID_NAMESPACE = uuid.UUID("3c1b6a54-3b0c-4a1c-8f0f-6a5e1d0b7f42")
_TASK_CHARS = 8


def as_node(
    graph: Pregel[Any, Any, Any, Any],
    *,
    last_turns: int = 10,
    forward_events: bool = True,
    outputs: Sequence[Output] = ("answer", "outcome"),
) -> Runnable[Any, dict[str, Any]]:
    """A node that runs the turn graph inside a parent, whose state has a channel `messages`.

    It gives the turn graph the last turns of the parent's messages, and the parent only the messages that are
    new. Questions interrupt the parent and are answered through it; the saver and the context are the
    parent's.

    Args:
        graph: A graph of `build_turn_graph`, without a saver of its own.
        last_turns: How many turns of the parent's messages it gets, the current one included; pinned messages
            of earlier ones come along.
        forward_events: Send the turn's events and its live text into the parent's `custom` and `messages`
            streams, as if the node had written them. With `subgraphs=True` they go out by themselves.
        outputs: Which channels besides `messages` it fills, where the parent has them. Leave them out where
            several such nodes run side by side.

    Raises:
        ValueError: An argument is wrong; the text names it and the mend.
    """
    _check(graph, last_turns, outputs)
    remembers = graph.checkpointer is True
    count = 1 if remembers else last_turns

    def node(state: Any, config: RunnableConfig, runtime: Runtime[Any]) -> dict[str, Any]:
        entry = _enter(state, config, runtime, count, remembers=remembers)
        if not forward_events or streams_subgraphs(config):
            return entry.update(graph.invoke(entry.input, config), outputs)
        stream = _Forwarding(config, runtime)
        for part in graph.stream(entry.input, config, stream_mode=stream.modes, version="v2"):
            stream.take(part)
        return stream.settled(entry.update(stream.values, outputs))

    async def anode(state: Any, config: RunnableConfig, runtime: Runtime[Any]) -> dict[str, Any]:
        entry = _enter(state, config, runtime, count, remembers=remembers)
        if not forward_events or streams_subgraphs(config):
            return entry.update(await graph.ainvoke(entry.input, config), outputs)
        stream = _Forwarding(config, runtime)
        async for part in graph.astream(entry.input, config, stream_mode=stream.modes, version="v2"):
            stream.take(part)
        return stream.settled(entry.update(stream.values, outputs))

    return RunnableCallable(node, anode, name=graph.get_name(), trace=False)


def _check(graph: object, last_turns: object, outputs: object) -> None:
    if not isinstance(graph, Pregel):
        raise ValueError(f"graph is one that build_turn_graph made, not {graph!r:.80}")
    if not isinstance(last_turns, int) or isinstance(last_turns, bool) or last_turns < 1:
        raise ValueError(f"last_turns is a whole number from 1 on, not {last_turns!r:.80}")
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or set(outputs) - {"answer", "outcome"}:
        raise ValueError(f"outputs is a list of 'answer' and 'outcome', or empty, not {outputs!r:.80}")


@dataclass(frozen=True)
class _Entry:
    """What goes into the turn graph.

    Attributes:
        messages: The messages.
        input_id: Id of the last user message among them.
        remembers: Whether the graph keeps what it was given before.
    """

    messages: Sequence[AnyMessage]
    input_id: str | None
    remembers: bool

    @property
    def input(self) -> Any:
        """The graph's input."""
        return {"messages": list(self.messages)}

    def update(self, values: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
        """The parent's update: what is new in the graph's output."""
        known = {message.id for message in self.messages}
        messages = values["messages"]
        if self.remembers:
            messages = turn_messages(messages, self.input_id)
        new = [message for message in messages if message.id not in known]
        return {"messages": new, **{key: values[key] for key in outputs if key in values}}


def _enter(
    state: Any, config: RunnableConfig, runtime: Runtime[Any], count: int, *, remembers: bool
) -> _Entry:
    given = state["messages"] if isinstance(state, Mapping) else state.messages
    messages = turns_at_the_end(_with_ids(given), count)
    user = last_user_message(messages)
    if user is None:
        return _Entry(messages, None, remembers)
    # All ids of a turn are made from that of its user message, and several nodes may answer the same one.
    mark = config.get("metadata", {}).get("langgraph_node", "") if remembers else _task(runtime)
    own = user.model_copy(update={"id": marked_id(str(user.id), mark)})
    return _Entry([own if message is user else message for message in messages], own.id, remembers)


def _task(runtime: Runtime[Any]) -> str:
    """Stands for the task that runs the node; the same when it is run again after a pause or a crash."""
    info = runtime.execution_info
    return info.task_id[:_TASK_CHARS] if info else ""


def _with_ids(given: Sequence[Any]) -> list[AnyMessage]:
    """The parent's messages, in any form that LangChain takes, each with an id.

    One that has none gets the same each time; where it stands in the whole conversation is part of it.
    """
    messages: list[Any] = []
    for index, message in enumerate(given):
        typed = message if isinstance(message, BaseMessage) else convert_to_messages([message])[0]
        if typed.id is None:
            fresh = uuid.uuid5(_ID_NAMESPACE, f"{index}:{typed.type}:{typed.content}")
            typed = typed.model_copy(update={"id": str(fresh)})
        messages.append(typed)
    return messages


@dataclass
class _Forwarding:
    """Passes what the turn graph streams on to the parent's streams, and keeps its last values."""

    config: RunnableConfig
    runtime: Runtime[Any]
    values: dict[str, Any] = field(default_factory=dict)
    modes: list[StreamMode] = field(default_factory=lambda: ["custom", "values"])
    seen: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Ask for live messages only where somebody reads them."""
        if streams_messages(self.config):
            self.modes = [*self.modes, "messages"]

    def take(self, part: Any) -> None:
        """Take in a part of the stream."""
        if part["type"] == "custom":
            self.runtime.stream_writer(part["data"])
        elif part["type"] == "messages":
            message: BaseMessage = part["data"][0]
            self.seen.add(message.id)
            push_message(message, state_key=None)
        else:
            self.values = dict(part["data"])

    def settled(self, update: dict[str, Any]) -> dict[str, Any]:
        """The update, once nothing in it will be sent that went out before a pause."""
        if "messages" in self.modes:
            for message in update["messages"]:
                if message.id not in self.seen:
                    hide_live_message(message.id)
        return update
