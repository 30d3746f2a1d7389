"""Rows of LangGraph's tables and of the record: how they are made, and stored (docs/storage.md)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointMetadata, get_checkpoint_metadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from turnflow.graph.saver_boundary import Held, HeldCheckpoint, HeldWrites, Row, can_go
from turnflow.graph.saver_values import packed
from turnflow.graph.state import RECORD, TRANSCRIPT, is_turn

MAX_BYTES = 10**9
"""SQLite's limit for one value, in its default build (https://sqlite.org/limits.html)."""

_TAKES_IN = "branch:to:assemble_context"
"""The channel that starts the node which begins a turn."""

BEHIND_ALL = "\x7f"
"""Sorts behind all ids of checkpoints."""

HAS_CHECKPOINT = """SELECT 1 FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""

_PUT_CHECKPOINT = """INSERT OR REPLACE INTO checkpoints
(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

_PUT_WRITES = """INSERT OR {} INTO writes
(thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_PUT_FACTS = """INSERT OR IGNORE INTO turnflow_record
(thread_id, checkpoint_ns, task_id, idx, type, value) VALUES (?, ?, ?, ?, ?, ?)"""


def checkpoint_rows(
    config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, serde: SerializerProtocol
) -> HeldCheckpoint:
    """Make a checkpoint's row; the arguments are those of a saver's `put`.

    Raises:
        sqlite3.DataError: A value is too long, or is no bytes.
        UnicodeEncodeError: An id holds half of a surrogate pair.
    """
    configurable, values = config["configurable"], checkpoint["channel_values"]
    if RECORD in values:
        # Only the writes to this channel count; they are in the record.
        values = {name: value for name, value in values.items() if name != RECORD}
        checkpoint = {**checkpoint, "channel_values": values}
    described = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False)
    held = HeldCheckpoint(
        thread_id=str(configurable["thread_id"]),
        namespace=configurable["checkpoint_ns"],
        id=checkpoint["id"],
        parent=configurable.get("checkpoint_id"),
        row=(*serde.dumps_typed(checkpoint), described.encode("utf-8", "ignore")),
        can_go=can_go(values, metadata.get("source")),
        turn_id=_turn_id(values, metadata.get("source")),
    )
    _check(held)
    return held


def write_rows(
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
    serde: SerializerProtocol,
) -> HeldWrites:
    """Make the rows of what a task wrote; the arguments are those of a saver's `put_writes`.

    Raises:
        sqlite3.DataError: A value is too long, or is no bytes.
        UnicodeEncodeError: An id or a channel's name holds half of a surrogate pair.
    """
    configurable, dump = config["configurable"], serde.dumps_typed
    facts = next((value for channel, value in writes if channel == RECORD), ())
    held = HeldWrites(
        thread_id=str(configurable["thread_id"]),
        namespace=str(configurable["checkpoint_ns"]),
        checkpoint_id=str(configurable["checkpoint_id"]),
        task_id=task_id,
        task_path=task_path,
        rows=[
            (WRITES_IDX_MAP.get(channel, index), channel, *dump(value))
            for index, (channel, value) in enumerate(writes)
            if channel != RECORD
        ],
        facts=[(index, *packed(serde, fact)) for index, fact in enumerate(facts)],
        replaces=all(channel in WRITES_IDX_MAP for channel, _ in writes),
        pins=any(channel == TRANSCRIPT and value != [] for channel, value in writes),
    )
    _check(held)
    return held


def _turn_id(values: Mapping[str, Any], source: str | None) -> str:
    """The turn that a checkpoint with these values belongs to.

    None where they may still hold the turn before: from an input until the node that takes it in is over.
    """
    turn: Any = values.get("turn")
    if source == "input" or _TAKES_IN in values or not is_turn(turn):
        return ""
    return str(turn.get("id") or "")


def _check(held: Held) -> None:
    """Refuse what SQLite would refuse later, when others would fail with it.

    Raises:
        sqlite3.DataError: A value is too long, or is no bytes.
        UnicodeEncodeError: An id or a name holds half of a surrogate pair.
    """
    names, rows = _fields(held)
    for name in names:
        name.encode()
    for *_, kind, value in rows:
        if not isinstance(value, bytes):
            raise sqlite3.DataError(
                f"the serializer gave a {type(value).__name__} of kind {kind!r}, not bytes"
            )
        if len(value) > MAX_BYTES:
            raise sqlite3.DataError(
                f"a value of {len(value):,} bytes in thread {held.thread_id!r} is too long: SQLite takes "
                f"{MAX_BYTES:,}; keep it elsewhere and store its name"
            )


def _fields(held: Held) -> tuple[list[str], list[Row]]:
    """The names in a row, and what ends in a kind and a value."""
    if isinstance(held, HeldCheckpoint):
        return [held.thread_id, held.namespace, held.id, held.parent or ""], [held.row[:2]]
    names = [held.thread_id, held.namespace, held.checkpoint_id, held.task_id, held.task_path]
    return [*names, *(row[1] for row in held.rows)], [*held.rows, *held.facts]


def insert(cursor: sqlite3.Cursor, held: Held) -> None:
    """Store one checkpoint, or what one task wrote, in the transaction that is open."""
    if isinstance(held, HeldCheckpoint):
        cursor.execute(_PUT_CHECKPOINT, (held.thread_id, held.namespace, held.id, held.parent, *held.row))
        return
    place = (held.thread_id, held.namespace, held.checkpoint_id, held.task_id, held.task_path)
    statement = _PUT_WRITES.format("REPLACE" if held.replaces else "IGNORE")
    cursor.executemany(statement, [(*place, *row) for row in held.rows])
    if held.facts:
        task = (held.thread_id, held.namespace, held.task_id)
        cursor.executemany(_PUT_FACTS, [(*task, *fact) for fact in held.facts])
