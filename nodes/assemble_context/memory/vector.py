"""The memory that recalls turns by what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from turnflow.graph.memory import RECENT_TURNS, Recalled
from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.memory.checks import (
    RECALLED_TURNS,
    check_embeddings,
    check_similarity,
    check_whole,
)
from turnflow.nodes.assemble_context.memory.fitting import SPARE, recalled_turns
from turnflow.nodes.assemble_context.memory.turn_vectors import MIN_SIMILARITY, similar_turns


class VectorMemory:
    """Shows the last turns, and of those before the ones whose meaning is like the new message's.

    Args:
        embeddings: LangChain `Embeddings`. What they raise in a turn is an event; the turn goes on without
            recalled turns.
        recent_turns: How many of the last turns are shown word for word, the current one not counted.
        k: How many turns are recalled, at most.
        min_similarity: The least cosine between a turn and the message, from 0 to 1.

    Raises:
        ValueError: One of them is not what it should be; the text names it.
        ImportError: numpy is not installed; the text names the extra.
    """

    summary_after: int | None = None

    def __init__(
        self,
        embeddings: Embeddings,
        recent_turns: int = RECENT_TURNS,
        k: int = RECALLED_TURNS,
        *,
        min_similarity: float = MIN_SIMILARITY,
    ) -> None:
        self.embeddings = check_embeddings(embeddings)
        self.recent_turns = check_whole("recent_turns", recent_turns)
        self.k = check_whole("k", k, 1)
        self.min_similarity = check_similarity(min_similarity)

    def recall(self, query: str, record: Past, budget: int) -> Sequence[Recalled]:
        """The turns that are most like the query, oldest first."""
        found = similar_turns(
            self.embeddings, query, record, limit=SPARE * self.k, min_similarity=self.min_similarity
        )
        return recalled_turns([key for key, _ in found], record, self.k, budget)
