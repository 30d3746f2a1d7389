"""What the effects journal says about a call: who began it, and whether it is over (docs/effects.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import ToolMessage


@dataclass(frozen=True, slots=True)
class Effect:
    """A call of a tool with effects, by the task that is about to run it.

    Thread, namespace, batch and call tell it from all others.

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
    def identity(self) -> tuple[str, str, str, str]:
        """What the call is known by."""
        return self.thread_id, self.namespace, self.batch_id, self.call_id


@dataclass(frozen=True, slots=True)
class EffectFound:
    """What the journal says about a call.

    Attributes:
        state: `new`: it was entered as started just now, and may run. `started`: a start without an end, so
            it may or may not have happened. `waiting`: the tool interrupted the graph itself, and will run
            again from its top. `done`: it ran, and what its task wrote is stored.
        result: The stored message of a call that is done; None if it is no longer kept. Of one that was
            started, the message that says so, if there is one already.
    """

    state: Literal["new", "started", "waiting", "done"]
    result: ToolMessage | None = None


NEW = EffectFound("new")
STARTED = EffectFound("started")


def result_among(values: Iterable[Any], call_id: str) -> ToolMessage | None:
    """Find a call's tool message among what a task wrote to the transcript, each a message or a list."""
    for value in values:
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, ToolMessage) and message.tool_call_id == call_id:
                return message
    return None
