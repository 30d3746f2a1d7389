"""Which checkpoints others are read from: the chains of delta channels (docs/storage.md).

A delta channel is stored whole in some checkpoints only. In the others its value is the last one that was
stored, and what was written since, along the chain of parents. Metadata tell which channels a checkpoint
does not hold: `counters_since_delta_snapshot`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_MISSING = b'"counters_since_delta_snapshot"'

_LOOK_UP = """SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""


class Link(NamedTuple):
    """A checkpoint as far as chains go."""

    id: str
    parent: str | None
    metadata: bytes | str | None

    @property
    def missing(self) -> frozenset[str]:
        """Delta channels that it does not hold."""
        raw = (
            self.metadata.encode("utf-8", "ignore")
            if isinstance(self.metadata, str)
            else self.metadata or b""
        )
        if _MISSING not in raw:
            return frozenset()
        counters = json.loads(raw).get("counters_since_delta_snapshot")
        return frozenset(counters) if isinstance(counters, dict) else frozenset()


def needed(
    cursor: sqlite3.Cursor, thread_id: str, namespace: str, kept: Iterable[Link], known: Mapping[str, Link]
) -> set[str]:
    """Ids of the checkpoints that the kept ones are read from: they, and what was written after them, stay.

    Args:
        cursor: Looks up what is not known.
        thread_id: The thread.
        namespace: The namespace.
        kept: Checkpoints that stay.
        known: Checkpoints by id that need not be looked up.
    """
    found: dict[str, frozenset[str]] = {}
    waiting = [(link.parent, link.missing) for link in kept]
    while waiting:
        checkpoint_id, channels = waiting.pop()
        if not channels or checkpoint_id is None or channels <= found.get(checkpoint_id, frozenset()):
            continue
        link = known.get(checkpoint_id)
        if link is None:
            row = cursor.execute(_LOOK_UP, (thread_id, namespace, checkpoint_id)).fetchone()
            if row is None:
                continue
            link = Link(*row)
        found[checkpoint_id] = channels | found.get(checkpoint_id, frozenset())
        waiting.append((link.parent, channels & link.missing))
    return set(found)
