"""The memory that is the last turns alone."""

from __future__ import annotations

from collections.abc import Sequence

from turnflow.graph.memory import RECENT_TURNS, Recalled
from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.memory.checks import check_whole


class WindowMemory:
    """Shows the last turns, and what is pinned; nothing else.

    Args:
        recent_turns: How many of the last turns are shown word for word, the current one not counted.

    Raises:
        ValueError: It is no such number.
    """

    summary_after: int | None = None

    def __init__(self, recent_turns: int = RECENT_TURNS) -> None:
        self.recent_turns = check_whole("recent_turns", recent_turns)

    def recall(self, query: str, record: Past, budget: int) -> Sequence[Recalled]:  # noqa: ARG002 - the protocol's
        """Nothing."""
        return []
