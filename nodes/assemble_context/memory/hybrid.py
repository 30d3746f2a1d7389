"""The memory that joins a summary, recall by words and by meaning, and the last turns."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from turnflow.graph.archive import Hit
from turnflow.graph.memory import Recalled
from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.memory.checks import (
    RECALLED_TURNS,
    RECENT_SUMMED_UP,
    SUMMARY_AFTER,
    check_embeddings,
    check_similarity,
    check_summary_after,
    check_whole,
)
from turnflow.nodes.assemble_context.memory.fitting import SPARE, head_and_tail, recalled_turns
from turnflow.nodes.assemble_context.memory.fusion import fused
from turnflow.nodes.assemble_context.memory.turn_vectors import MIN_SIMILARITY, similar_turns

MAX_QUERY_CHARS = 2000
"""Characters of a message that are searched for; of a longer one the head and the tail."""
MIN_SCORE = 0.4
"""A turn found by words counts if its score is at least this part of the best one's."""


class HybridMemory:
    """Shows the last turns, a summary of those before, and turns that the new message calls to mind.

    Turns are found by the words they share with the message and, where embeddings are given, by meaning; both
    rankings are fused, newer turns a little before older ones.

    Args:
        embeddings: LangChain `Embeddings`, or None. What they raise in a turn is an event; the turn goes on
            without recalled turns.
        recent_turns: How many of the last turns are shown word for word, the current one not counted.
            More are shown while they wait for a summary.
        summary_after: Once more messages than this stand before the current turn and are in no summary, those
            before the recent turns are summed up; None: only where a request becomes too full.
        k: How many turns are recalled, at most.
        min_similarity: The least cosine between a turn and the message, from 0 to 1.

    Raises:
        ValueError: One of them is not what it should be; the text names it.
        ImportError: Embeddings are given and numpy is not installed; the text names the extra.
    """

    def __init__(
        self,
        embeddings: Embeddings | None = None,
        recent_turns: int = RECENT_SUMMED_UP,
        summary_after: int | None = SUMMARY_AFTER,
        k: int = RECALLED_TURNS,
        *,
        min_similarity: float = MIN_SIMILARITY,
    ) -> None:
        self.embeddings = None if embeddings is None else check_embeddings(embeddings)
        self.recent_turns = check_whole("recent_turns", recent_turns)
        self.summary_after = check_summary_after(summary_after)
        self.k = check_whole("k", k, 1)
        self.min_similarity = check_similarity(min_similarity)

    def recall(self, query: str, record: Past, budget: int) -> Sequence[Recalled]:
        """The turns that the query calls to mind, oldest first."""
        if not query.strip():
            return []
        limit = SPARE * self.k
        rankings = [_telling(record.search(head_and_tail(query, MAX_QUERY_CHARS), limit))]
        if self.embeddings is not None:
            rankings.append(
                similar_turns(self.embeddings, query, record, limit=limit, min_similarity=self.min_similarity)
            )
        positions = {key: position for ranking in rankings for key, position in ranking}
        best_first = fused([_keys(ranking) for ranking in rankings], positions)
        return recalled_turns(best_first, record, self.k, budget)


def _telling(hits: Sequence[Hit]) -> list[tuple[str, int]]:
    """The hits that share more with the query than a word that is everywhere."""
    least = MIN_SCORE * max((hit["score"] for hit in hits), default=0)
    return [(hit["key"], hit["position"]) for hit in hits if hit["score"] >= least or least <= 0]


def _keys(ranking: Sequence[tuple[str, int]]) -> list[str]:
    return list(dict.fromkeys(key for key, _ in ranking))
