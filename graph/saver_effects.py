"""The effects journal as a table of the saver, stored with what its rows belong to (docs/effects.md)."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.effects_journal import NEW, STARTED, Effect, EffectFound, found_among
from turnflow.graph.saver_boundary import Held, HeldWrites, Row
from turnflow.graph.saver_connection import SaverConnection
from turnflow.graph.saver_rows import HAS_CHECKPOINT
from turnflow.graph.state import BATCH, TRANSCRIPT

_CALL = "thread_id = ? AND checkpoint_ns = ? AND batch_id = ? AND call_id = ? AND key = ?"

_FIND = f"SELECT state, task_id, checkpoint_id FROM turnflow_effects WHERE {_CALL}"  # noqa: S608 (constants)

_FIND_BATCH = """SELECT call_id, state, task_id, checkpoint_id FROM turnflow_effects
WHERE thread_id = ? AND checkpoint_ns = ? AND batch_id = ? ORDER BY started"""

_START = """INSERT OR REPLACE INTO turnflow_effects
(thread_id, checkpoint_ns, batch_id, call_id, key, name, state, task_id, checkpoint_id, started)
VALUES (?, ?, ?, ?, ?, ?, 'started', ?, ?, ?)"""

_FINISH = f"UPDATE turnflow_effects SET state = 'done' WHERE {_CALL} AND task_id = ?"  # noqa: S608 (constants)

_WITHDRAW = (
    f"UPDATE turnflow_effects SET state = 'waiting' WHERE {_CALL} "  # noqa: S608 (constants)
    "AND task_id = ? AND state = 'started'"
)

_WRITTEN = """SELECT channel, type, value FROM writes WHERE thread_id = ? AND checkpoint_ns = ?
AND checkpoint_id = ? AND task_id = ? AND channel IN (?, ?) ORDER BY idx"""


class EffectStore(SqliteSaver):
    """The part of the saver that keeps the effects journal."""

    _connection: SaverConnection

    if TYPE_CHECKING:

        def _store(self, thread_id: str | None = None) -> None: ...

    def start_effect(
        self, effect: Effect, *, again: bool = False, needs_checkpoint: bool = True
    ) -> EffectFound | None:
        """Enter a call as started, unless it was before; stored together with all that waits for the thread.

        Of several that enter the same call at once, in this process or others, one gets `new`.

        Args:
            effect: The call.
            again: Enter it anew if it was started and is not done.
            needs_checkpoint: Enter it only if the checkpoint that its task comes after is stored.

        Returns:
            What the journal says; None, and nothing entered, if the checkpoint is needed and not there yet.
        """
        with self.lock, self.cursor() as cursor:
            self._store(effect.thread_id)
            found = cursor.execute(_FIND, effect.identity).fetchone()
            if found is not None:
                state, task_id, checkpoint_id = found
                if state == "done":
                    written = _written(cursor, effect.thread_id, effect.namespace, checkpoint_id, task_id)
                    return self._found(state, written, effect.call_id)
                if state == "started" and not again:
                    # What this task writes now is not the end of that start.
                    self._forget(effect)
                    return STARTED
            place = (effect.thread_id, effect.namespace, effect.checkpoint_id)
            if needs_checkpoint and cursor.execute(HAS_CHECKPOINT, place).fetchone() is None:
                return None
            cursor.execute(
                _START,
                (
                    *effect.identity,
                    effect.name,
                    effect.task_id,
                    effect.checkpoint_id,
                    time.time(),
                ),
            )
            self._remember(effect)
            self._connection.on_rollback(lambda: self._forget(effect))
        return NEW

    async def astart_effect(
        self, effect: Effect, *, again: bool = False, needs_checkpoint: bool = True
    ) -> EffectFound | None:
        """Async twin of `start_effect`."""
        return await self._connection.run(
            self.start_effect, effect, again=again, needs_checkpoint=needs_checkpoint
        )

    def find_effects(self, thread_id: str, namespace: str, batch_id: str) -> dict[str, EffectFound]:
        """Give what the journal holds of a batch, by call id.

        Args:
            thread_id: The thread.
            namespace: The checkpoint namespace of the turn graph.
            batch_id: Id of the assistant message that made the calls.
        """
        self._store(thread_id)
        with self.cursor(transaction=False) as cursor:
            found = cursor.execute(_FIND_BATCH, (thread_id, namespace, batch_id)).fetchall()
            rows = list({row[0]: row for row in found}.values())  # of a call with several keys the last
            written = {
                call_id: _written(cursor, thread_id, namespace, checkpoint_id, task_id)
                for call_id, _, task_id, checkpoint_id in rows
            }
        return {call_id: self._found(state, written[call_id], call_id) for call_id, state, *_ in rows}

    async def afind_effects(self, thread_id: str, namespace: str, batch_id: str) -> dict[str, EffectFound]:
        """Async twin of `find_effects`."""
        return await self._connection.run(self.find_effects, thread_id, namespace, batch_id)

    def _settle(self, cursor: sqlite3.Cursor, held: Held) -> None:
        """Enter the end of a call with what its task wrote, in the transaction that stores the latter.

        A task that was interrupted runs again from its top: its call counts as not started. One that failed
        leaves its call as started.
        """
        if not isinstance(held, HeldWrites) or (effect := self._connection.effects.get(held.task_id)) is None:
            return
        channels = {row[1] for row in held.rows}
        if INTERRUPT in channels:
            cursor.execute(_WITHDRAW, (*effect.identity, effect.task_id))
        elif channels <= WRITES_IDX_MAP.keys() and ERROR not in channels:
            return
        elif ERROR not in channels:
            cursor.execute(_FINISH, (*effect.identity, effect.task_id))
        self._forget(effect)
        self._connection.on_rollback(lambda: self._remember(effect))

    def _remember(self, effect: Effect) -> None:
        self._connection.effects[effect.task_id] = effect

    def _forget(self, effect: Effect) -> None:
        self._connection.effects.pop(effect.task_id, None)

    def _forget_effects(self, thread_id: str) -> None:
        """Drop what is remembered of a thread that was deleted. The caller holds the lock."""
        for effect in [*self._connection.effects.values()]:
            if effect.thread_id == thread_id:
                self._forget(effect)

    def _found(self, state: Any, written: list[Row], call_id: str) -> EffectFound:
        loads = self.serde.loads_typed
        writes = ((channel, loads((kind, value))) for channel, kind, value in written)
        return found_among(state, writes, call_id)


def _written(
    cursor: sqlite3.Cursor, thread_id: str, namespace: str, checkpoint_id: str, task_id: str
) -> list[Row]:
    """Channel, kind and bytes of what a task wrote to the transcript and to the batch."""
    place = (thread_id, namespace, checkpoint_id, task_id, TRANSCRIPT, BATCH)
    return cursor.execute(_WRITTEN, place).fetchall()
