"""The archive: every turn that is over, outside the checkpointed state (docs/archive.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict


class Scope(NamedTuple):
    """Whose turns these are."""

    thread_id: str
    graph: str
    """Where the turn graph stands in its parents: its checkpoint namespace without task ids; '' for none."""


class TurnInfo(TypedDict):
    """An archived turn without its messages."""

    key: str
    """The turn's id and a digest of its messages: the same turn with other messages has another key."""
    turn_id: str
    input_id: str
    """Id of the user message that it begins with."""
    parent: str
    """Key of the turn before it; '' for the first. So branches share their beginning."""
    position: int
    """0 for the first turn of the conversation."""
    status: str
    """The outcome's status, `abandoned`, or `given` for a turn that came with the input."""
    time: float
    """When it ended, in seconds since the epoch; when it was archived, for one given or abandoned."""
    message_count: int
    """User messages and replies without calls: what a reader of the conversation sees."""


class ArchivedTurn(TurnInfo):
    """An archived turn."""

    messages: list[AnyMessage]


class Hit(TypedDict):
    """A turn that a search found."""

    key: str
    position: int
    score: float
    """Larger is better; comparable within one search only."""


class Archive(Protocol):
    """Keeps turns. Methods block, and are called from worker threads where a run is async.

    `head` is the key of the newest turn of a line; only turns on the line that leads to it count.
    """

    def put_turn(self, scope: Scope, turn: ArchivedTurn, text: str) -> None:
        """Keep a turn, and its `text` for searches; nothing happens if its key is there."""

    def known_turns(self, scope: Scope, keys: Sequence[str]) -> dict[str, TurnInfo]:
        """Those of the keys that are there."""

    def turn_infos(self, scope: Scope, head: str, first: int = 0, last: int | None = None) -> list[TurnInfo]:
        """The turns from one position to another, both included, oldest first."""

    def read_turns(
        self, scope: Scope, head: str, first: int = 0, last: int | None = None
    ) -> list[ArchivedTurn]:
        """The same, with their messages."""

    def read_keys(self, scope: Scope, keys: Sequence[str]) -> list[ArchivedTurn]:
        """Turns by key, oldest first; unknown keys are passed over."""

    def search_turns(self, scope: Scope, head: str, query: str, limit: int, before: int) -> list[Hit]:
        """The turns before a position whose text shares words with a query, best first."""

    def put_vectors(self, scope: Scope, model: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep the vectors of turns, by key; `model` names the embedding model."""

    def read_vectors(self, scope: Scope, head: str, model: str, before: int) -> dict[str, tuple[int, bytes]]:
        """Position and vector (little-endian 32-bit floats) of the turns before a position, by key."""


def scope_of(thread_id: str, namespace: str) -> Scope:
    """The scope of a run, from its thread and its checkpoint namespace (`node:task|node:task`)."""
    return Scope(thread_id, "|".join(part.partition(":")[0] for part in namespace.split("|") if part))
