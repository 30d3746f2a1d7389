"""An archive of turns that each know the one before: what back ends without a query language share."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from turnflow.graph.archive import ArchivedTurn, Hit, Scope, TurnInfo
from turnflow.graph.archive_search import prepared, rank
from turnflow.graph.archive_turns import TEXT_LIMIT

FIELDS = ("key", "turn_id", "input_id", "parent", "position", "status", "time", "message_count")

_FEW = 64
"""Turns that are looked up one by one; for more, all of the conversation are read."""


def vector_bytes(vector: Sequence[float]) -> bytes:
    """A vector as little-endian 32-bit floats."""
    floats = array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


class LinkedArchive(ABC):
    """An `Archive` over items that are read by key, or all at once."""

    @abstractmethod
    def _info(self, scope: Scope, key: str) -> TurnInfo | None: ...

    @abstractmethod
    def _all(self, scope: Scope) -> dict[str, tuple[TurnInfo, str]]:
        """All turns with their texts for searches, by key."""

    @abstractmethod
    def _messages(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[AnyMessage]]: ...

    @abstractmethod
    def _keep(self, scope: Scope, info: TurnInfo, text: str, messages: list[AnyMessage]) -> None: ...

    @abstractmethod
    def _vectors(self, scope: Scope, model: str) -> dict[str, bytes]: ...

    @abstractmethod
    def _keep_vectors(self, scope: Scope, model: str, vectors: Mapping[str, bytes]) -> None: ...

    def put_turn(self, scope: Scope, turn: ArchivedTurn, text: str) -> None:
        """Keep a turn, and its `text` for searches; nothing happens if its key is there."""
        if self._info(scope, turn["key"]) is None:
            self._keep(scope, info_of(turn), prepared(text[:TEXT_LIMIT]), list(turn["messages"]))

    def known_turns(self, scope: Scope, keys: Sequence[str]) -> dict[str, TurnInfo]:
        """Those of the keys that are there."""
        found = {key: self._info(scope, key) for key in dict.fromkeys(keys)}
        return {key: info for key, info in found.items() if info is not None}

    def turn_infos(self, scope: Scope, head: str, first: int = 0, last: int | None = None) -> list[TurnInfo]:
        """The turns from one position to another, both included, oldest first."""
        return self._line(scope, head, first, last)

    def read_turns(
        self, scope: Scope, head: str, first: int = 0, last: int | None = None
    ) -> list[ArchivedTurn]:
        """The same, with their messages."""
        return self._whole(scope, self._line(scope, head, first, last))

    def read_keys(self, scope: Scope, keys: Sequence[str]) -> list[ArchivedTurn]:
        """Turns by key, oldest first; unknown keys are passed over."""
        infos = self.known_turns(scope, keys).values()
        return self._whole(scope, sorted(infos, key=lambda info: info["position"]))

    def search_turns(self, scope: Scope, head: str, query: str, limit: int, before: int) -> list[Hit]:
        """The turns before a position whose text shares words with a query, best first."""
        if limit <= 0 or before <= 0 or not head:
            return []
        everything = self._all(scope)
        line = _walk(head, 0, before - 1, {key: info for key, (info, _) in everything.items()}.get)
        return best_hits(
            line, rank(((info["key"], everything[info["key"]][1]) for info in line), query), limit
        )

    def put_vectors(self, scope: Scope, model: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of turns, by key; `model` names the embedding model."""
        self._keep_vectors(scope, model, {key: vector_bytes(vector) for key, vector in vectors.items()})

    def read_vectors(self, scope: Scope, head: str, model: str, before: int) -> dict[str, tuple[int, bytes]]:
        """Position and vector (little-endian 32-bit floats) of the turns before a position, by key."""
        if before <= 0 or not head:
            return {}
        known = self._vectors(scope, model)
        line = self._line(scope, head, 0, before - 1) if known else []
        return {info["key"]: (info["position"], known[info["key"]]) for info in line if info["key"] in known}

    def _whole(self, scope: Scope, infos: Sequence[TurnInfo]) -> list[ArchivedTurn]:
        messages = self._messages(scope, [info["key"] for info in infos])
        return [
            cast("ArchivedTurn", {**info, "messages": messages[info["key"]]})
            for info in infos
            if info["key"] in messages
        ]

    def _line(self, scope: Scope, head: str, first: int, last: int | None) -> list[TurnInfo]:
        newest = self._info(scope, head) if head else None
        if newest is None:
            return []
        if newest["position"] - first < _FEW:
            return _walk(head, first, last, lambda key: self._info(scope, key))
        return _walk(head, first, last, {key: info for key, (info, _) in self._all(scope).items()}.get)


def info_of(turn: Mapping[str, Any]) -> TurnInfo:
    """A turn without its messages."""
    return cast("TurnInfo", {field: turn[field] for field in FIELDS})


def best_hits(line: Sequence[TurnInfo], scores: Mapping[str, float], limit: int) -> list[Hit]:
    """The best of what a search found, the newer ones first where they are equally good."""
    hits: list[Hit] = [
        {"key": info["key"], "position": info["position"], "score": scores[info["key"]]}
        for info in line
        if info["key"] in scores
    ]
    return sorted(hits, key=lambda hit: (-hit["score"], -hit["position"]))[:limit]


def _walk(head: str, first: int, last: int | None, look_up: Any) -> list[TurnInfo]:
    """From the newest turn of a line back to a position; positions fall, whatever the items say."""
    found: list[TurnInfo] = []
    info, above = look_up(head), None
    while info is not None and info["position"] >= first and (above is None or info["position"] < above):
        above = info["position"]
        if last is None or above <= last:
            found.append(info)
        info = look_up(info["parent"]) if info["parent"] else None
    return found[::-1]
