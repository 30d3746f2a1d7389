"""All that was said in a thread, whatever of it is still in the state (docs/record.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel

from turnflow.graph.archive import Archive, scope_of
from turnflow.graph.archive_store import StoreArchive
from turnflow.graph.content import as_text
from turnflow.graph.saver_archive import ArchiveStore
from turnflow.graph.turns import turn_spans


def full_history(
    graph: Pregel[Any, Any, Any, Any], thread_id: str, *, last: int | None = None
) -> list[AnyMessage]:
    """Every message of a thread in order: the archived turns, and those that are in the state alone.

    Args:
        graph: A graph of `build_turn_graph` with a saver.
        thread_id: The thread.
        last: How many turns, the newest ones; None for all.

    Raises:
        ValueError: There is no such thread, the graph keeps none, or `last` is no number of turns.
    """
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 1):
        raise ValueError(f"last={last!r:.80} is no number of turns; give 1 or more")
    if not isinstance(graph, Pregel):
        raise ValueError(f"graph is one of build_turn_graph, not {graph!r:.80}")
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        raise ValueError("only a graph with a saver keeps threads: build it with checkpointer=")
    if not isinstance(thread_id, str) or not thread_id.strip():
        raise ValueError(f"a thread's id is a text that is not blank, not {thread_id!r:.80}")
    snapshot = graph.get_state({"configurable": {"thread_id": thread_id}})
    if snapshot.created_at is None:
        raise ValueError(f"there is no thread {thread_id!r}")
    stored: list[AnyMessage] = list(snapshot.values.get("messages") or [])
    turn = snapshot.values.get("turn") or {}
    archive, head = _archive_of(graph), turn.get("archived", "")
    if archive is None or not head:
        return _last(stored, last)
    first = 0 if last is None else max(0, turn.get("position", 0) - last + 1)
    turns = archive.read_turns(scope_of(thread_id, ""), head, first)
    archived = [message for past in turns for message in past["messages"]]
    known = {message.id for message in archived}
    begun = {past["input_id"] for past in turns}
    # What is pinned of older turns stands in front of the last ones, and is no turn of its own.
    spans = turn_spans(stored)
    newest = max((index for index, span in enumerate(spans) if span.input_id in begun), default=-1)
    rest = [m for span in spans[newest + 1 :] for m in stored[span.start : span.end] if m.id not in known]
    return _last([*archived, *rest], last)


def missing_turns(messages: Sequence[AnyMessage], position: int | None, last: int | None = None) -> int:
    """How many turns a history lacks, because the archive has lost them.

    Args:
        messages: What `full_history` gave.
        position: Place of the thread's newest turn, 0 for the first; None where it is not known.
        last: How many turns were asked for; None for all.
    """
    if position is None:
        return 0
    wanted = position + 1 if last is None else min(last, position + 1)
    return max(0, wanted - len(turn_spans(messages)))


def visible_history(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What a reader of the conversation sees of it: the user's messages, and replies that call no tools."""
    return [
        message
        for message in messages
        if isinstance(message, HumanMessage)
        or (isinstance(message, AIMessage) and not message.tool_calls and as_text(message.content).strip())
    ]


def _archive_of(graph: Pregel[Any, Any, Any, Any]) -> Archive | None:
    if isinstance(graph.checkpointer, ArchiveStore):
        return graph.checkpointer
    return StoreArchive(graph.store) if graph.store is not None else None


def _last(messages: list[AnyMessage], count: int | None) -> list[AnyMessage]:
    spans = turn_spans(messages)
    return messages if count is None or len(spans) <= count else messages[spans[-count].start :]
