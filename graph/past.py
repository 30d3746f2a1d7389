"""The conversation before the window, as a memory sees it (docs/memory.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnflow.graph.archive import Archive, ArchivedTurn, Hit, Scope, TurnInfo
from turnflow.graph.tokens import TokenCounter


@dataclass(frozen=True)
class Past:
    """The turns of a conversation before the first one that is shown word for word.

    Its methods block; a memory's plain `recall` is called in a worker thread where the run is async.

    Attributes:
        archive: Where the turns are kept.
        scope: Whose they are.
        head: Key of the newest archived turn of this line of the conversation; '' where there is none.
        before: Position of the first turn that is shown word for word; only turns before it count.
        counter: Counts tokens as the planner does.
        user_said: How a user's text is introduced, with `{text}`.
        assistant_said: How a reply is introduced, with `{text}`.
    """

    archive: Archive
    scope: Scope
    head: str
    before: int
    counter: TokenCounter
    user_said: str = "User: {text}"
    assistant_said: str = "Assistant: {text}"

    def infos(self, first: int = 0, last: int | None = None) -> list[TurnInfo]:
        """The turns from one position to another, both included, oldest first, without their messages."""
        end = self.before - 1 if last is None else min(last, self.before - 1)
        return (
            self.archive.turn_infos(self.scope, self.head, first, end) if self.head and end >= first else []
        )

    def read(self, keys: Sequence[str]) -> list[ArchivedTurn]:
        """Turns by key, oldest first."""
        return self.archive.read_keys(self.scope, keys) if keys else []

    def search(self, query: str, limit: int) -> list[Hit]:
        """The turns whose text shares words with a query, best first."""
        if not self.head or self.before <= 0:
            return []
        return self.archive.search_turns(self.scope, self.head, query, limit, self.before)

    def vectors(self, model: str) -> dict[str, tuple[int, bytes]]:
        """Position and vector (little-endian 32-bit floats) by key, of the turns that have one."""
        if not self.head or self.before <= 0:
            return {}
        return self.archive.read_vectors(self.scope, self.head, model, self.before)

    def keep_vectors(self, model: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep vectors by key."""
        self.archive.put_vectors(self.scope, model, vectors)
