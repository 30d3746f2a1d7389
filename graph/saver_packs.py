"""Packs: facts of a turn whose supersteps are gone, in one row instead of many (docs/archive.md).

Most of what facts say stands in the archived turn too. So a pack is compressed with the bytes of that turn as
dictionary, and cannot be read without it: both go with their thread, and never before. Behind them the
dictionary has what facts look like.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from turnflow.graph.archive import scope_of
from turnflow.graph.saver_template import TEMPLATE
from turnflow.graph.saver_values import is_readable, unzipped

MOST_FACTS = 256
"""Facts in a pack: as many as a reader decodes to get at one of them."""

MOST_BYTES = 4_000_000
"""Bytes of facts in a pack, but for its last fact."""

_AT_ONCE = 1_000
"""Facts that are packed when a turn begins: older records are packed little by little."""

_WINDOW = 32_768
"""Bytes that zlib looks back; what a dictionary has before them counts for nothing."""

_PLAIN, _COMPRESSED = "packed", "packed:zlib1"
"""Types of packs: as they are, and compressed with the first template."""

_LISTS = JsonPlusSerializer()
"""Makes one value of the facts in a pack, whatever made the facts."""

# The newest fact of a thread stays a row: new rows get larger numbers than any row there is, so what is
# packed has smaller ones than what comes. Facts of tasks whose writes are kept stay rows: such a task may run
# again, and its facts are then known by their rows.
_TO_PACK = """FROM turnflow_record AS fact WHERE thread_id = ?1 AND {bounds}
AND seq < (SELECT max(seq) FROM turnflow_record WHERE thread_id = ?1)
AND task_id NOT IN (SELECT task_id FROM writes WHERE thread_id = ?1 AND checkpoint_ns = ?2)
ORDER BY seq LIMIT ?4"""

# The plus keeps SQLite from the index that begins with thread and namespace: it knows no order.
_UP_TO = f"SELECT seq, type, value {_TO_PACK.format(bounds='+checkpoint_ns = ?2 AND seq <= ?3')}"

_ALL = f"SELECT seq, type, value {_TO_PACK.format(bounds='checkpoint_ns = ?2 AND ?3 IS NULL')}"

# The digest in a turn's key is hexadecimal; "g" comes behind all of it.
_TURN = """SELECT key, type, value FROM turnflow_archive
WHERE thread_id = ?1 AND graph = ?2 AND key > ?3 || '~' AND key < ?3 || '~g' ORDER BY seq DESC LIMIT 1"""

_DICTIONARY = "SELECT type, value FROM turnflow_archive WHERE thread_id = ? AND graph = ? AND key = ?"

_PUT = """INSERT INTO turnflow_packs (thread_id, first, last, numbers, graph, turn_key, type, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

_READ = """SELECT first, numbers, graph, turn_key, type, value FROM turnflow_packs
WHERE thread_id = ? AND last > ? ORDER BY first"""

_PACKS = "SELECT rowid, first, numbers FROM turnflow_packs WHERE thread_id = ?"

_COPY_PACK = """INSERT INTO turnflow_packs (thread_id, first, last, numbers, graph, turn_key, type, value)
SELECT ?, ?, ?, ?, graph, turn_key, type, value FROM turnflow_packs WHERE rowid = ?"""

_COPY_FACT = """INSERT INTO turnflow_record (seq, thread_id, checkpoint_ns, task_id, idx, type, value)
SELECT ?, ?, checkpoint_ns, task_id, idx, type, value FROM turnflow_record WHERE seq = ?"""

_SET_TURN = """UPDATE turnflow_turns SET seq = ? WHERE thread_id = ? AND graph = ? AND checkpoint_ns = ?
AND turn_id = ?"""


class StoredFact(NamedTuple):
    """A fact as it is stored, not compressed."""

    seq: int
    kind: str
    data: bytes


class TurnFacts(NamedTuple):
    """Whose facts are to be packed."""

    thread_id: str
    namespace: str
    turn_id: str
    until: int | None
    """The last `seq`; None for all of the namespace, where it is the turn's own."""
    next_turn: str
    """Facts that name this turn are not packed yet; '' if there is none."""


def pack_facts(cursor: sqlite3.Cursor, serde: SerializerProtocol, turn: TurnFacts) -> None:
    """Put the facts of a turn into packs, and whatever older ones of its namespace are rows yet.

    Args:
        cursor: In the transaction.
        serde: What the saver's values are made with.
        turn: The turn. Nothing of it may be put again but by tasks whose writes are in the file.
    """
    bounds = (turn.thread_id, turn.namespace, turn.until, _AT_ONCE)
    rows = cursor.execute(_ALL if turn.until is None else _UP_TO, bounds).fetchall()
    facts = [StoredFact(seq, *unzipped(kind, data)) for seq, kind, data in rows]
    if turn.next_turn:
        later = turn.next_turn.encode("utf-8", "ignore")
        facts = [fact for fact in facts if later not in fact.data]
    if not facts:
        return
    graph, key, archived = scope_of("", turn.namespace).graph, "", b""
    if is_readable(serde):
        found = cursor.execute(_TURN, (turn.thread_id, graph, turn.turn_id)).fetchone()
        if found is not None:
            key, archived = found[0], unzipped(*found[1:])[1]
    for page in _pages(facts):
        numbers = [fact.seq for fact in page]
        row = (turn.thread_id, numbers[0], numbers[-1], _runs(numbers), graph, key)
        cursor.execute(_PUT, (*row, *_packed(page, archived, compresses=is_readable(serde))))
        cursor.executemany("DELETE FROM turnflow_record WHERE seq = ?", [(number,) for number in numbers])


def packed_facts(
    cursor: sqlite3.Cursor, thread_id: str, after: int, number: int
) -> tuple[list[StoredFact], int | None]:
    """Facts from the packs of a thread, in no order.

    Args:
        cursor: In a transaction.
        thread_id: The thread.
        after: Only facts with a larger `seq`.
        number: As many, where there are so many, and what else their packs hold.

    Returns:
        The facts, and the `seq` below which there are no others in packs; None if there are none at all.

    Raises:
        sqlite3.DataError: A pack cannot be read, or its turn is not in the archive any more.
    """
    found: list[StoredFact] = []
    # A cursor of its own: the turns are looked up meanwhile.
    for first, numbers, *rest in cursor.connection.execute(_READ, (thread_id, after)):
        if len(found) >= number and first > after + 1:
            return found, first
        stored = _unpacked(cursor, thread_id, *rest)
        facts = zip(_numbers(first, numbers), stored, strict=True)
        found += [StoredFact(seq, *fact) for seq, fact in facts if seq > after]
    return found, None


def copy_record(cursor: sqlite3.Cursor, source: str, target: str) -> None:
    """Give a thread the facts of another, packs as they are, with new numbers in the same order.

    The rows of `turnflow_turns` are there already.
    """
    rows = cursor.execute("SELECT seq FROM turnflow_record WHERE thread_id = ?", (source,)).fetchall()
    packs = [(row, _numbers(first, runs)) for row, first, runs in cursor.execute(_PACKS, (source,))]
    old = sorted([*(seq for (seq,) in rows), *(seq for _, numbers in packs for seq in numbers)])
    (newest,) = cursor.execute("SELECT coalesce(max(seq), 0) FROM turnflow_record").fetchone()
    new = {seq: newest + place for place, seq in enumerate(old, start=1)}
    cursor.executemany(_COPY_FACT, [(new[seq], target, seq) for (seq,) in rows])
    for row, numbers in packs:
        fresh = [new[seq] for seq in numbers]
        cursor.execute(_COPY_PACK, (target, fresh[0], fresh[-1], _runs(fresh), row))
    turns = "SELECT seq, thread_id, graph, checkpoint_ns, turn_id FROM turnflow_turns WHERE thread_id = ?"
    for seq, *key in cursor.execute(turns, (target,)).fetchall():
        cursor.execute(_SET_TURN, (newest + bisect_right(old, seq), *key))


def _packed(facts: Sequence[StoredFact], turn: bytes, *, compresses: bool) -> tuple[str, bytes]:
    """Type and bytes of a pack. The bytes of each fact stay as they are."""
    _, data = _LISTS.dumps_typed([[fact.kind, fact.data] for fact in facts])
    return (_COMPRESSED, _compressed(data, turn)) if compresses else (_PLAIN, data)


def _unpacked(
    cursor: sqlite3.Cursor, thread_id: str, graph: str, key: str, kind: str, data: bytes
) -> list[tuple[str, bytes]]:
    """Kind and bytes of each fact in a pack."""
    turn = b""
    if kind == _COMPRESSED and key:
        found = cursor.execute(_DICTIONARY, (thread_id, graph, key)).fetchone()
        if found is None:
            raise sqlite3.DataError(
                f"the record of thread {thread_id!r} needs turn {key!r}, which is not in the archive"
            )
        turn = unzipped(*found)[1]
    try:
        if kind == _COMPRESSED:
            data = _decompressed(data, turn)
        facts: list[Any] = _LISTS.loads_typed(("msgpack", data))
        return [(kind, value) for kind, value in facts]
    except (zlib.error, ValueError, TypeError) as error:
        raise sqlite3.DataError(f"the record of thread {thread_id!r} is damaged: {error}") from error


def _compressed(data: bytes, turn: bytes) -> bytes:
    compressor = zlib.compressobj(zlib.Z_BEST_COMPRESSION, memLevel=9, zdict=_dictionary(turn))
    return compressor.compress(data) + compressor.flush()


def _decompressed(data: bytes, turn: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=_dictionary(turn))
    return decompressor.decompress(data) + decompressor.flush()


def _dictionary(turn: bytes) -> bytes:
    return (turn + TEMPLATE)[-_WINDOW:]


def _pages(facts: Iterable[StoredFact]) -> Iterator[list[StoredFact]]:
    page: list[StoredFact] = []
    size = 0
    for fact in facts:
        page.append(fact)
        size += len(fact.data)
        if len(page) == MOST_FACTS or size >= MOST_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def _runs(numbers: Sequence[int]) -> str:
    """Rising numbers as text: for each run of neighbours how far it is from the first, and its length."""
    runs: list[list[int]] = []
    for number in numbers:
        offset = number - numbers[0]
        if runs and sum(runs[-1]) == offset:
            runs[-1][1] += 1
        else:
            runs.append([offset, 1])
    return json.dumps(runs, separators=(",", ":"))


def _numbers(first: int, runs: str) -> list[int]:
    return [first + offset + step for offset, length in json.loads(runs) for step in range(length)]
