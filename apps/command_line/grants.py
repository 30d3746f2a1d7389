"""What was allowed for good in a thread: listed, and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.types import StateSnapshot

from turnflow import TurnSaver
from turnflow.apps.command_line.plain import visible
from turnflow.apps.command_line.threads import reading_graph, thread_state
from turnflow.graph.run import is_unfinished


def grants_of(saver: TurnSaver, thread_id: str) -> dict[str, Any]:
    """What was granted in a thread, by tool name.

    Raises:
        ValueError: There is no such thread.
    """
    return _grants(thread_state(saver, thread_id))


def revoke(saver: TurnSaver, thread_id: str, names: Sequence[str]) -> None:
    """Take grants back; all of them or none.

    Raises:
        ValueError: There is no such thread or grant, or a turn of the thread is not over: writing into its
            state would lose what it waits for.
    """
    snapshot = thread_state(saver, thread_id)
    granted = _grants(snapshot)
    for name in names:
        if name not in granted:
            have = ", ".join(map(visible, granted)) or "no tool"
            raise ValueError(f"{visible(name)} has no grant in this thread; granted is: {have}")
    if any(task.interrupts for task in snapshot.tasks):
        raise ValueError("a question is open in this thread; answer it first, then take the grant back")
    if is_unfinished(snapshot):
        raise ValueError("a turn of this thread is running or was broken off; let it end first")
    changes = {"session": {"grants": dict.fromkeys(names)}}
    # As the last node, so that nothing is left to run.
    reading_graph(saver).update_state({"configurable": {"thread_id": thread_id}}, changes, as_node="finalize")


def _grants(snapshot: StateSnapshot) -> dict[str, Any]:
    return dict((snapshot.values.get("session") or {}).get("grants") or {})
