"""Reads and sets the variables and tags of a thread from outside its turns (docs/sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from turnflow.graph.flow import Body, TwoWays, adrive, drive
from turnflow.graph.run import is_unfinished
from turnflow.graph.session import SessionInfo, check_size, info_of, session_change

Graph = Pregel[Any, Any, Any, Any]
VariablesChange = Mapping[str, Mapping[str, Any] | None]
Tags = Mapping[str, str | None]


def session_of(graph: Graph, thread_id: str) -> SessionInfo:
    """The variables and the metadata of a thread; empty ones for a thread that does not exist.

    Args:
        graph: A graph of `build_turn_graph` with a checkpointer.
        thread_id: The thread.

    Raises:
        ValueError: The graph keeps no threads, or is no turn graph; or the thread's id is blank.
    """
    return drive(_read(graph, thread_id))


async def asession_of(graph: Graph, thread_id: str) -> SessionInfo:
    """The variables and the metadata of a thread, awaiting; see `session_of`."""
    return await adrive(_read(graph, thread_id))


def set_variables(graph: Graph, thread_id: str, variables: VariablesChange) -> None:
    """Set variables of a thread between its turns; all of them or none.

    The thread need not exist yet. Nothing runs, and no turn starts or ends.

    Args:
        graph: A graph of `build_turn_graph` with a checkpointer.
        thread_id: The thread.
        variables: By namespace and key; None takes a key out, or all of a namespace.

    Raises:
        ValueError: A variable is no plain JSON, or together they are too large; a turn of the thread is not
            over, as writing into its state would lose what it waits for; or as for `session_of`.
    """
    drive(_set(graph, thread_id, session_change(variables=variables)))


async def aset_variables(graph: Graph, thread_id: str, variables: VariablesChange) -> None:
    """Set variables of a thread between its turns, awaiting; see `set_variables`."""
    await adrive(_set(graph, thread_id, session_change(variables=variables)))


def set_tags(graph: Graph, thread_id: str, tags: Tags) -> None:
    """Set tags of a thread between its turns.

    Args:
        graph: A graph of `build_turn_graph` with a checkpointer.
        thread_id: The thread.
        tags: Texts by name; None takes a tag off.

    Raises:
        ValueError: A tag is no text or too long, or there are too many; or as for `set_variables`.
    """
    drive(_set(graph, thread_id, session_change(tags=tags)))


async def aset_tags(graph: Graph, thread_id: str, tags: Tags) -> None:
    """Set tags of a thread between its turns, awaiting; see `set_tags`."""
    await adrive(_set(graph, thread_id, session_change(tags=tags)))


def _read(graph: Graph, thread_id: str) -> Body[SessionInfo]:
    snapshot = yield _snapshot(graph, thread_id)
    return info_of(snapshot.values.get("session"))


def _set(graph: Graph, thread_id: str, update: dict[str, Any]) -> Body[None]:
    if not update["session"]:
        return
    snapshot: StateSnapshot = yield _snapshot(graph, thread_id)
    _check_idle(snapshot)
    check_size(snapshot.values.get("session"), update["session"])
    config = _config(thread_id)
    # As the last node, so that nothing is left to run.
    yield TwoWays(
        lambda: graph.update_state(config, update, as_node="finalize"),
        lambda: graph.aupdate_state(config, update, as_node="finalize"),
    )


def _snapshot(graph: Graph, thread_id: str) -> TwoWays:
    if not isinstance(graph, Pregel):
        raise ValueError(f"the graph is one that build_turn_graph made, not {graph!r:.80}")
    if "session" not in graph.channels or "finalize" not in graph.nodes:
        raise ValueError("the graph is no turn graph; give the one that build_turn_graph made")
    if not graph.checkpointer or graph.checkpointer is True:
        raise ValueError("only a graph with a saver keeps sessions: build it with checkpointer=")
    if not isinstance(thread_id, str) or not thread_id.strip():
        raise ValueError(f"a thread's id is a text that is not blank, not {thread_id!r:.80}")
    config = _config(thread_id)
    return TwoWays(lambda: graph.get_state(config), lambda: graph.aget_state(config))


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def _check_idle(snapshot: StateSnapshot) -> None:
    """Refuse to write into a thread in which something is open: what it waits for would be lost.

    Raises:
        ValueError: The text names the mend.
    """
    if any(task.interrupts for task in snapshot.tasks):
        raise ValueError(
            "a question is open in this thread: set them with its answer, by Command(resume=answer, "
            "update=session_change(...)), or once it is answered"
        )
    if any(task.error for task in snapshot.tasks):
        raise ValueError(
            "the last turn of this thread failed and can be gone on with: do so (run_turn with None) or send "
            "the next message, then set them"
        )
    if is_unfinished(snapshot):
        raise ValueError("a turn of this thread is running or was broken off; let it end first")
