"""Several rankings as one: reciprocal rank fusion, with a gentle preference for what is newer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

RANK_CONSTANT = 60
"""Added to each rank, so that the first places of one ranking do not outweigh being in both."""
RECENCY = 0.25
"""What the place in the order of time counts for, next to a ranking."""


def fused(rankings: Sequence[Sequence[str]], positions: Mapping[str, int]) -> list[str]:
    """The keys of all rankings, best first.

    Each place in a ranking is worth 1 / (60 + place), from 1; the newest key comes first in a ranking of a
    quarter of the weight. Where two are worth the same, the newer one comes first.

    Args:
        rankings: Keys, best first, none twice within one.
        positions: Where each key stands in the conversation.
    """
    newest_first = sorted(
        {key for ranking in rankings for key in ranking}, key=lambda key: (-positions[key], key)
    )
    worth = {key: RECENCY / (RANK_CONSTANT + place) for place, key in enumerate(newest_first, start=1)}
    for ranking in rankings:
        for place, key in enumerate(ranking, start=1):
            worth[key] += 1 / (RANK_CONSTANT + place)
    return sorted(newest_first, key=lambda key: -worth[key])
