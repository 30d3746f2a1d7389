"""Sees a model that goes in circles: the same calls that give the same results (docs/loops.md). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, NamedTuple

NOTE_AT = 3
FIRM_AT = 5
STOP_AT = 8
"""Times that the same has happened when the model is told, is told firmly, and is stopped."""

LONGEST_CYCLE = 4
"""Rounds after which a cycle begins again, at most."""
ROUNDS_KEPT = STOP_AT * LONGEST_CYCLE
"""Rounds that are remembered: the longest cycle stops the turn at its eighth time, which takes 32 rounds to
see; within 24 it could be seen six times only."""
CALLS_KEPT = 24
"""Calls that are remembered one by one, for those that come back while others stand between them."""
RECENT_CALLS = CALLS_KEPT // 2
"""Calls of which none is new where nothing moves on."""

Entry = Sequence[str]
"""A call: its key and its result, two strings."""
Level = Literal["note", "firm", "stop"]
_LEVELS: tuple[Level, ...] = ("note", "firm", "stop")


WatchedRound = list[str]
"""A round, as the window keeps it: a digest of each call with its result, and before them, where there are
several, one of them all. Those of old rounds are dropped, but for the first."""


@dataclass(frozen=True)
class Circle:
    """What goes round.

    Attributes:
        level: What is to be done about it.
        count: Times that it has happened.
        length: Rounds after which it begins again; 0 for a call that comes back while others stand between.
    """

    level: Level
    count: int
    length: int


@dataclass(frozen=True)
class Watched:
    """The window with a round more, and the circle that this round is part of, if it is."""

    window: list[WatchedRound]
    circle: Circle | None = None


def digest(text: str) -> str:
    """A short name of a text: 12 hexadecimal digits, equal for equal texts."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def watch(window: Sequence[WatchedRound], new_entries: Sequence[Entry]) -> Watched:
    """Take in the calls of a round.

    Neither the order of the calls in their round counts, nor that one was sent twice in it. A call with
    another result is another entry, so what moves on is no circle.

    Args:
        window: What the last `watch` of the turn gave, `[]` at its start.
        new_entries: Key and result of each call of the round, those that were refused too. A round without
            any changes nothing.
    """
    if not new_entries:
        return Watched(list(window))
    calls = sorted({digest(f"{key} {result}") for key, result in new_entries})
    newest = calls if len(calls) == 1 else [digest(" ".join(calls)), *calls]
    rounds = _trimmed([*window, newest])
    tail = _tail([each[0] for each in rounds])
    circles = [_circle(tail.times, tail.length), *_returning(rounds, tail)]
    return Watched(rounds, max(filter(None, circles), key=_weight, default=None))


def _calls(watched: WatchedRound) -> list[str]:
    return watched if len(watched) == 1 else watched[1:]


def _trimmed(rounds: Sequence[WatchedRound]) -> list[WatchedRound]:
    """The last rounds, and of their calls the last."""
    left = CALLS_KEPT
    kept: list[WatchedRound] = []
    for each in reversed(rounds[-ROUNDS_KEPT:]):
        calls = each[1:][-left:] if left > 0 else []
        left -= max(1, len(calls))
        kept.append([each[0], *calls])
    return kept[::-1]


class _Tail(NamedTuple):
    """The longest stretch of last rounds in which each equals the one `length` rounds before it."""

    length: int
    rounds: int

    @property
    def times(self) -> int:
        """How often the cycle is there, whole."""
        return self.rounds // self.length


def _tail(ids: Sequence[str]) -> _Tail:
    """The tail whose cycle is there most often; of equal ones that with the shortest cycle."""
    tails = [_Tail(length, length + _matches(ids, length)) for length in range(1, LONGEST_CYCLE + 1)]
    return max(tails, key=lambda tail: tail.times)


def _matches(ids: Sequence[str], length: int) -> int:
    """How many of the last rounds in a row equal the one `length` rounds before them."""
    pairs = zip(reversed(ids), reversed(ids[:-length]), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _returning(rounds: Sequence[WatchedRound], tail: _Tail) -> Iterator[Circle | None]:
    """The circles of the newest round's calls that came before, whatever stands between.

    What the cycle at the end tells already is left to it: it counts whole cycles. Where something new came
    among the last calls, nobody is stopped: a test that is run after each change gives the same result many
    times.
    """
    seen = [(place, call) for place, each in enumerate(rounds) for call in _calls(each)][-CALLS_KEPT:]
    moves_on = _moves_on([call for _, call in seen])
    for call in dict.fromkeys(_calls(rounds[-1])):
        places = [place for place, other in seen if other == call]
        if not places:
            continue
        in_cycle = len(rounds) - places[0] <= tail.rounds and len(places) <= tail.times + 1
        if tail.times == 1 or not in_cycle:
            yield _circle(len(places), 0, moves_on=moves_on)


def _moves_on(calls: Sequence[str]) -> bool:
    """Whether one of the last calls is new, among those that are remembered."""
    return not set(calls[-RECENT_CALLS:]) <= set(calls[:-RECENT_CALLS])


def _circle(times: int, length: int, *, moves_on: bool = False) -> Circle | None:
    if times < NOTE_AT:
        return None
    if moves_on or times < FIRM_AT:
        return Circle("note", times, length)
    return Circle("stop" if times >= STOP_AT else "firm", times, length)


def _weight(circle: Circle) -> tuple[int, int]:
    return _LEVELS.index(circle.level), circle.count
