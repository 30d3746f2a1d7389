"""The one place that looks into what LangGraph puts in a node's configuration."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

_CHECKPOINTER = "__pregel_checkpointer"
_READ_STATE = "__pregel_read_state"


def can_pause(config: RunnableConfig) -> bool:
    """Whether this run is saved, so that an interrupt can be answered later."""
    return bool(config.get("configurable", {}).get(_CHECKPOINTER))


def read_state(config: RunnableConfig) -> dict[str, Any]:
    """The graph's state as a task sees it that was sent something else."""
    read = config.get("configurable", {}).get(_READ_STATE)
    return dict(read()) if read else {}
