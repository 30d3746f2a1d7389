"""Putting turns that are over into the archive, and what then stays in the state (docs/archive.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage

from turnflow.graph.archive import Archive, ArchivedTurn, Scope, TurnInfo, scope_of
from turnflow.graph.archive_access import archive_of
from turnflow.graph.archive_memory import MemoryArchive
from turnflow.graph.archive_turns import count_visible, search_text, turn_key
from turnflow.graph.flow import Body, InThread, NodeRun
from turnflow.graph.langgraph_access import remembers
from turnflow.graph.recording import known_messages
from turnflow.graph.turns import TurnSpan, pinned_groups, turn_spans

logger = logging.getLogger("turnflow")


@dataclass(frozen=True)
class Place:
    """Where a turn stands in its conversation, as its `turn` channel holds it.

    Attributes:
        position: From 0.
        archived: Key of the newest archived turn before it; '' where there is none.
        archived_input: Id of the user message that that turn begins with.
        removed: Messages that came again with the input though their turns are archived.
        unarchived: Position of the first turn that could not be archived; None where all are.
    """

    position: int = 0
    archived: str = ""
    archived_input: str = ""
    removed: list[RemoveMessage] = field(default_factory=list)
    unarchived: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the `turn` channel."""
        return {
            "position": self.position,
            "archived": self.archived,
            "archived_input": self.archived_input,
            **({} if self.unarchived is None else {"unarchived": self.unarchived}),
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
    archive = archive_of(run)
    if archive is None:
        return Place(position=len(earlier))
    is_archived = bool(known) and known == old.get("input_id")
    base = old.get("unarchived", old.get("position", 0) + is_archived)
    place = Place(base, old.get("archived", ""), known)
    at = next((i for i in range(len(earlier) - 1, -1, -1) if known and earlier[i].input_id == known), -1)
    is_edited = bool(known) and (at < 0 or _was_edited(messages, old))
    if not is_edited and at == len(earlier) - 1:
        return place

    def archived() -> Place:
        if not is_edited:
            return _archive_missing(archive, run, messages, earlier[at + 1 :], old, place)
        start, behind = _unchanged(archive, run_scope(run, old), messages, earlier, place)
        return _archive_missing(archive, run, messages, earlier[start:], old, behind)

    try:
        found: Place = yield InThread(archived)
    except Exception as error:
        logger.warning("earlier turns could not be archived; they stay in the state", exc_info=error)
        missing = len(earlier) - 1 - at
        return Place(base + missing, place.archived, place.archived_input, unarchived=base)
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
    if "unarchived" in turn or "position" not in turn:
        return ""  # what stands before it is not in the archive yet; the next turn sees to both
    if not remembers(run.config):
        return ""  # whoever gives the messages keeps them; the next turn archives this one as it was given
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


def _was_edited(messages: Sequence[AnyMessage], old: dict[str, Any]) -> bool:
    """Whether what the last turn left in the state is not what the new one finds there."""
    mark = str((old.get("on_record") or {}).get("messages", ""))
    return bool(mark) and known_messages(messages, mark) == 0


def _unchanged(
    archive: Archive,
    scope: Scope,
    messages: Sequence[AnyMessage],
    earlier: Sequence[TurnSpan],
    place: Place,
) -> tuple[int, Place]:
    """How many turns of an edited transcript are as the archive has them, and the place behind them.

    What follows a turn that was changed or taken back is archived anew, as a branch.
    """
    infos = archive.turn_infos(scope, place.archived) if place.archived else []
    by_input = {info["input_id"]: info for info in infos if info["input_id"]}
    by_key = {info["key"]: info for info in infos}
    before: TurnInfo | None = None
    start = 0
    for at, span in enumerate(earlier):
        own = list(messages[span.start : span.end])
        if len(pinned_groups(own)) == len(own):
            start = at + 1  # what is pinned of a turn that has left the state is no turn
            continue
        info = by_input.get(span.input_id)
        if before is None and info is not None:
            before = by_key.get(info["parent"])  # it stands in the archive alone
        parent = before["key"] if before else ""
        if info is None or info["parent"] != parent:
            break
        key = turn_key(info["turn_id"], own)
        if info["key"] not in {key, _branch_key(info["turn_id"], parent, key)}:
            break
        before, start = info, at + 1
    if before is None:
        return start, Place()
    return start, Place(before["position"] + 1, before["key"], before["input_id"])


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
    line = {info["input_id"] for info in archive.turn_infos(scope, head)} if head else set()
    removed: list[RemoveMessage] = []
    for span in missing:
        own = list(messages[span.start : span.end])
        if span.input_id and span.input_id in line:
            removed += [RemoveMessage(id=message.id) for message in own if message.id]
            continue
        is_old = span.input_id == old.get("input_id")
        status = "given" if not is_old else "finished" if old.get("phase") == "ended" else "abandoned"
        turn_id = str(old["id"]) if is_old else f"turn-{span.input_id or own[0].id}"
        record = _record(turn_id, own, span.input_id, head, position, status)
        known = archive.known_turns(scope, [record["key"]]).get(record["key"])
        if known is not None and head not in {"", known["parent"]}:
            # The same turn stands in the archive behind another one.
            record["key"] = _branch_key(turn_id, head, record["key"])
            known = archive.known_turns(scope, [record["key"]]).get(record["key"])
        if known is None:
            archive.put_turn(scope, record, search_text(own))
        else:
            position = known["position"]
        head, head_input, position = record["key"], span.input_id, position + 1
    return Place(position, head, head_input, removed)


def _branch_key(turn_id: str, parent: str, key: str) -> str:
    """The key of a turn that the archive has behind another turn already."""
    digest = blake2b(f"{parent}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{turn_id}~{digest}"
