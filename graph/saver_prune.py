"""What goes from the file when a turn begins: the supersteps of turns that are over (docs/archive.md)."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.saver_boundary import Held, HeldCheckpoint
from turnflow.graph.saver_chains import Link, needed
from turnflow.graph.saver_connection import SaverConnection
from turnflow.graph.saver_packs import TurnFacts, pack_facts
from turnflow.graph.saver_rows import BEHIND_ALL

logger = logging.getLogger("turnflow")

KEEP_TURNS = 20
"""Turns of which checkpoints are kept, where nothing else is said."""

FULL_TURNS = 2
"""Turns of which every superstep is kept, where nothing else is said."""

_REMEMBERED = 4096
"""Namespaces whose turn is remembered."""

_PAGE = 400
"""Checkpoints per statement."""

_BEFORE_INPUT = 3
"""Checkpoints between an input's and the first one that holds the new turn, at most."""

_ENTER = """INSERT OR IGNORE INTO turnflow_turns
(thread_id, graph, checkpoint_ns, turn_id, step, first, is_whole, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1,
    (SELECT coalesce(max(seq), 0) FROM turnflow_record WHERE thread_id = ?1))"""

_NEWEST = """SELECT coalesce(max(first), '') FROM turnflow_turns
WHERE thread_id = ? AND graph = ? AND checkpoint_ns = ?"""

_TURNS = """SELECT checkpoint_ns, turn_id, step, first, is_whole, seq FROM turnflow_turns
WHERE thread_id = ? AND graph = ? ORDER BY step, first"""

_ENDS_ONLY = """UPDATE turnflow_turns SET is_whole = 0
WHERE thread_id = ? AND graph = ? AND checkpoint_ns = ? AND turn_id = ?"""

_GONE = """DELETE FROM turnflow_turns
WHERE thread_id = ? AND graph = ? AND checkpoint_ns = ? AND turn_id = ?"""

_LINKS = """SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id >= ? AND checkpoint_id < ?"""

_LATER = """SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id >= ? AND parent_checkpoint_id < ?"""

_PARENT = """SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""

_FOLLOW = """UPDATE checkpoints SET parent_checkpoint_id = ?
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"""

_EFFECTS_GONE = """DELETE FROM turnflow_effects
WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ? AND state = 'done'"""


class _Turn(NamedTuple):
    """A row of `turnflow_turns`."""

    namespace: str
    id: str
    step: str
    """Turns with the same step run side by side: the parent's checkpoint, or its own first one."""
    first: str
    is_whole: bool
    seq: int
    """The newest fact of the thread when it began."""


class TurnPruner(SqliteSaver):
    """The part of the saver that removes the checkpoints of old turns.

    Attributes:
        keep_turns: Turns of which the input and the final checkpoint are kept; None keeps everything.
        full_turns: Turns of which every superstep is kept, the current one included.
    """

    _connection: SaverConnection
    keep_turns: int | None
    full_turns: int

    def _set_kept(self, keep_turns: int | None, full_turns: int) -> None:
        for name, given in (("keep_turns", keep_turns), ("full_turns", full_turns)):
            is_number = isinstance(given, int) and not isinstance(given, bool)
            if not is_number and (given is not None or name == "full_turns"):
                raise ValueError(f"{name}={given!r:.80} is no number of turns; give 1 or more")
        if full_turns < 1 or (keep_turns is not None and keep_turns < 1):
            raise ValueError(f"keep_turns={keep_turns} and full_turns={full_turns}: each must be at least 1")
        self.keep_turns = keep_turns
        self.full_turns = full_turns

    def _enter_turns(self, cursor: sqlite3.Cursor, stored: Sequence[Held]) -> None:
        """Note the turns that began with what was stored just now, in its transaction, and prune for each.

        What fails is logged and taken back alone.
        """
        for held in stored:
            if not isinstance(held, HeldCheckpoint) or not held.turn_id:
                continue
            place = (held.thread_id, held.namespace)
            if self._connection.turns.get(place) == held.turn_id:
                continue
            warning = f"old checkpoints of thread {held.thread_id!r} stay"
            with self._apart(cursor, "turnflow_prune", warning):
                self._enter(cursor, held)
            self._remember_turn(place, held.turn_id)

    def _remember_turn(self, place: tuple[str, str], turn_id: str) -> None:
        known = self._connection.turns
        known.pop(place, None)
        known[place] = turn_id
        for oldest in [*islice(known, max(0, len(known) - _REMEMBERED))]:
            del known[oldest]

        def forget() -> None:
            known.pop(place, None)

        self._connection.on_rollback(forget)

    def _enter(self, cursor: sqlite3.Cursor, held: HeldCheckpoint) -> None:
        siblings = _siblings(held.namespace)
        (before,) = cursor.execute(_NEWEST, (held.thread_id, siblings, held.namespace)).fetchone()
        first = _first(cursor, held, before)
        step = _parent_step(held) or first
        row = (held.thread_id, siblings, held.namespace, held.turn_id, step, first)
        if cursor.execute(_ENTER, row).rowcount and self.keep_turns is not None:
            self._prune_turns(cursor, held.thread_id, siblings, step, self.keep_turns)

    def _prune_turns(
        self, cursor: sqlite3.Cursor, thread_id: str, siblings: str, step: str, keep_turns: int
    ) -> None:
        rows = cursor.execute(_TURNS, (thread_id, siblings)).fetchall()
        turns = [_Turn(*row) for row in rows]
        steps = list(dict.fromkeys(turn.step for turn in turns))
        if steps[-1] != step:
            return  # clocks that disagree: which turns are old is not known
        whole = set(steps[-self.full_turns :])
        kept = set(steps[-max(keep_turns, self.full_turns) :])
        for index, turn in enumerate(turns):
            if turn.step in whole:
                break
            if turn.step in kept and not turn.is_whole:
                continue
            later = next((later for later in turns[index + 1 :] if later.namespace == turn.namespace), None)
            place, end = (thread_id, turn.namespace), later.first if later else BEHIND_ALL
            if turn.step in kept:
                _keep_ends(cursor, place, turn.first, end)
                cursor.execute(_ENDS_ONLY, (thread_id, siblings, turn.namespace, turn.id))
            else:
                _remove_before(cursor, place, end)
                cursor.execute(_GONE, (thread_id, siblings, turn.namespace, turn.id))
            if turn.is_whole or later is None:
                until, next_turn = (later.seq, later.id) if later else (None, "")
                self._pack(cursor, TurnFacts(*place, turn.id, until, next_turn))

    def _pack(self, cursor: sqlite3.Cursor, turn: TurnFacts) -> None:
        with self._apart(cursor, "turnflow_pack", f"facts of thread {turn.thread_id!r} stay as they are"):
            pack_facts(cursor, self.serde, turn)

    @contextmanager
    def _apart(self, cursor: sqlite3.Cursor, name: str, warning: str) -> Iterator[None]:
        """Run the block as a part of the transaction that is taken back alone if it fails, with a warning."""
        try:
            cursor.execute(f"SAVEPOINT {name}")
            yield
            cursor.execute(f"RELEASE {name}")
        except Exception as error:
            if not self._connection.sqlite.in_transaction:
                raise
            cursor.execute(f"ROLLBACK TO {name}")
            cursor.execute(f"RELEASE {name}")
            logger.warning(warning, exc_info=error)


def _keep_ends(cursor: sqlite3.Cursor, place: tuple[str, str], first: str, end: str) -> None:
    """Of one turn's checkpoints leave the input, the ends, where others branch off, and what these need.

    Args:
        cursor: In the transaction.
        place: Thread and namespace.
        first: The turn's first checkpoint.
        end: The next turn's.
    """
    links = {row[0]: Link(*row) for row in cursor.execute(_LINKS, (*place, first, end))}
    later = [Link(*row) for row in cursor.execute(_LATER, (*place, end, end))]
    followed = {link.parent for link in links.values()}
    kept = {first, *(link.parent for link in later if link.parent)}
    kept.update(link.id for link in links.values() if link.id not in followed)
    staying = [links[each] for each in kept if each in links]
    kept |= needed(cursor, *place, [*staying, *later], links)
    keep_only(cursor, place, kept, links, later)


def _remove_before(cursor: sqlite3.Cursor, place: tuple[str, str], end: str) -> None:
    """Remove all checkpoints before one, but for those that later ones are read from."""
    links = {row[0]: Link(*row) for row in cursor.execute(_LINKS, (*place, "", end))}
    later = [Link(*row) for row in cursor.execute(_LATER, (*place, end, end))]
    kept = needed(cursor, *place, later, links)
    keep_only(cursor, place, kept, links, later)
    remove_effects(cursor, *place, min(kept, default=end))


def keep_only(
    cursor: sqlite3.Cursor,
    place: tuple[str, str],
    kept: Collection[str],
    links: Mapping[str, Link],
    later: Iterable[Link] = (),
) -> None:
    """Remove checkpoints; those that followed one of them follow the nearest one before it that stays.

    Args:
        cursor: In the transaction.
        place: Thread and namespace.
        kept: Ids of those that stay, and of all that they are read from.
        links: The checkpoints that this is about, by id.
        later: Others that follow some of these.
    """
    staying = [link for link in links.values() if link.id in kept]
    for link in {*staying, *later}:
        parent = link.parent
        while parent is not None and parent in links and parent not in kept:
            parent = links[parent].parent
        if parent != link.parent:
            if parent is not None and parent not in links:
                found = cursor.execute(_PARENT, (*place, parent)).fetchone()
                parent = found and found[0]
            cursor.execute(_FOLLOW, (parent, *place, link.id))
    remove_checkpoints(cursor, *place, [each for each in links if each not in kept])


def remove_checkpoints(cursor: sqlite3.Cursor, thread_id: str, namespace: str, ids: Collection[str]) -> int:
    """Remove checkpoints and what was written after them; gives how many rows of writes went along."""
    written = 0
    for page in _pages(ids):
        marks = ", ".join("?" * len(page))
        where = f"WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id IN ({marks})"
        values = (thread_id, namespace, *page)
        cursor.execute(f"DELETE FROM checkpoints {where}", values)  # noqa: S608 (placeholders)
        written += cursor.execute(f"DELETE FROM writes {where}", values).rowcount  # noqa: S608 (placeholders)
    return written


def remove_effects(cursor: sqlite3.Cursor, thread_id: str, namespace: str, end: str) -> None:
    """Forget calls that are over, of tasks that came after checkpoints before one.

    No run can come to them again. Those without an end stay: nothing else tells of them.
    """
    cursor.execute(_EFFECTS_GONE, (thread_id, namespace, end))


def _pages(ids: Iterable[str]) -> Iterator[list[str]]:
    left = iter(ids)
    while page := list(islice(left, _PAGE)):
        yield page


def _siblings(namespace: str) -> str:
    """What the namespaces of one graph, at one place in one run of its parent, have in common."""
    parent, bar, own = namespace.rpartition("|")
    name, colon, _ = own.partition(":")
    return f"{parent}{bar}{name}{colon}"


def _parent_step(held: HeldCheckpoint) -> str:
    """The parent's checkpoint that a graph in a namespace of its own runs after; '' for other graphs."""
    parent, _, own = held.namespace.rpartition("|")
    if ":" not in own:
        return ""
    parents = _described(held.row[2]).get("parents")
    return str(parents.get(parent) or "") if isinstance(parents, dict) else ""


def _first(cursor: sqlite3.Cursor, held: HeldCheckpoint, before: str) -> str:
    """The checkpoint that a turn begins with: its input's, or the first that is stored of it.

    The latter where LangGraph stores no input, with `durability="exit"`.

    Args:
        cursor: In the transaction.
        held: The first checkpoint that holds the turn.
        before: What the turn before began with.
    """
    parent = held.parent
    for _ in range(_BEFORE_INPUT):
        row = cursor.execute(_PARENT, (held.thread_id, held.namespace, parent)).fetchone() if parent else None
        if row is None or row[0] <= before:
            break
        if _described(row[2]).get("source") == "input":
            return str(row[0])
        parent = row[1]
    return held.id


def _described(metadata: bytes | str | None) -> dict[str, object]:
    described = json.loads(metadata) if metadata else {}
    return described if isinstance(described, dict) else {}
