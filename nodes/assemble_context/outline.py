"""The transcript as the planner sees it: turns, the current one, what stays and what may go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
)

from turnflow.graph.folds import effective_messages
from turnflow.graph.tool_names import ASK_USER
from turnflow.graph.transcript import is_input
from turnflow.graph.turns import TurnSpan, is_pinned, pinned_groups, turn_spans

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """A message that can be shown, and where it stands."""

    index: int
    """Its index in the transcript; -1 for one that the planner put there."""
    message: BaseMessage


class Outline:
    """A transcript in turns.

    Attributes:
        messages: The transcript.
        turns: The turns before the current one, oldest first.
        current: The current turn.
        has_input: Whether the current turn begins with a user message.
        summarised: So many of the first turns are summed up.
        first: So many of the first turns are not shown word for word, those summed up included.
        protected: The turns from here on are never left out as a whole.
        staying: By the start of a turn, the indexes of its messages that stay however old they are.
        starts: Where turns start, the current one the last.
        folded: Where turns start in which folds stand for something.
        unread: Results from this index on were not read by the model yet.
    """

    def __init__(
        self,
        messages: Sequence[BaseMessage],
        *,
        input_id: str,
        through_id: str,
        recent_turns: int | None,
        protected_turns: int,
        folds: Sequence[Any],
        fold_text: str,
    ) -> None:
        self.messages = messages
        self._folds = folds
        self._fold_text = fold_text
        spans = turn_spans(messages)
        current = _current(spans, input_id)
        self.turns = spans[:current]
        start = spans[current].start if spans else 0
        self.has_input = bool(spans) and is_input(messages[start])
        self.current = TurnSpan(start, len(messages), spans[current].input_id if spans else "")
        self.summarised = self._behind(through_id)
        recent = 0 if recent_turns is None else max(0, len(self.turns) - recent_turns)
        self.first = max(self.summarised, recent)
        self.protected = max(self.first, len(self.turns) - protected_turns + 1)
        self.unread = self._unread()
        self.starts = [*(span.start for span in self.turns), start]
        self.staying = self._staying()
        self.folded = self._folded()
        self._places: dict[int, list[Place]] = {}

    def slice(self, span: TurnSpan) -> Sequence[BaseMessage]:
        """A turn's messages."""
        return self.messages[span.start : span.end]

    def turn_of(self, index: int) -> int:
        """The turn of a message; the current one comes behind all others."""
        return bisect_right(self.starts, index) - 1

    def places(self, span: TurnSpan) -> list[Place]:
        """What can be shown of a turn, folds in place of what they stand for."""
        known = self._places.get(span.start)
        if known is None:
            known = self._places[span.start] = self._find_places(span)
        return known

    def _find_places(self, span: TurnSpan) -> list[Place]:
        if span.start not in self.folded:
            return [Place(span.start + at, message) for at, message in enumerate(self.slice(span))]
        members = self.slice(span)
        index_of = {id(message): span.start + at for at, message in enumerate(members)}
        pinned_ids = {self.messages[at].id for at in self.stays(span)}
        folds = [
            {**fold, "message_ids": [each for each in fold["message_ids"] if each not in pinned_ids]}
            for fold in self._folds
        ]
        shown = effective_messages(members, folds, self._fold_text)
        return [Place(index_of.get(id(message), -1), message) for message in shown]

    def stays(self, span: TurnSpan) -> frozenset[int]:
        """Indexes of a turn's messages that stay in each request, however old they are."""
        return self.staying.get(span.start, _NONE)

    def _behind(self, through_id: str) -> int:
        """How many turns end with the one that begins with this message; none where it is not there."""
        return next(
            (at + 1 for at, span in enumerate(self.turns) if through_id and span.input_id == through_id), 0
        )

    def _unread(self) -> int:
        at = len(self.messages)
        while at and not isinstance(self.messages[at - 1], AIMessage):
            at -= 1
        return at or len(self.messages)

    def _staying(self) -> dict[int, frozenset[int]]:
        """By the start of a turn, the indexes of what is pinned, and of system messages."""
        systems = {
            kind for kind in set(map(type, self.messages)) if issubclass(kind, SystemMessage | ChatMessage)
        }
        marked = [
            at
            for at, message in enumerate(self.messages)
            if (message.additional_kwargs and is_pinned(message))
            or (type(message) in systems and is_system(message))
        ]
        found: dict[int, frozenset[int]] = {}
        for turn in dict.fromkeys(map(self.turn_of, marked)):
            start = self.starts[turn]
            members = self.messages[start : [*self.starts, len(self.messages)][turn + 1]]
            kept = {id(message) for message in pinned_groups(members)}  # type: ignore[arg-type]
            found[start] = frozenset(
                start + place
                for place, message in enumerate(members)
                if id(message) in kept or (type(message) in systems and is_system(message))
            )
        return found

    def _folded(self) -> frozenset[int]:
        """Where turns start in which folds stand for something."""
        touched = {fold["after_id"] for fold in self._folds}
        touched.update(message_id for fold in self._folds for message_id in fold["message_ids"])
        if not touched:
            return _NONE
        return frozenset(
            self.starts[self.turn_of(at)] for at, message in enumerate(self.messages) if message.id in touched
        )


def _current(spans: Sequence[TurnSpan], input_id: str) -> int:
    """The index of the current turn: the one with this input, else the last."""
    for at in range(len(spans) - 1, -1, -1):
        if input_id and spans[at].input_id == input_id:
            return at
    return max(0, len(spans) - 1)


def is_system(message: BaseMessage) -> bool:
    """Whether a message becomes a part of the system prompt."""
    return isinstance(message, SystemMessage) or (
        isinstance(message, ChatMessage) and message.role in {"system", "developer"}
    )


def rounds_of(places: Sequence[Place]) -> list[list[Place]]:
    """The rounds of a turn: each reply with the results behind it; what is neither is in none."""
    rounds: list[list[Place]] = []
    is_open = False
    for place in places:
        if isinstance(place.message, AIMessage):
            rounds.append([place])
            is_open = True
        elif isinstance(place.message, ToolMessage) and is_open:
            rounds[-1].append(place)
        else:
            is_open = False
    return rounds


def closed_rounds(places: Sequence[Place], staying: frozenset[int]) -> list[list[Place]]:
    """The rounds that can be left out: not the last, none that is pinned, none in which the user answered."""
    return [
        group
        for group in rounds_of(places)[:-1]
        if not any(place.index in staying or answered_by_user(place.message) for place in group)
    ]


def answered_by_user(message: BaseMessage) -> bool:
    """Whether this is a user's answer."""
    return isinstance(message, ToolMessage) and message.name == ASK_USER
