"""The check after each scenario: replaying the record gives the live state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from turnflow.graph.history import full_history
from turnflow.graph.record import read_record, rebuild
from turnflow.graph.saver import TurnSaver
from turnflow.graph.turns import last_turns, turn_spans


def check_record(graph: Any, thread: str, values: dict[str, Any]) -> None:
    """Compare what the record gives with the stored state of a thread, and with all that was said in it.

    What an edit has changed is in the archive from the next turn on.

    Args:
        graph: The graph, with its saver.
        thread: The thread.
        values: The state's values.
    """
    facts = read_record(graph, thread)
    for fact in facts:
        assert {"type", "session_id", "turn_id", "round", "seq", "time"} <= fact.keys()
    assert [fact["seq"] for fact in facts] == sorted({fact["seq"] for fact in facts})
    rebuilt = rebuild(facts)
    if not values.get("turn"):
        return  # the input was stored and no node ran yet
    if isinstance(getattr(graph, "checkpointer", None), TurnSaver) and facts[-1]["type"] != "edited":
        assert _said(rebuilt["messages"]) == _said(full_history(graph, thread))
    live = _said(values.get("messages", []))
    kept = {tuple(map(str, _said(turns))) for turns in _tails(rebuilt["messages"])}
    assert tuple(map(str, live)) in kept, (live, _said(rebuilt["messages"]))
    for channel in ("answer", "outcome", "session", "summary"):
        assert rebuilt[channel] == (values.get(channel) or type(rebuilt[channel])()), channel


def _tails(messages: list[Any]) -> list[list[Any]]:
    """All that may be left of a transcript once its first turns are in the archive."""
    return [messages, *(last_turns(messages, count) for count in range(1, len(turn_spans(messages))))]


def _said(messages: Sequence[BaseMessage]) -> list[tuple[Any, ...]]:
    return [(m.id, m.type, m.content, m.tool_calls if isinstance(m, AIMessage) else None) for m in messages]
