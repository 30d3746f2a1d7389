"""The one place that looks into what LangGraph puts in a node's configuration."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

_CHECKPOINTER = "__pregel_checkpointer"
_READ_STATE = "__pregel_read_state"
_DURABILITY = "__pregel_durability"


def can_pause(config: RunnableConfig) -> bool:
    """Whether this run is saved, so that an interrupt can be answered later."""
    return bool(config.get("configurable", {}).get(_CHECKPOINTER))


def saver_of(config: RunnableConfig) -> Any:
    """The saver of this run, the graph's own, its parent's or the server's; None where nothing is saved.

    LangGraph's server hands its savers on in a wrapper.
    """
    saver = config.get("configurable", {}).get(_CHECKPOINTER) or None
    return getattr(saver, "_inner", saver)


def durability_of(config: RunnableConfig) -> str:
    """When LangGraph stores a superstep of this run: `sync`, `async` or `exit`."""
    return str(config.get("configurable", {}).get(_DURABILITY) or "async")


def read_state(config: RunnableConfig) -> dict[str, Any]:
    """The graph's state as a task sees it that was sent something else."""
    read = config.get("configurable", {}).get(_READ_STATE)
    return dict(read()) if read else {}
