"""The archive as tables of the saver's file: turns, their words, their vectors (docs/archive.md)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar, cast

from langgraph.checkpoint.sqlite import SqliteSaver

from turnflow.graph.archive import ArchivedTurn, Hit, Scope, TurnInfo
from turnflow.graph.archive_linked import FIELDS, best_hits, vector_bytes
from turnflow.graph.archive_search import MANY_TURNS, Term, common_from, prepared, query_terms, rank, rarest
from turnflow.graph.archive_turns import TEXT_LIMIT
from turnflow.graph.saver_connection import SaverConnection
from turnflow.graph.saver_values import is_readable, packed, unpacked
from turnflow.graph.text import storable

T = TypeVar("T")

_PAGE = 400
"""Keys per statement."""

_COLUMNS = ", ".join(FIELDS)

# A line is a run of turns of which each follows the one before; its number is the `seq` of its first. Where
# a turn is followed a second time, a new line begins. So a conversation that was never forked is one line,
# and a walk takes a step for each fork, however many turns there are.
_LINES = """WITH RECURSIVE lines (line, until) AS (
    SELECT line, position FROM turnflow_archive WHERE thread_id = :thread AND graph = :graph AND key = :head
    UNION
    SELECT before.line, before.position FROM lines
    CROSS JOIN turnflow_archive AS start ON start.seq = lines.line
    CROSS JOIN turnflow_archive AS before ON before.thread_id = :thread AND before.graph = :graph
        AND before.key = start.parent AND before.position < start.position
)"""

_ON_LINE = f"""{_LINES} SELECT {{columns}} FROM lines CROSS JOIN turnflow_archive AS turn
ON turn.thread_id = :thread AND turn.graph = :graph AND turn.line = lines.line
AND turn.position BETWEEN :first AND min(lines.until, :last) ORDER BY turn.position"""  # noqa: S608 (constants)

_SEARCH = f"""{_LINES} SELECT turn.key, turn.position, -bm25(turnflow_words, 0.0, 1.0) AS score
FROM turnflow_words CROSS JOIN turnflow_archive AS turn ON turn.seq = turnflow_words.rowid
CROSS JOIN lines ON turn.line = lines.line AND turn.position <= min(lines.until, :last)
WHERE turnflow_words MATCH :query AND turn.thread_id = :thread AND turn.graph = :graph
ORDER BY score DESC, turn.position DESC LIMIT :limit"""  # noqa: S608 (constants)

_POSITION = "SELECT position FROM turnflow_archive WHERE thread_id = ? AND graph = ? AND key = ?"

_COUNT = """SELECT count(*) FROM
(SELECT 1 FROM turnflow_words WHERE turnflow_words MATCH ? LIMIT ?)"""

_VECTORS = f"""{_LINES} SELECT turn.key, turn.position, vector.type, vector.value
FROM lines CROSS JOIN turnflow_archive AS turn ON turn.thread_id = :thread AND turn.graph = :graph
AND turn.line = lines.line AND turn.position <= min(lines.until, :last)
JOIN turnflow_vectors AS vector ON vector.thread_id = :thread AND vector.graph = :graph
AND vector.model = :model AND vector.key = turn.key ORDER BY turn.position"""  # noqa: S608 (constants)

_FIND_LINE = """SELECT tip.line FROM turnflow_archive AS tip
WHERE tip.thread_id = ?1 AND tip.graph = ?2 AND tip.key = ?3 AND tip.position < ?4 AND NOT EXISTS (
    SELECT 1 FROM turnflow_archive AS next WHERE next.thread_id = ?1 AND next.graph = ?2
    AND next.line = tip.line AND next.position > tip.position)"""

_PUT = f"""INSERT OR IGNORE INTO turnflow_archive
(thread_id, graph, {_COLUMNS}, line, type, value, text_type, text, indexed)
VALUES (?, ?, {", ".join("?" * len(FIELDS))}, ?, ?, ?, ?, ?, ?)"""  # noqa: S608 (constants)

_INDEX = "INSERT INTO turnflow_words (rowid, scope, text) VALUES (?, ?, ?)"

_UNINDEX = "INSERT INTO turnflow_words (turnflow_words, rowid, scope, text) VALUES ('delete', ?, ?, ?)"


class ArchiveStore(SqliteSaver):
    """The part of the saver that keeps turns; an `Archive`."""

    _connection: SaverConnection

    def put_turn(self, scope: Scope, turn: ArchivedTurn, text: str) -> None:
        """Keep a turn, and its `text` for searches; nothing happens if its key is there."""
        words = prepared(text[:TEXT_LIMIT])
        is_indexed = self._connection.has_index and is_readable(self.serde)
        columns = (*packed(self.serde, turn["messages"]), *packed(self.serde, words), is_indexed)
        info = tuple(_stored(cast("Any", turn)[field]) for field in FIELDS)
        place = _place(scope)
        with self.cursor() as cursor:
            if cursor.execute(
                "SELECT 1 FROM turnflow_archive WHERE thread_id = ? AND graph = ? AND key = ?",
                (*place, _stored(turn["key"])),
            ).fetchone():
                return
            parent = (*place, _stored(turn["parent"]), turn["position"])
            found = cursor.execute(_FIND_LINE, parent).fetchone()
            cursor.execute(_PUT, (*place, *info, found[0] if found else 0, *columns))
            seq = cursor.lastrowid
            if found is None:
                cursor.execute("UPDATE turnflow_archive SET line = seq WHERE seq = ?", (seq,))
            if is_indexed:
                cursor.execute(_INDEX, (seq, _token(place), words))

    def known_turns(self, scope: Scope, keys: Sequence[str]) -> dict[str, TurnInfo]:
        """Those of the keys that are there."""
        return {row[0]: _info(row) for row in self._by_key(scope, keys, _COLUMNS)}

    def turn_infos(self, scope: Scope, head: str, first: int = 0, last: int | None = None) -> list[TurnInfo]:
        """The turns from one position to another, both included, oldest first."""
        return [_info(row) for row in self._on_line(scope, head, first, last, _COLUMNS)]

    def read_turns(
        self, scope: Scope, head: str, first: int = 0, last: int | None = None
    ) -> list[ArchivedTurn]:
        """The same, with their messages."""
        return [
            self._turn(row) for row in self._on_line(scope, head, first, last, f"{_COLUMNS}, type, value")
        ]

    def read_keys(self, scope: Scope, keys: Sequence[str]) -> list[ArchivedTurn]:
        """Turns by key, oldest first; unknown keys are passed over."""
        rows = self._by_key(scope, keys, f"{_COLUMNS}, type, value")
        return sorted((self._turn(row) for row in rows), key=lambda turn: turn["position"])

    def search_turns(self, scope: Scope, head: str, query: str, limit: int, before: int) -> list[Hit]:
        """The turns before a position whose text shares words with a query, best first."""
        terms = query_terms(query)
        if not terms or limit <= 0 or before <= 0 or not head:
            return []
        if not self._connection.has_index or not is_readable(self.serde):
            return self._scan(scope, head, query, limit, before)
        self._index_rest(scope)
        place = _place(scope)
        named = {**_named(scope, head), "last": before - 1, "limit": limit}
        with self.cursor(transaction=False) as cursor:
            position = cursor.execute(_POSITION, (*place, _stored(head))).fetchone()
            if position and position[0] >= MANY_TURNS:
                terms = _telling(cursor, place, terms, position[0] + 1)
            if not terms:
                return []
            rows = cursor.execute(_SEARCH, {**named, "query": _match(place, terms)}).fetchall()
        return [{"key": key, "position": position, "score": score} for key, position, score in rows]

    def put_vectors(self, scope: Scope, model: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of turns, by key; `model` names the embedding model."""
        place = (*_place(scope), _stored(model))
        rows = [
            (*place, _stored(key), *self.serde.dumps_typed(vector_bytes(vector)))
            for key, vector in vectors.items()
        ]
        with self.cursor() as cursor:
            cursor.executemany(
                "INSERT OR REPLACE INTO turnflow_vectors (thread_id, graph, model, key, type, value) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def read_vectors(self, scope: Scope, head: str, model: str, before: int) -> dict[str, tuple[int, bytes]]:
        """Position and vector (little-endian 32-bit floats) of the turns before a position, by key."""
        named = {**_named(scope, head), "model": _stored(model), "last": before - 1}
        with self.cursor(transaction=False) as cursor:
            rows = cursor.execute(_VECTORS, named).fetchall()
        return {key: (position, self.serde.loads_typed((kind, value))) for key, position, kind, value in rows}

    def _on_line(self, scope: Scope, head: str, first: int, last: int | None, columns: str) -> list[Any]:
        named = {**_named(scope, head), "first": first, "last": _LAST if last is None else last}
        with self.cursor(transaction=False) as cursor:
            return cursor.execute(_ON_LINE.format(columns=_of_turn(columns)), named).fetchall()

    def _by_key(self, scope: Scope, keys: Sequence[str], columns: str) -> list[Any]:
        found: list[Any] = []
        with self.cursor(transaction=False) as cursor:
            for page in _pages(dict.fromkeys(_stored(key) for key in keys)):
                query = (
                    f"SELECT {columns} FROM turnflow_archive WHERE thread_id = ? AND graph = ? "  # noqa: S608
                    f"AND key IN ({', '.join('?' * len(page))})"
                )
                found += cursor.execute(query, (*_place(scope), *page)).fetchall()
        return found

    def _scan(self, scope: Scope, head: str, query: str, limit: int, before: int) -> list[Hit]:
        """A search without an index: by the words of all turns of the line."""
        rows = self._on_line(scope, head, 0, before - 1, f"{_COLUMNS}, text_type, text")
        texts = ((row[0], unpacked(self.serde, *row[-2:])) for row in rows)
        return best_hits([_info(row) for row in rows], rank(texts, query), limit)

    def _index_rest(self, scope: Scope) -> None:
        """Index what a Python without full-text search, or a saver that encrypts, has archived."""
        query = (
            "SELECT seq, text_type, text FROM turnflow_archive "
            "WHERE thread_id = ? AND graph = ? AND NOT indexed LIMIT ?"
        )
        with self.cursor(transaction=False) as cursor:
            if cursor.execute(query, (*_place(scope), 1)).fetchone() is None:
                return
        with self.cursor() as cursor:
            for seq, kind, text in cursor.execute(query, (*_place(scope), -1)).fetchall():
                cursor.execute(_INDEX, (seq, _token(_place(scope)), unpacked(self.serde, kind, text)))
                cursor.execute("UPDATE turnflow_archive SET indexed = 1 WHERE seq = ?", (seq,))

    def _forget_archive(self, cursor: sqlite3.Cursor, thread_id: str) -> None:
        """Take a thread's turns out of the index, before their rows go."""
        if not self._connection.has_index:
            return
        query = "SELECT seq, graph, text_type, text FROM turnflow_archive WHERE thread_id = ? AND indexed"
        for seq, graph, kind, text in cursor.execute(query, (thread_id,)).fetchall():
            words = unpacked(self.serde, kind, text)
            cursor.execute(_UNINDEX, (seq, _token((thread_id, graph)), words))

    def _copy_archive(self, cursor: sqlite3.Cursor, source: str, target: str) -> None:
        """Give a thread the turns and vectors of another one, in its transaction."""
        found = "SELECT seq, line FROM turnflow_archive WHERE thread_id = ? ORDER BY seq"
        rows = cursor.execute(found, (source,)).fetchall()
        newest = cursor.execute("SELECT coalesce(max(seq), 0) FROM turnflow_archive").fetchone()[0]
        fresh = {seq: newest + place for place, (seq, _) in enumerate(rows, start=1)}
        columns = f"{_COLUMNS}, type, value, text_type, text, indexed"
        cursor.executemany(
            f"INSERT INTO turnflow_archive (seq, line, thread_id, graph, {columns}) "  # noqa: S608 (constants)
            f"SELECT ?, ?, ?, graph, {columns} FROM turnflow_archive WHERE seq = ?",
            [(fresh[seq], fresh[line], target, seq) for seq, line in rows],
        )
        cursor.execute(
            "INSERT INTO turnflow_vectors (thread_id, graph, model, key, type, value) "
            "SELECT ?, graph, model, key, type, value FROM turnflow_vectors WHERE thread_id = ?",
            (target, source),
        )
        query = "SELECT seq, graph, text_type, text FROM turnflow_archive WHERE thread_id = ? AND indexed"
        for seq, graph, kind, text in cursor.execute(query, (target,)).fetchall():
            if self._connection.has_index:
                cursor.execute(_INDEX, (seq, _token((target, graph)), unpacked(self.serde, kind, text)))
            else:
                cursor.execute("UPDATE turnflow_archive SET indexed = 0 WHERE seq = ?", (seq,))

    def _turn(self, row: Sequence[Any]) -> ArchivedTurn:
        return cast("ArchivedTurn", {**_info(row), "messages": unpacked(self.serde, *row[-2:])})


_LAST = 2**62
"""A position behind all turns."""


def _place(scope: Scope) -> tuple[str, str]:
    return storable(scope.thread_id), storable(scope.graph)


def _named(scope: Scope, head: str) -> dict[str, Any]:
    thread_id, graph = _place(scope)
    return {"thread": thread_id, "graph": graph, "head": _stored(head)}


def _stored(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _info(row: Sequence[Any]) -> TurnInfo:
    return cast("TurnInfo", dict(zip(FIELDS, row, strict=False)))


def _of_turn(columns: str) -> str:
    return ", ".join(f"turn.{column}" for column in columns.split(", "))


def _pages(keys: Iterable[T]) -> Iterator[list[T]]:
    left = iter(keys)
    while page := list(islice(left, _PAGE)):
        yield page


def _token(place: Sequence[str]) -> str:
    """A word that stands for thread and graph, so that a search reads no other's words."""
    return blake2b("\0".join(place).encode(), digest_size=10).hexdigest()


def _match(place: Sequence[str], terms: Sequence[Term]) -> str:
    """An FTS5 query; terms hold letters and digits only, so that nothing in them is syntax."""
    words = " OR ".join(f'"{term.word}"{" *" if term.is_prefix else ""}' for term in terms)
    return f'scope : "{_token(place)}" AND text : ({words})'


def _telling(cursor: sqlite3.Cursor, place: Sequence[str], terms: Sequence[Term], turns: int) -> list[Term]:
    """The terms to search for in a long conversation: with the common ones nearly every turn would be scored.

    Args:
        cursor: In a transaction.
        place: Thread and graph.
        terms: All terms of the query.
        turns: How many turns there are, about.
    """
    most = common_from(turns)

    def count(term: Term, limit: int) -> int:
        return int(cursor.execute(_COUNT, (_match(place, [term]), limit)).fetchone()[0])

    counts = {term: count(term, most) for term in terms}
    common = [term for term in terms if counts[term] == most]
    rare = {term: counts[term] for term in terms if counts[term] < most}
    return rarest(rare, lambda: {term: count(term, -1) for term in common})
