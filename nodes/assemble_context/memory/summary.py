"""The memory that is a summary and the last turns."""

from __future__ import annotations

from collections.abc import Sequence

from turnflow.graph.memory import Recalled
from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.memory.checks import (
    RECENT_SUMMED_UP,
    SUMMARY_AFTER,
    check_summary_after,
    check_whole,
)


class SummaryMemory:
    """Shows the last turns, and a summary of those before; more go into it as they leave (docs/folding.md).

    Args:
        recent_turns: How many of the last turns are shown word for word, the current one not counted.
            More are shown while they wait for a summary.
        summary_after: Once more messages than this stand before the current turn and are in no summary, those
            before the recent turns are summed up; None: only where a request becomes too full.

    Raises:
        ValueError: One of them is no such number.
    """

    def __init__(
        self, recent_turns: int = RECENT_SUMMED_UP, summary_after: int | None = SUMMARY_AFTER
    ) -> None:
        self.recent_turns = check_whole("recent_turns", recent_turns)
        self.summary_after = check_summary_after(summary_after)

    def recall(self, query: str, record: Past, budget: int) -> Sequence[Recalled]:  # noqa: ARG002 - the protocol's
        """Nothing: the summary stands in the state."""
        return []
