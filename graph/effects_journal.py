"""What the effects journal says about a call: who began it, and whether it is over (docs/effects.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import ToolMessage

from turnflow.graph.state import BATCH, TRANSCRIPT

State = Literal["new", "started", "waiting", "done"]


@dataclass(frozen=True, slots=True)
class Effect:
    """A call of a tool with effects, by the task that is about to run it.

    Thread, namespace, batch, call and key tell it from all others.

    Attributes:
        thread_id: Its thread.
        namespace: The checkpoint namespace of its turn graph; empty unless the graph is embedded.
        batch_id: Id of the assistant message that made the call.
        call_id: Id of the call.
        key: Stands for the tool and its arguments. Another key under the same ids is another call.
        name: The tool's name.
        task_id: The task.
        checkpoint_id: The checkpoint that the task comes after, in the same namespace.
    """

    thread_id: str
    namespace: str
    batch_id: str
    call_id: str
    key: str
    name: str
    task_id: str
    checkpoint_id: str

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        """What the call is known by."""
        return self.thread_id, self.namespace, self.batch_id, self.call_id, self.key


@dataclass(frozen=True, slots=True)
class EffectFound:
    """What the journal says about a call.

    Attributes:
        state: `new`: it was entered as started just now, and may run. `started`: a start without an end, so
            it may or may not have happened. `waiting`: the tool interrupted the graph itself, and will run
            again from its top. `done`: it ran, and what its task wrote is stored.
        result: The stored message of a call that is done; None if it is no longer kept. Of one that was
            started, the message that says so, if there is one already.
        report: What was said beside the message, as the batch holds it.
    """

    state: State
    result: ToolMessage | None = None
    report: dict[str, Any] = field(default_factory=dict)


NEW = EffectFound("new")
STARTED = EffectFound("started")


def found_among(state: State, writes: Iterable[tuple[str, Any]], call_id: str) -> EffectFound:
    """What is known of a call whose task wrote something.

    Args:
        state: What the journal says of it.
        writes: Channel and value of each thing that the task wrote.
        call_id: The call.
    """
    result: ToolMessage | None = None
    report: dict[str, Any] = {}
    for channel, value in writes:
        if channel == TRANSCRIPT:
            for message in value if isinstance(value, list) else [value]:
                if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
                    result = message
        elif channel == BATCH and isinstance(value, dict):
            report = dict((value.get("calls") or {}).get(call_id) or {})
    return EffectFound(state, result, report)
