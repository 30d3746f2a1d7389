"""What is measured: the turns, the ways of storing them, and their combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from langgraph.types import Durability

from turnflow.graph.saver import Synchronous

Mode = Literal["sync", "async"]

MODES: tuple[Mode, ...] = ("sync", "async")
SYSTEM = "You are a helpful assistant."
QUESTION = "Hello."
ANSWER = "done"


@dataclass(frozen=True)
class Case:
    """A turn: `rounds` replies that call the tool `calls` times each, then the answer."""

    rounds: int
    calls: int = 1

    @property
    def name(self) -> str:
        return f"{self.rounds}x{self.calls}"

    @property
    def results(self) -> int:
        """How many tool results the turn has."""
        return self.rounds * self.calls


@dataclass(frozen=True)
class Store:
    """How checkpoints are stored: not at all, or in a SQLite file with this `synchronous` and durability."""

    name: str
    synchronous: Synchronous | None = None
    durability: Durability | None = None

    @property
    def title(self) -> str:
        if self.synchronous is None:
            return "no saver"
        return f"SQLite synchronous={self.synchronous}, durability={self.durability}"


@dataclass(frozen=True)
class Group:
    """What is compared with each other: the same turn, stored the same way, called the same way."""

    mode: Mode
    case: Case
    store: Store


CASES = {case.name: case for case in (Case(0), Case(1), Case(10), Case(1, 10))}
STORES = {
    store.name: store
    for store in (
        Store("none"),
        Store("normal", "NORMAL", "sync"),
        Store("full", "FULL", "sync"),
        Store("normal+async", "NORMAL", "async"),
        Store("full+async", "FULL", "async"),
    )
}
