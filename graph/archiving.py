"""Putting turns that are over into the archive, and what then stays in the state (docs/archive.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage

from turnflow.graph.archive import Archive, ArchivedTurn, Scope, scope_of
from turnflow.graph.archive_access import archive_of
from turnflow.graph.archive_memory import MemoryArchive
from turnflow.graph.archive_turns import count_visible, search_text, turn_key
from turnflow.graph.flow import Body, InThread, NodeRun
from turnflow.graph.turns import TurnSpan, turn_spans

logger = logging.getLogger("turnflow")


@dataclass(frozen=True)
class Place:
    """Where a turn stands in its conversation, as its `turn` channel holds it.

    Attributes:
        position: From 0.
        archived: Key of the newest archived turn before it; '' where there is none.
        archived_input: Id of the user message that that turn begins with.
        removed: Messages that came again with the input though their turns are archived.
    """

    position: int = 0
    archived: str = ""
    archived_input: str = ""
    removed: list[RemoveMessage] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the `turn` channel."""
        return {
            "position": self.position,
            "archived": self.archived,
            "archived_input": self.archived_input,
        }


def run_scope(run: NodeRun, turn: dict[str, Any]) -> Scope:
    """Whose turns a run archives: those of its thread, or of its session where it has none."""
    namespace = str(run.config.get("configurable", {}).get("checkpoint_ns", ""))
    graph, _, _ = namespace.rpartition("|")  # the last part is the node's own
    return scope_of(run.thread_id or str(turn.get("session_id", "")), graph)


def find_place(
    messages: Sequence[AnyMessage], input_id: str | None, old: dict[str, Any], run: NodeRun
) -> Body[Place]:
    """The place of a turn that starts; earlier turns that were never archived are archived now.

    Those are turns that were abandoned, that failed, or that came with the input.

    Args:
        messages: The transcript, its open calls closed.
        input_id: Id of the user message that starts the turn.
        old: The `turn` channel of the turn before; empty where there is none.
        run: The node's run.
    """
    earlier = _before(messages, input_id)
    known = old.get("archived_input", "")
    if not earlier:
        return Place()
    is_archived = bool(known) and known == old.get("input_id")
    place = Place(old.get("position", 0) + is_archived, old.get("archived", ""), known)
    last_known = next(
        (i for i in range(len(earlier) - 1, -1, -1) if known and earlier[i].input_id == known), -1
    )
    missing = earlier[last_known + 1 :]
    archive = archive_of(run)
    if archive is None:
        return Place(position=len(earlier))
    if not missing:
        return place
    try:
        found: Place = yield InThread(lambda: _archive_missing(archive, run, messages, missing, old, place))
    except Exception as error:
        logger.warning("earlier turns could not be archived; they stay in the state", exc_info=error)
        return Place(place.position + len(missing), place.archived, place.archived_input)
    return found


def archive_turn(
    messages: Sequence[AnyMessage], turn: dict[str, Any], status: str, run: NodeRun
) -> Body[str]:
    """Archive the turn that ends; gives its key, or '' where it could not be, or there is no archive.

    Args:
        messages: The transcript, the turn's last messages included.
        turn: The `turn` channel.
        status: The outcome's status.
        run: The node's run.
    """
    archive = archive_of(run)
    spans = [span for span in turn_spans(messages) if span.input_id == turn["input_id"]]
    if archive is None or not spans:
        return ""
    own = list(messages[spans[-1].start : spans[-1].end])
    scope = run_scope(run, turn)
    record = _record(
        turn["id"], own, turn["input_id"], turn.get("archived", ""), turn.get("position", 0), status
    )
    try:
        yield InThread(lambda: archive.put_turn(scope, record, search_text(own)))
    except Exception as error:
        logger.warning("the turn could not be archived; it stays in the state", exc_info=error)
        return ""
    return record["key"]


def archived_here(messages: Sequence[AnyMessage], input_id: str, scope: Scope) -> tuple[Archive, str]:
    """An archive in this process of the transcript's turns before one, and its head.

    For runs that have no archive: all turns are in the state then.
    """
    archive, head = MemoryArchive(), ""
    for position, span in enumerate(_before(messages, input_id)):
        own = list(messages[span.start : span.end])
        turn_id = f"turn-{span.input_id or own[0].id}"
        record = _record(turn_id, own, span.input_id, head, position, "finished")
        archive.put_turn(scope, record, search_text(own))
        head = record["key"]
    return archive, head


def turns_before(messages: Sequence[AnyMessage], input_id: str) -> int:
    """How many turns stand in a transcript before the one that begins with a message."""
    return len(_before(messages, input_id))


def _before(messages: Sequence[AnyMessage], input_id: str | None) -> list[TurnSpan]:
    spans = turn_spans(messages)
    index = next((i for i, span in enumerate(spans) if span.input_id == input_id), len(spans))
    return spans[:index]


def _record(
    turn_id: str, messages: list[AnyMessage], input_id: str, parent: str, position: int, status: str
) -> ArchivedTurn:
    return {
        "key": turn_key(turn_id, messages),
        "turn_id": turn_id,
        "input_id": input_id,
        "parent": parent,
        "position": position,
        "status": status,
        "time": time.time(),
        "message_count": count_visible(messages),
        "messages": messages,
    }


def _archive_missing(
    archive: Archive,
    run: NodeRun,
    messages: Sequence[AnyMessage],
    missing: Sequence[TurnSpan],
    old: dict[str, Any],
    place: Place,
) -> Place:
    """Archive turns that are not there; gives the place behind them."""
    scope = run_scope(run, old)
    head, head_input, position = place.archived, place.archived_input, place.position
    again = {info["input_id"] for info in archive.turn_infos(scope, head)} if head else set()
    records: list[ArchivedTurn] = []
    removed: list[RemoveMessage] = []
    for span in missing:
        own = list(messages[span.start : span.end])
        if span.input_id and span.input_id in again:
            removed += [RemoveMessage(id=message.id) for message in own if message.id]
            continue
        is_old = span.input_id == old.get("input_id")
        status = "given" if not is_old else "finished" if old.get("phase") == "ended" else "abandoned"
        turn_id = str(old["id"]) if is_old else f"turn-{span.input_id or own[0].id}"
        records.append(_record(turn_id, own, span.input_id, head, position, status))
        head, head_input, position = records[-1]["key"], span.input_id, position + 1
    known = archive.known_turns(scope, [record["key"] for record in records])
    shift = 0
    parent = ""
    for record in records:
        if info := known.get(record["key"]):
            shift, parent = info["position"] - record["position"], record["key"]
            continue
        if parent:
            record["parent"] = parent
        record["position"] += shift
        archive.put_turn(scope, record, search_text(record["messages"]))
        parent = record["key"]
    return Place(position + shift, head, head_input, removed)
