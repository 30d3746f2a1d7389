"""What gives way within the turns that are never left out as a whole, step by step (docs/context.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.assemble_context.cutting import Cutter, Size
from turnflow.nodes.assemble_context.manifest import Reason
from turnflow.nodes.assemble_context.outline import (
    Outline,
    Place,
    answered_by_user,
    closed_rounds,
    is_system,
    rounds_of,
)

_CUT_TO = 256
"""Tokens to which messages are cut before rounds of earlier turns are left out."""
_LEAST = 32
_LEAST_INPUT = 64
_FINER = 0.9
"""How much smaller each cut is than the one before."""

StubOf = Callable[[ToolMessage, str], ToolMessage | None]
"""The stub of a result, from it and the id of the reply that called for it."""


@dataclass(frozen=True, slots=True)
class Level:
    """How far single messages and rounds have given way. Each level shows less than the one before.

    Attributes:
        stubs: So many results, the oldest first, are stubs.
        rounds: So many closed rounds of the current turn, the oldest first, are left out.
        limit: Tokens to which all messages but the user's current one are cut.
        earlier: So many closed rounds of earlier turns are left out.
        input_limit: Tokens to which the user's current message is cut.
        saved: About what all this saves, in tokens.
    """

    stubs: int = 0
    rounds: int = 0
    limit: int | None = None
    earlier: int = 0
    input_limit: int | None = None
    saved: int = 0


class Tightening:
    """The levels for one transcript, and what each does to a turn."""

    def __init__(
        self,
        outline: Outline,
        *,
        counter: TokenCounter,
        cutter: Cutter,
        stub_of: StubOf | None,
        rounds_left_out: str,
        front: Sequence[BaseMessage],
    ) -> None:
        """Find what can give way.

        Args:
            outline: The transcript.
            counter: Counts tokens.
            cutter: Cuts messages.
            stub_of: Makes stubs; None where no result can be read again.
            rounds_left_out: The notice, with `{count}`.
            front: What stands before the protected turns and can be cut.
        """
        self._outline = outline
        self._counter = counter
        self._cutter = cutter
        self._notice = rounds_left_out
        self._input = outline.current.start if outline.has_input else -1
        spans = [*outline.turns[outline.protected :], outline.current]
        self._turns = [(span, outline.places(span)) for span in spans]
        self._stubs = [] if stub_of is None else list(self._find_stubs(stub_of))
        closed = [closed_rounds(places, outline.stays(span)) for span, places in self._turns]
        self._rounds = closed[-1]
        self._earlier = [group for groups in closed[:-1] for group in groups]
        self._notices = {id(groups[0]) for groups in closed[:-1] if groups}  # where a turn's notice comes in
        self.levels = list(self._levels(front))

    def apply(
        self, places: Sequence[Place], level: Level, behind_input: Sequence[BaseMessage] = ()
    ) -> tuple[list[BaseMessage], dict[int, tuple[Reason, BaseMessage]]]:
        """A turn at a level.

        Args:
            places: What can be shown of it.
            level: How far it gives way.
            behind_input: What stands behind the user's current message; in front where there is none.

        Returns:
            What is shown, and by index in the transcript what became of those that are not shown as they are.
        """
        stubs = dict(self._stubs[: level.stubs])
        left_out = {
            place.index
            for group in (*self._rounds[: level.rounds], *self._earlier[: level.earlier])
            for place in group
        }
        count = sum(group[0].index in left_out for group in rounds_of(places)) if left_out else 0
        starts_with_input = bool(places) and places[0].index == self._input
        shown: list[BaseMessage] = [] if starts_with_input else list(behind_input)
        changed: dict[int, tuple[Reason, BaseMessage]] = {}
        for place in places:
            message = place.message
            if count and isinstance(message, AIMessage):
                shown.append(HumanMessage(content=self._notice.format(count=count)))
                count = 0
            if place.index in left_out:
                changed[place.index] = ("out_of_budget", message)
                continue
            if place.index in stubs:
                message = stubs[place.index]
                changed[place.index] = ("stubbed", message)
            limit = level.input_limit if place.index == self._input else level.limit
            cut = self.cut(message, limit)
            if cut is not message:
                changed[place.index] = ("shortened", cut)
            shown.append(cut)
            if starts_with_input and place is places[0]:
                shown += behind_input
        return shown, changed

    def cut(self, message: BaseMessage, limit: int | None) -> BaseMessage:
        """The message within a limit; a system message is never cut."""
        if limit is None or is_system(message):
            return message
        return self._cutter.cut(message, limit)

    def _find_stubs(self, stub_of: StubOf) -> Iterable[tuple[int, ToolMessage]]:
        """Index and stub of each result that was read and can be read again, the oldest first."""
        for span, places in self._turns:
            for reply, *results in rounds_of(places):
                for place in results:
                    result = place.message
                    is_old = 0 <= place.index < self._outline.unread
                    if not is_old or answered_by_user(result) or place.index in self._outline.stays(span):
                        continue
                    stub = (
                        stub_of(result, reply.message.id or "") if isinstance(result, ToolMessage) else None
                    )
                    if stub is not None and self._counter.message(stub) < self._counter.message(result):
                        yield place.index, stub

    def _levels(self, front: Sequence[BaseMessage]) -> Iterable[Level]:
        level = Level()
        yield level
        tokens = {place.index: self._counter.message(place.message) for _, p in self._turns for place in p}
        for number, (index, stub) in enumerate(self._stubs, start=1):
            saved = tokens[index] - self._counter.message(stub)
            tokens[index] -= saved
            level = Level(number, saved=level.saved + saved)
            yield level
        notice = self._counter.message(HumanMessage(content=self._notice.format(count=len(self._rounds))))
        for number, group in enumerate(self._rounds, start=1):
            saved = sum(tokens[place.index] for place in group) - (notice if number == 1 else 0)
            level = Level(level.stubs, number, saved=level.saved + saved)
            yield level
        yield from self._cuts(level, front, notice)

    def _cuts(self, level: Level, front: Sequence[BaseMessage], notice: int) -> Iterable[Level]:
        shown, current_input, stubs = self._remaining(level)
        sizes = [self._cutter.size(message) for message in (*front, *shown) if not is_system(message)]
        for limit in _limits(max((size.tokens for size in sizes), default=0), _CUT_TO):
            yield replace(level, limit=limit, saved=level.saved + _saved(sizes, limit))
        before = level.saved + _saved(sizes, _CUT_TO)
        level = replace(level, limit=_CUT_TO, saved=before)
        left_out = 0
        gone_ids: set[int] = set()
        for number, group in enumerate(self._earlier, start=1):
            gone = [stubs.get(place.index, place.message) for place in group]
            gone_ids.update(map(id, gone))
            left_out += sum(self._cutter.size(message).at(_CUT_TO) for message in gone)
            left_out -= notice if id(group) in self._notices else 0
            level = replace(level, earlier=number, saved=before + max(0, left_out))
            yield level
        kept = [
            self._cutter.size(message)
            for message in (*front, *shown)
            if not is_system(message) and id(message) not in gone_ids
        ]
        after = level.saved - _saved(kept, _CUT_TO)
        for limit in (*_limits(_CUT_TO, _LEAST), _LEAST):
            level = replace(level, limit=limit, saved=after + _saved(kept, limit))
            yield level
        if current_input is not None:
            size, after = self._cutter.size(current_input), level.saved
            for limit in (*_limits(size.tokens, _LEAST_INPUT), _LEAST_INPUT):
                saved = after + size.tokens - size.at(limit)
                yield replace(level, input_limit=limit, saved=saved)

    def _remaining(
        self, level: Level
    ) -> tuple[list[BaseMessage], BaseMessage | None, dict[int, BaseMessage]]:
        """What is left at a level before messages are cut.

        Returns:
            What is shown without the user's current message, that message, and stubs by their index in
                the transcript.
        """
        remaining: list[BaseMessage] = []
        current_input: BaseMessage | None = None
        stubs: dict[int, BaseMessage] = {}
        for _, places in self._turns:
            shown, changed = self.apply(places, level)
            stubs |= {at: message for at, (reason, message) in changed.items() if reason == "stubbed"}
            for message in shown:
                if self._input >= 0 and message is self._outline.messages[self._input]:
                    current_input = message
                else:
                    remaining.append(message)
        return remaining, current_input, stubs


def _limits(largest: int, least: int) -> Iterable[int]:
    limit = int(largest * _FINER)
    while limit > least:
        yield limit
        limit = int(limit * _FINER)


def _saved(sizes: Iterable[Size], limit: int) -> int:
    return sum(size.tokens - size.at(limit) for size in sizes)
