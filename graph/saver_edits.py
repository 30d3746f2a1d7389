"""Edits and branches on record: what the saver says of checkpoints that no run of a turn made."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.langgraph_access import checkpoint_time
from turnflow.graph.message_form import beginning_of, dump_messages
from turnflow.graph.saver_boundary import HeldWrites
from turnflow.graph.saver_connection import SaverConnection
from turnflow.graph.saver_values import packed
from turnflow.graph.state import TRANSCRIPT, is_turn
from turnflow.graph.transcript import merge_messages

CHANNELS = ("session", "summary", "answer", "outcome")
"""What the record gives back beside the transcript."""

EditKind = Literal["edited", "fork"]

_EMPTY: dict[str, Any] = {"session": {}, "summary": {}, "answer": "", "outcome": {}}

_REMEMBERED = 4096
"""Threads whose newest checkpoint is remembered, so that no query is needed for a turn like any other."""

_NEWER = """SELECT 1 FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id > ? LIMIT 1"""

_NEWER_TWO = _NEWER.replace("LIMIT 1", "LIMIT 2")

_PUT_FACT = """INSERT INTO turnflow_record
(thread_id, checkpoint_ns, task_id, idx, type, value) VALUES (?, '', ?, 0, ?, ?)"""

_newest: WeakKeyDictionary[SaverConnection, OrderedDict[str, str]] = WeakKeyDictionary()
"""Ids of the newest checkpoints, by thread, for each open file."""


class EditStore(SqliteSaver):
    """The part of the saver that puts edits and branches on record. Those of embedded graphs are not."""

    _connection: SaverConnection

    if TYPE_CHECKING:

        def _store(self, thread_id: str | None = None) -> None: ...

    def _may_branch(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> bool:
        """Whether a branch may begin with a checkpoint that is about to be taken in. Looks into no file."""
        given = config["configurable"]
        parent = given.get("checkpoint_id")
        if given.get("checkpoint_ns"):
            return False
        known = self._know_newest(str(given["thread_id"]), checkpoint["id"])
        source = metadata.get("source")
        return parent is not None and (source == "fork" or (source == "input" and known != parent))

    def _branch_of(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> HeldWrites | None:
        """What a checkpoint that may begin a branch puts on record, if it does.

        An edit at an old checkpoint begins one too, but its fact is that of the edit.
        """
        given = config["configurable"]
        thread_id, parent = str(given["thread_id"]), given["checkpoint_id"]
        self._store(thread_id)
        if metadata.get("source") == "input" and not self._has_newer(thread_id, parent):
            return None
        before = self.get_tuple(config)  # the values that are gone on from; an input is not in them
        fact = before and edited_fact(self, before.config, before.checkpoint, "fork")
        if not fact:
            return None
        made = {"checkpoint_id": checkpoint["id"], "time": checkpoint_time(checkpoint["id"]) or time.time()}
        row = packed(self.serde, {**fact, **made, "from_checkpoint": parent})
        return HeldWrites(
            thread_id=thread_id,
            namespace="",
            checkpoint_id=checkpoint["id"],
            task_id=str(uuid.uuid4()),
            task_path="",
            rows=[],
            facts=[(0, *row)],
            replaces=False,
            pins=False,
        )

    def _know_newest(self, thread_id: str, checkpoint_id: str) -> str | None:
        """Remember the newest checkpoint of a thread; gives the one before, if it is known."""
        newest = _newest.setdefault(self._connection, OrderedDict())
        known = newest.pop(thread_id, None)
        newest[thread_id] = checkpoint_id
        if len(newest) > _REMEMBERED:
            newest.popitem(last=False)
        return known

    def _has_newer(self, thread_id: str, checkpoint_id: str) -> bool:
        with self.cursor(transaction=False) as cursor:
            return cursor.execute(_NEWER, (thread_id, checkpoint_id)).fetchone() is not None

    def _store_edit(self, config: RunnableConfig, checkpoint: Checkpoint, changed: Collection[str]) -> None:
        """Store what is held, an edit among it, and its fact with it, in one transaction.

        Args:
            config: Names the checkpoint that was edited.
            checkpoint: The new one.
            changed: Channels that the edit changed.
        """
        given = config["configurable"]
        thread_id, parent = str(given["thread_id"]), given.get("checkpoint_id")
        with self.cursor() as cursor:
            self._store(thread_id)
            if given.get("checkpoint_ns"):
                return
            # Newer than the edited one is the edit itself; anything else makes it a branch.
            others = cursor.execute(_NEWER_TWO, (thread_id, parent or "")).fetchall()
            kind: EditKind = "fork" if parent and len(others) > 1 else "edited"
            place = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
            old = self.get_tuple(config) if kind == "edited" and parent else None
            before = old and transcript_at(self, old.config, old.checkpoint["channel_values"])
            channels = None if kind == "fork" else changed
            fact = edited_fact(self, {"configurable": place}, checkpoint, kind, channels, before)
            if fact:
                row = packed(self.serde, {**fact, "from_checkpoint": parent})
                cursor.execute(_PUT_FACT, (thread_id, str(uuid.uuid4()), *row))


def edited_fact(
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    checkpoint: Checkpoint,
    kind: EditKind,
    channels: Collection[str] | None = None,
    before: Sequence[AnyMessage] | None = None,
) -> dict[str, Any] | None:
    """The fact of an edit or a branch; None where nothing changed that is on record.

    It holds the state that the conversation goes on from.

    Args:
        saver: The saver that has the checkpoint.
        config: Names it.
        checkpoint: Its values.
        kind: `edited` for a change, `fork` for a branch.
        channels: Those that were changed; None for all.
        before: The transcript before a change.
    """
    values = checkpoint["channel_values"]
    turn = values.get("turn")
    if not isinstance(turn, dict) or not is_turn(turn):
        return None
    names = {TRANSCRIPT, *CHANNELS} if channels is None else channels
    said = {name: values.get(name) or _EMPTY[name] for name in CHANNELS if name in names}
    if TRANSCRIPT in names:
        messages = transcript_at(saver, config, values)
        said[TRANSCRIPT] = dump_messages(messages)
        said["from"] = beginning_of(messages if before is None else before)
    if not said:
        return None
    place = {
        "turn_id": turn["id"],
        "round": turn["round"],
        "time": checkpoint_time(checkpoint["id"]) or time.time(),
    }
    return {"type": kind, **place, "checkpoint_id": checkpoint["id"], **said}


def transcript_at(
    saver: BaseCheckpointSaver[Any], config: RunnableConfig, values: Mapping[str, Any]
) -> list[AnyMessage]:
    """The transcript at a checkpoint: its last stored value, and the writes since.

    Args:
        saver: The saver that has the checkpoint.
        config: Names it.
        values: Its channel values.
    """
    channel: DeltaChannel[Any] = DeltaChannel(merge_messages, list)
    if TRANSCRIPT in values:
        return list(channel.from_checkpoint(values[TRANSCRIPT]).get())
    history = saver.get_delta_channel_history(config=config, channels=[TRANSCRIPT])[TRANSCRIPT]
    restored = channel.from_checkpoint(history.get("seed"))
    restored.replay_writes(history["writes"])
    return list(restored.get())
