"""Recalled turns as a request holds them: each once, within the budget, in the order of time."""

from __future__ import annotations

from collections.abc import Sequence

from turnflow.graph.memory import Recalled
from turnflow.graph.past import Past
from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.assemble_context.memory.said import said_in

HEADING_TOKENS = 16
"""Tokens that are set aside for each recalled turn: the line that says when it was."""
CUT = " […] "
"""Stands in a shortened text where something is left out."""
SPARE = 3
"""Candidates that are read for each turn that is wanted, as some say nothing or what another one says."""

_MIN_CHARS = 40
"""Less than this of a long text says nothing."""


def recalled_turns(keys: Sequence[str], record: Past, k: int, budget: int) -> list[Recalled]:
    """Turns as they are recalled, oldest first.

    A turn that is shown anyway, one in which nothing was said, and one that says what a better one says are
    passed over. Where those left do not fit, the worst go; a single one that does not fit is shortened.

    Args:
        keys: Candidates, best first.
        record: Where they are read.
        k: How many turns may be recalled.
        budget: Tokens that they may take together.
    """
    turns = {turn["key"]: turn for turn in record.read(list(dict.fromkeys(keys))[: SPARE * k])}
    chosen: dict[str, Recalled] = {}
    for key in dict.fromkeys(keys):
        turn = turns.get(key)
        if len(chosen) >= k or turn is None or turn["position"] >= record.before:
            continue
        if text := said_in(turn, record):
            found: Recalled = {"key": key, "position": turn["position"], "time": turn["time"], "text": text}
            chosen.setdefault(text, found)
    return sorted(_fitting(list(chosen.values()), record.counter, budget), key=lambda each: each["position"])


def _fitting(best_first: list[Recalled], counter: TokenCounter, budget: int) -> list[Recalled]:
    costs = [HEADING_TOKENS + counter.text(each["text"]) for each in best_first]
    while len(costs) > 1 and sum(costs) > budget:
        costs.pop()
    kept = best_first[: len(costs)]
    if not kept or costs[0] <= budget:
        return kept
    text = shortened(kept[0]["text"], counter, budget - HEADING_TOKENS)
    return [{**kept[0], "text": text}] if text else []


def shortened(text: str, counter: TokenCounter, budget: int) -> str:
    """The head and the tail of a text that fit into a budget of tokens; '' where too little would be left."""
    low, high = 0, min(len(text), max(0, budget) * _MOST_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.text(head_and_tail(text, middle)) <= budget:
            low = middle
        else:
            high = middle - 1
    return head_and_tail(text, low) if low >= _MIN_CHARS else ""


_MOST_CHARS = 16
"""Characters that a token may have, for a search that need not begin at the length of a huge text."""


def head_and_tail(text: str, limit: int) -> str:
    """The text, or its head and tail of `limit` characters together, with a mark between them."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return text[: limit - tail] + CUT + text[len(text) - tail :]
