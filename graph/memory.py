"""Memory: what of the conversation before the window goes into a request (docs/memory.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from turnflow.graph.past import Past


class Recalled(TypedDict):
    """A piece of the conversation before the window that a memory brings back. Untrusted text."""

    key: str
    """The archived turn's key; no turn is recalled twice."""
    position: int
    """Where that turn stands in the conversation, from 0."""
    time: float
    """When it ended, in seconds since the epoch."""
    text: str
    """What the model is shown of it."""


class Memory(Protocol):
    """A memory strategy. Any object with `recall` is one; the other attributes have defaults.

    Attributes:
        recent_turns: How many of the last turns are shown word for word; 10 where it is missing. The current
            turn is not counted. More are shown while they wait for a summary.
        summary_after: Once more messages than this stand before the current turn and are in no summary, those
            before the last `recent_turns` are summed up; None, or missing: never, and nothing before those
            turns is shown.
    """

    recent_turns: int
    summary_after: int | None

    def recall(
        self, query: str, record: Past, budget: int
    ) -> Sequence[Recalled] | Awaitable[Sequence[Recalled]]:
        """What of the past belongs to a question.

        A plain function runs in a worker thread where the run is async. What it raises is an event, and the
        turn goes on without.

        Args:
            query: The text of the user's new message.
            record: The conversation before the turns that are shown word for word.
            budget: Tokens that may be used, as `record.counter` counts.
        """


MEMORY_NAMES = ("window", "summary", "vector", "hybrid")
"""The strategies that come along, by name."""

RECENT_TURNS = 10
"""`recent_turns` where a memory does not say."""


def recent_turns(memory: object) -> int:
    """How many turns before the current one a memory wants to be shown word for word."""
    return int(getattr(memory, "recent_turns", RECENT_TURNS))


def sums_up(memory: object) -> bool:
    """Whether a memory has what is older than its recent turns summed up."""
    return getattr(memory, "summary_after", None) is not None
