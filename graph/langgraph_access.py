"""The one place that looks into what LangGraph puts in a node's configuration."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base.id import UUID
from langgraph.pregel._messages import StreamMessagesHandler

_EPOCH = 0x01B21DD213814000
"""1970 in the time of UUIDs: 100 nanoseconds since 1582."""
_OF_TIME = 6
"""Version of UUIDs that begin with their time."""

_CHECKPOINTER = "__pregel_checkpointer"
_READ_STATE = "__pregel_read_state"
_DURABILITY = "__pregel_durability"
_STREAM = "__pregel_stream"


def checkpoint_time(checkpoint_id: str) -> float | None:
    """When a checkpoint was made, in seconds since the epoch; None if its id does not tell.

    Within a process the times of ids never go back.
    """
    try:
        made = UUID(checkpoint_id)
    except ValueError:
        return None
    return (made.time - _EPOCH) / 1e7 if made.version == _OF_TIME else None


def can_pause(config: RunnableConfig) -> bool:
    """Whether this run is saved, so that an interrupt can be answered later."""
    return bool(config.get("configurable", {}).get(_CHECKPOINTER))


def remembers(config: RunnableConfig) -> bool:
    """Whether the next turn finds the state of this one: it is saved, and not under a task of a parent."""
    namespace, _, _ = str(config.get("configurable", {}).get("checkpoint_ns", "")).rpartition("|")
    return can_pause(config) and ":" not in namespace


def saver_of(config: RunnableConfig) -> Any:
    """The saver of this run, the graph's own, its parent's or the server's; None where nothing is saved.

    LangGraph's server hands its savers on in a wrapper.
    """
    saver = config.get("configurable", {}).get(_CHECKPOINTER) or None
    return getattr(saver, "_inner", saver)


def durability_of(config: RunnableConfig) -> str:
    """When LangGraph stores a superstep of this run: `sync`, `async` or `exit`."""
    return str(config.get("configurable", {}).get(_DURABILITY) or "async")


def own_fields_of(config: RunnableConfig) -> dict[str, Any]:
    """What a run is configured with, without what LangGraph adds to it."""
    given = config.get("configurable", {})
    return {key: value for key, value in given.items() if not key.startswith("__pregel_")}


def read_state(config: RunnableConfig) -> dict[str, Any]:
    """The graph's state as a task sees it that was sent something else."""
    read = config.get("configurable", {}).get(_READ_STATE)
    return dict(read()) if read else {}


def streams_subgraphs(config: RunnableConfig) -> bool:
    """Whether what graphs inside this one stream goes out by itself: the caller said `subgraphs=True`."""
    return _STREAM in config.get("configurable", {})


def streams_messages(config: RunnableConfig) -> bool:
    """Whether somebody reads `stream_mode="messages"` of this run."""
    callbacks = config.get("callbacks")
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", ())
    return any(isinstance(handler, StreamMessagesHandler) for handler in handlers)
