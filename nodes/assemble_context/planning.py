"""The search for what fits: how much of the conversation a request can hold (docs/context.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turnflow.graph.content import clean_content, join_contents
from turnflow.graph.strict_projection import SEPARATOR, project
from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.assemble_context.blocks import block_of, blocks_of
from turnflow.nodes.assemble_context.extras import Extras
from turnflow.nodes.assemble_context.manifest import Reason
from turnflow.nodes.assemble_context.outline import Outline
from turnflow.nodes.assemble_context.style import Style
from turnflow.nodes.assemble_context.tightening import Level, Tightening
from turnflow.nodes.assemble_context.written import Draft


@dataclass(frozen=True)
class Parts:
    """What a request is put together from, beside the transcript.

    Attributes:
        system: The system prompt.
        summary: The fence of the conversation's summary; '' for none.
        left_out: Stands at the front where turns are left out and there is no summary.
        notes_gap: Whether it stands there in any case.
        told: The directives' text.
        draft: Text of a reply that was not accepted.
        continuing: Whether a cut-off reply goes on.
    """

    system: str
    summary: str
    left_out: str
    notes_gap: bool
    told: str
    draft: str
    continuing: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """How much is shown.

    Attributes:
        dropped: So many contributions and recalled turns have given way.
        first: Index of the first turn that is shown.
        level: How far the turns that always stay have given way.
    """

    dropped: int
    first: int
    level: Level = field(default_factory=Level)


@dataclass
class Composition:
    """A request, and what became of the transcript in it."""

    choice: Choice
    messages: list[BaseMessage]
    tokens: int
    """What the messages take."""
    system: str
    """The system prompt, stable contributions included; without what the transcript holds of it."""
    changed: dict[int, tuple[Reason, BaseMessage]]
    """By index in the transcript, what became of messages that are not shown as they are."""
    unsent: set[int]
    """Identities of shown messages that left no trace."""


TighteningOf = Callable[[Sequence[BaseMessage]], Tightening]
"""Finds what can give way within the turns that always stay, from what stands before them."""


class Planning:
    """Finds the first of an ordered row of choices that fits; each shows less than the one before.

    The row does not depend on the budget, so more budget never shows less. Where it is costly to know what a
    choice takes, an estimate by turn goes ahead, and what comes out is counted. Levels, of which there are as
    many as there are rounds, are searched by halves.
    """

    def __init__(
        self,
        outline: Outline,
        parts: Parts,
        extras: Extras,
        style: Style,
        counter: TokenCounter,
        tightening: TighteningOf,
    ) -> None:
        self.outline = outline
        self.parts = parts
        self.extras = extras
        self._style = style
        self._counter = counter
        self._tightening_of = tightening
        self._costs: dict[int, int] = {}
        self._sums = list(accumulate(map(counter.message, outline.messages), initial=0))

    def solve(self, room: int | None) -> tuple[Composition, bool]:
        """The request that shows most in this many tokens, and whether it fits.

        Args:
            room: What the messages may take; None: anything.
        """
        if room is None:
            return self._compose(Choice(0, self.outline.first)), True
        for choice in self._choices(room):
            composed = self._compose(choice)
            if composed.tokens <= room:
                return composed, True
        composed = self._tightened(room)
        return composed, composed.tokens <= room

    def demand(self) -> int:
        """About what all that was to be shown takes."""
        first, count = self.outline.first, len(self.outline.turns)
        shown = self.between(self.outline.starts[first], self.outline.current.start)
        if self._costs:
            shown = sum(self._costs.get(at) or self.raw(at) for at in range(first, count))
        return self._fixed + self.extras.tokens(0) + self._pins[first] + shown

    def raw(self, turn: int) -> int:
        """What a turn's messages take as they are stored."""
        span = self.outline.turns[turn]
        return self.between(span.start, span.end)

    def between(self, start: int, end: int) -> int:
        """What the messages from one index to another take as they are stored."""
        return self._sums[end] - self._sums[start]

    @cached_property
    def tightening(self) -> Tightening:
        """What gives way within the turns that always stay."""
        return self._tightening_of(self._front(self.outline.protected))

    def _choices(self, room: int) -> Iterator[Choice]:
        """From the first choice that fits by estimate to the last in which single messages stay whole."""
        outline, extras = self.outline, self.extras
        first, last, every = outline.first, outline.protected, len(extras.ordered)
        dropped = 0
        while dropped < every and not self._holds_all(room - extras.tokens(dropped)):
            dropped += 1
        start = self._first_turn(room - extras.tokens(dropped))
        if start is not None:
            if start == first:
                yield from (Choice(gone, first) for gone in range(dropped, every))
            yield from (Choice(every, at) for at in range(start, last + 1))

    def _tightened(self, room: int) -> Composition:
        """The request at the first level that fits, found by halves; at the last level if none does.

        Which level is looked at next depends only on whether the last one fitted, so more room never leads to
        a later level, even where one takes more than the one before it. What is too large by estimate is not
        composed.
        """
        levels, last, every = self.tightening.levels, self.outline.protected, len(self.extras.ordered)
        need = self._fixed + self._pins[last] + self._gap(last) + self._cost_of_protected
        found: Composition | None = None
        low, high = min(1, len(levels) - 1), len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            is_likely = need - levels[middle].saved <= room
            composed = self._compose(Choice(every, last, levels[middle])) if is_likely else None
            if composed is not None and composed.tokens <= room:
                found, high = composed, middle
            else:
                low = middle + 1
        return found or self._compose(Choice(every, last, levels[low]))

    def _holds_all(self, room: int) -> bool:
        return self._first_turn(room) == self.outline.first

    def _first_turn(self, room: int) -> int | None:
        """The first turn that is shown so that all fits by estimate; None where too much always stays."""
        outline = self.outline
        if self._all_at_most <= room:
            return outline.first
        taken = self._fixed + self._cost_of_protected
        found: int | None = None
        for at in range(outline.protected, outline.first - 1, -1):
            if at < outline.protected:
                taken += self._cost(at)
            need = taken + self._pins[at]
            if need > room:
                return found
            if at == outline.first or need + self._gap(at) <= room:
                found = at
        return found

    @cached_property
    def _all_at_most(self) -> float:
        """What all turns take at most, where that is known without a look at each."""
        outline = self.outline
        if not self._style.form.native_tools or outline.folded:
            return math.inf
        taken = self.between(outline.starts[outline.first], outline.current.start)
        return self._fixed + taken + self._pins[-1] + len(outline.turns) * self._bridge_cost

    def _gap(self, first: int) -> int:
        """What the notice takes that turns are left out."""
        if first == self.outline.first or self.parts.summary or self.parts.notes_gap:
            return 0
        return self._notice_cost

    @cached_property
    def _notice_cost(self) -> int:
        return self._message(self.parts.left_out)

    @cached_property
    def _cost_of_protected(self) -> int:
        return sum(self._cost(at) for at in range(self.outline.protected, len(self.outline.turns)))

    @cached_property
    def _fixed(self) -> int:
        """What is shown whatever happens, the current turn included."""
        parts = self.parts
        current = [place.message for place in self.outline.places(self.outline.current)]
        front = [parts.system, parts.summary or (parts.left_out if parts.notes_gap else ""), parts.told]
        taken = sum(self._message(text) for text in front if text)
        said = [*current, *_drafted(parts.draft)]
        if said and isinstance(said[-1], AIMessage):
            taken += self._message(self._style.wording.fillers.go_on)
        return taken + self._sent(said)

    @cached_property
    def _pins(self) -> list[int]:
        """By turn, what stays of those before it."""
        taken = [0] * (len(self.outline.turns) + 1)
        for staying in self.outline.staying.values():
            for at in staying:
                turn = self.outline.turn_of(at)
                if turn < len(self.outline.turns):
                    taken[turn + 1] += self._sums[at + 1] - self._sums[at] + self._bridge_cost
        return list(accumulate(taken))

    @cached_property
    def _staying(self) -> list[int]:
        return sorted(at for staying in self.outline.staying.values() for at in staying)

    def _cost(self, turn: int) -> int:
        """What a turn takes in the request."""
        known = self._costs.get(turn)
        if known is None:
            known = self._costs[turn] = self._cost_of(turn)
        return known

    def _cost_of(self, turn: int) -> int:
        span = self.outline.turns[turn]
        if self._style.form.native_tools and span.start not in self.outline.folded:
            return self.raw(turn) + self._bridge(self.outline.messages[span.end - 1])
        return self._sent(self._stretch(turn))

    def _sent(self, messages: Sequence[BaseMessage]) -> int:
        """What messages take as they are sent."""
        if not messages:
            return 0
        if self._style.form.native_tools:
            return sum(map(self._counter.message, messages)) + self._bridge(messages[-1])
        return block_of(messages, self._style).tokens(self._counter) + self._bridge(messages[-1])

    def _bridge(self, last: BaseMessage) -> int:
        """What is put between a turn that ends with results and the user's next message."""
        if not isinstance(last, ToolMessage):
            return 0
        return self._bridge_cost

    @cached_property
    def _bridge_cost(self) -> int:
        return self._message(self._style.wording.fillers.bridge)

    def _message(self, text: str) -> int:
        return self._counter.message(HumanMessage(content=text))

    def _stretch(self, turn: int) -> Sequence[BaseMessage]:
        span = self.outline.turns[turn]
        if span.start not in self.outline.folded:
            return self.outline.slice(span)
        return [place.message for place in self.outline.places(span)]

    def _front(self, first: int) -> list[BaseMessage]:
        """What stands before the first turn that is shown: the summary or a notice, and what is pinned."""
        parts, outline = self.parts, self.outline
        front: list[BaseMessage] = []
        if parts.summary:
            front.append(HumanMessage(content=parts.summary))
        elif parts.notes_gap or first > outline.first:
            front.append(HumanMessage(content=parts.left_out))
        end = outline.starts[first]
        front += [outline.messages[at] for at in self._staying if at < end]
        return front

    def _compose(self, choice: Choice) -> Composition:
        outline, level, extras = self.outline, choice.level, self.extras
        changed: dict[int, tuple[Reason, BaseMessage]] = {}
        front = self._front(choice.first)
        is_tight = level != Level()
        if is_tight:
            front = self._cut_front(front, choice, changed)
        stretches: list[Sequence[BaseMessage]] = [front] if front else []
        for turn in range(choice.first, len(outline.turns)):
            if not is_tight:
                stretches.append(self._stretch(turn))
                continue
            shown, became = self.tightening.apply(outline.places(outline.turns[turn]), level)
            stretches.append(shown)
            changed |= became
        behind = [extras.recalled(choice.dropped), *extras.told(choice.dropped)]
        told = [HumanMessage(content=text) for text in behind if text]
        shown, became = self._current(level, told, is_tight=is_tight)
        changed |= became
        stretches.append([*shown, *_drafted(self.parts.draft)])
        blocks = blocks_of(stretches, self._style)
        system = SEPARATOR.join(text for text in (self.parts.system, *extras.system(choice.dropped)) if text)
        head = self._system([system, *(content for _, block in blocks for content in block.system)])
        request = [*head, *(message for _, block in blocks[:-1] for message in block.messages)]
        tokens = sum(map(self._counter.message, head))
        tokens += sum(block.tokens(self._counter) for _, block in blocks[:-1])
        tail = list(blocks[-1][1].messages) if blocks else []
        self._close(tail)
        tokens += sum(map(self._counter.message, tail))
        unsent = {id(made_of[at]) for made_of, block in blocks for at in block.unsent}
        return Composition(choice, [*request, *tail], tokens, system, changed, unsent)

    def _current(
        self, level: Level, told: Sequence[BaseMessage], *, is_tight: bool
    ) -> tuple[list[BaseMessage], dict[int, tuple[Reason, BaseMessage]]]:
        places = self.outline.places(self.outline.current)
        if is_tight:
            return self.tightening.apply(places, level, told)
        messages = [place.message for place in places]
        at = 1 if self.outline.has_input else 0
        return [*messages[:at], *told, *messages[at:]], {}

    def _cut_front(
        self,
        front: Sequence[BaseMessage],
        choice: Choice,
        changed: dict[int, tuple[Reason, BaseMessage]],
    ) -> list[BaseMessage]:
        cut = [self.tightening.cut(message, choice.level.limit) for message in front]
        became = {id(old): new for old, new in zip(front, cut, strict=True) if old is not new}
        end = self.outline.starts[choice.first]
        for at in self._staying:
            if at < end and (new := became.get(id(self.outline.messages[at]))):
                changed[at] = ("shortened", new)
        return cut

    def _system(self, contents: Sequence[object]) -> list[BaseMessage]:
        kept = [content for each in contents if (content := clean_content(each))]  # type: ignore[arg-type]
        return [SystemMessage(content=join_contents(kept, SEPARATOR))] if kept else []

    def _close(self, tail: list[BaseMessage]) -> None:
        """Put the directives in; a reply that has the last word is asked to go on."""
        parts = self.parts
        ends_with_reply = bool(tail) and isinstance(tail[-1], AIMessage) and not tail[-1].tool_calls
        apart = ends_with_reply and (parts.continuing or bool(parts.draft.strip()))
        if ends_with_reply and not (apart and parts.told):
            tail.append(HumanMessage(content=self._style.wording.fillers.go_on))
        if parts.told:
            _tell(tail, parts.told, apart=apart)


def _drafted(text: str) -> list[BaseMessage]:
    """The draft as a message that goes back as it is, under whatever protocol."""
    return [Draft(content=text)] if text.strip() else []


def _tell(tail: list[BaseMessage], text: str, *, apart: bool) -> None:
    """Put a directive into the last user message, or `apart` behind everything."""
    if not apart:
        for index in range(len(tail) - 1, -1, -1):
            message = tail[index]
            if isinstance(message, HumanMessage):
                tail[index] = project([message, HumanMessage(content=text)])[0]
                return
    tail.append(HumanMessage(content=text))
