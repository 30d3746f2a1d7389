"""What can be folded, and when it is tried: pure functions of the state (docs/folding.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from turnflow.graph.fold_room import FoldRoom, fold_room
from turnflow.graph.memory import recent_turns, sums_up
from turnflow.graph.settings import TurnSettings
from turnflow.graph.tokens import TokenCounter
from turnflow.graph.tool_names import ASK_USER
from turnflow.graph.transcript import call_order, turn_messages
from turnflow.graph.turns import is_pinned, pinned_groups, turn_spans

Wanted = Literal["", "window", "memory"]

LEAST_TURNS = 2
"""Turns that stay whatever their length, the current one included."""

MOST_FAILURES = 3
"""So many failures in a row, and what waits for a summary is given up (docs/folding.md)."""
LONGEST_COOL_DOWN = 8
"""Turns."""
_TRIES_PER_TURN = 2
_ROUNDS_BETWEEN = 3


@dataclass(frozen=True, slots=True)
class PlacedTurn:
    """A turn that stands in `messages`.

    Attributes:
        position: Its place in the conversation, from 0.
        input_id: Id of the user message that it begins with; '' where it begins without one.
        messages: Its messages as they are shown: the text of a fold in place of what it stands for.
    """

    position: int
    input_id: str
    messages: tuple[AnyMessage, ...]


@dataclass(frozen=True, slots=True)
class TurnRange:
    """Turns to sum up.

    Attributes:
        first: Position of the first.
        last: Position of the last.
        turns: Those of them that stand in `messages`, oldest first; the earlier ones stand in the archive.
    """

    first: int
    last: int
    turns: tuple[PlacedTurn, ...]


@dataclass(frozen=True, slots=True)
class RoundRange:
    """Rounds of the current turn to sum up.

    Attributes:
        messages: Their messages, without those that are folded already.
        message_ids: Ids of all that the fold stands for then, those included.
    """

    messages: tuple[AnyMessage, ...]
    message_ids: tuple[str, ...]


def fold_wanted(
    manifest: Mapping[str, Any],
    state: Any,
    settings: TurnSettings,
    memory: object,
    counter: TokenCounter,
    *,
    remembers: bool,
) -> Wanted:
    """What is to be summed up before a planned request is sent; '' for nothing.

    Args:
        manifest: The plan's manifest.
        state: The state that it was planned from, with `gathered`.
        settings: The turn's settings.
        memory: The memory strategy.
        counter: Counts tokens as the planner does.
        remembers: Whether the next turn finds the summary.
    """
    turn, summary = state["turn"], state.get("summary") or {}
    if not may_try(summary, turn):
        return ""
    if _has_left(state, memory):
        return "memory"
    if settings.fold_at is None or (manifest["fits"] and manifest["fill"] <= settings.fold_at):
        return ""
    found = find_foldable(
        state,
        settings=settings,
        memory=memory,
        window=manifest["window"],
        manifest=manifest,
        counter=counter,
        remembers=remembers,
    )
    return "window" if found else ""


def _has_left(state: Any, memory: object) -> bool:
    """Whether so many messages wait for a summary that those before the recent turns get one.

    At least half as many turns as stay are summed up at once: a summary a turn would cost a request a turn.
    """
    if not sums_up(memory):
        return False
    if (state.get("gathered") or {}).get("pending", 0) <= memory.summary_after:  # type: ignore[attr-defined]
        return False
    recent = recent_turns(memory)
    anchor = ((state.get("summary") or {}).get("anchor") or {}).get("position", -1)
    left = state["turn"].get("position", 0) - recent - 1 - anchor
    return bool(left >= max(1, recent // 2))


def find_foldable(
    state: Any,
    *,
    settings: TurnSettings,
    memory: object,
    window: int,
    manifest: Mapping[str, Any],
    counter: TokenCounter,
    remembers: bool,
) -> TurnRange | RoundRange | None:
    """What a summary can stand for in the next request: older turns first, then rounds of the current one.

    Args:
        state: The state.
        settings: The turn's settings.
        memory: The memory strategy.
        window: Tokens of a request and its reply.
        manifest: Of the last plan, for what prompt and tools take; may be empty.
        counter: Counts tokens as the planner does.
        remembers: Whether the next turn finds the summary. Where it does not, older turns are not summed up:
            it would be made anew each turn.
    """
    turn, summary = state["turn"], state.get("summary") or {}
    limit = settings.max_output_tokens
    requested = None if limit is None else limit * turn.get("output_factor", 1)
    room = fold_room(manifest, window=window, requested=requested, fold_at=settings.fold_at)
    placed = placed_turns(state["messages"], turn, summary.get("folds", ()))
    if remembers:
        turns = foldable_turns(
            placed,
            anchor=(summary.get("anchor") or {}).get("position", -1),
            protected=settings.protected_turns,
            # What waits for a summary is shown in the meantime.
            recent=len(state["messages"]) if sums_up(memory) else recent_turns(memory),
            with_left=sums_up(memory),
            room=room,
            counter=counter,
        )
        if turns:
            return turns
    own = turn_messages(state["messages"], turn["input_id"])
    fold: Any = next((f for f in summary.get("folds", ()) if f["after_id"] == turn["input_id"]), {})
    # The last turns before this one stay beside its rounds.
    beside = placed[-max(settings.protected_turns, LEAST_TURNS) : -1]
    staying = sum(count_hidden(each.messages, counter) for each in beside)
    staying += counter.message(placed[-1].messages[0]) if placed and placed[-1].messages else 0
    return foldable_rounds(own, fold.get("message_ids", ()), room=room.without(staying), counter=counter)


def foldable_turns(
    turns: Sequence[PlacedTurn],
    *,
    anchor: int,
    protected: int,
    recent: int,
    with_left: bool,
    room: FoldRoom,
    counter: TokenCounter,
) -> TurnRange | None:
    """The whole turns between what is summed up already and what stays; None where that is not worth it.

    The last turns stay, as far as they take the room's tail: at least two, and those that are protected.

    Args:
        turns: The turns that stand in `messages`, the current one last.
        anchor: Position of the last turn that is summed up; -1 for none.
        protected: Turns that stay in any case, the current one included.
        recent: Turns before the current one that are shown word for word.
        with_left: Whether earlier turns, which are not shown any more, wait for a summary too.
        room: What the conversation may take.
        counter: Counts tokens.
    """
    if not turns:
        return None
    left, kept = room.tail, len(turns)
    while kept > 0:
        left -= count_hidden(turns[kept - 1].messages, counter)
        if left < 0 and len(turns) - kept >= max(protected, LEAST_TURNS):
            break
        kept -= 1
    shown_from = turns[-1].position - recent
    candidates = [turn for turn in turns[:kept] if turn.position > anchor]
    shown = [turn for turn in candidates if turn.position >= shown_from]
    tokens = sum(count_hidden(turn.messages, counter) for turn in shown)
    if not shown or not shown[-1].input_id or not room.is_worth(tokens, len(shown), is_first=anchor < 0):
        return None
    folded = candidates if with_left else shown
    first = anchor + 1 if with_left else folded[0].position
    return TurnRange(first, folded[-1].position, tuple(folded))


def left_turns(turns: Sequence[PlacedTurn], *, anchor: int, recent: int) -> TurnRange | None:
    """The turns that are not shown word for word any more and are in no summary.

    Args:
        turns: The turns that stand in `messages`, the current one last.
        anchor: Position of the last turn that is summed up; -1 for none.
        recent: Turns before the current one that are shown word for word.
    """
    last = turns[-1].position - recent - 1 if turns else -1
    if last <= anchor:
        return None
    return TurnRange(anchor + 1, last, tuple(t for t in turns if anchor < t.position <= last))


def placed_turns(
    messages: Sequence[AnyMessage], turn: Mapping[str, Any], folds: Sequence[Any] = ()
) -> list[PlacedTurn]:
    """The turns that stand in `messages`, up to the current one, with their places in the conversation.

    What is pinned of turns that have left stands in front, and is no turn.

    Args:
        messages: The transcript.
        turn: The current turn.
        folds: The folds of all these turns.
    """
    texts = {fold["after_id"]: "\n\n".join(fold["texts"]) for fold in folds}
    hidden = {each for fold in folds for each in fold["message_ids"]}
    spans = turn_spans(messages)
    current = next((i for i in range(len(spans) - 1, -1, -1) if spans[i].input_id == turn["input_id"]), -1)
    first = turn.get("position", current) - current
    placed = [
        PlacedTurn(
            first + index, span.input_id, tuple(_shown(messages[span.start : span.end], texts, hidden))
        )
        for index, span in enumerate(spans[: current + 1])
    ]
    start = next((i for i, each in enumerate(placed) if not _is_all_pinned(each)), len(placed) - 1)
    return [each for each in placed[max(start, 0) :] if each.position >= 0]


def _shown(
    messages: Sequence[AnyMessage], texts: Mapping[str, str], hidden: Collection[str]
) -> Iterator[AnyMessage]:
    """A turn's messages with folds in place of what they stand for: what the assistant did, in short."""
    for message in messages:
        if message.id not in hidden:
            yield message
        if text := texts.get(message.id or ""):
            yield AIMessage(content=text)


def foldable_rounds(
    own: Sequence[AnyMessage], folded: Collection[str], *, room: FoldRoom, counter: TokenCounter
) -> RoundRange | None:
    """The closed rounds of the current turn that a summary can stand for; None where that is not worth it.

    The last round stays, as its results may be unread, and those before it as far as they take the room's
    tail. So do rounds in which the user said something, and what is pinned.

    Args:
        own: The turn's messages, behind its input.
        folded: Ids of those that are folded already.
        room: What the turn's rounds may take.
        counter: Counts tokens.
    """
    groups, hidden = rounds_of(own), set(folded)
    left, kept = room.tail, len(groups)
    while kept > 0:
        left -= sum(counter.message(m) for m in groups[kept - 1] if m.id not in hidden)
        if left < 0 and kept < len(groups):
            break
        kept -= 1
    new = [group for group in groups[:kept] if may_fold(group) and not all(m.id in hidden for m in group)]
    messages = [m for group in new for m in group if m.id not in hidden]
    tokens = sum(counter.message(message) for message in messages)
    if not room.is_worth(tokens, len(new), is_first=not folded):
        return None
    hidden |= {message.id for message in messages if message.id}
    return RoundRange(tuple(messages), tuple(m.id for m in own if m.id and m.id in hidden))


def rounds_of(own: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """Each assistant message with the results behind it."""
    groups: list[list[AnyMessage]] = []
    for message in own:
        if isinstance(message, AIMessage) or not groups:
            groups.append([message])
        else:
            groups[-1].append(message)
    return groups


def may_fold(group: Sequence[AnyMessage]) -> bool:
    """Whether a summary may stand for a round: it is closed, not pinned, and the user said nothing in it."""
    answered = {m.tool_call_id for m in group if isinstance(m, ToolMessage)}
    return set(call_order(group[0])) <= answered and not any(_must_stay(message) for message in group)


def _must_stay(message: BaseMessage) -> bool:
    if isinstance(message, ToolMessage) and message.name == ASK_USER:
        return True
    return isinstance(message, HumanMessage) or is_pinned(message) or message.id is None


def count_hidden(messages: Sequence[AnyMessage], counter: TokenCounter) -> int:
    """Tokens of what a summary of whole turns takes the place of: all but what is pinned."""
    stay = {id(message) for message in pinned_groups(messages)}
    return sum(counter.message(message) for message in messages if id(message) not in stay)


def may_try(summary: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    """Whether a summary may be tried now, after the failures that there were.

    A failure cools down for some turns. Within its own turn it is tried once more, some rounds later.
    """
    tried = turn.get("fold_tried")
    if not tried:
        return bool(turn.get("position", 0) >= summary.get("cool_until", 0))
    return bool(tried["times"] < _TRIES_PER_TURN and turn["round"] >= tried["round"] + _ROUNDS_BETWEEN)


def tried(turn: Mapping[str, Any]) -> dict[str, Any]:
    """The turn, in which a summary was tried in vain."""
    times = (turn.get("fold_tried") or {}).get("times", 0) + 1
    return {**turn, "fold_tried": {"times": times, "round": turn["round"]}}


def failed(summary: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    """The `summary` channel after a summary that failed: nothing else changes, and it cools down."""
    failures = summary.get("failures", 0) + 1
    pause = min(2 ** min(failures, LONGEST_COOL_DOWN), LONGEST_COOL_DOWN)
    return {**summary, "failures": failures, "cool_until": turn.get("position", 0) + pause}


def succeeded(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The `summary` channel after a summary that was made: no failure counts any more."""
    kept = {key: value for key, value in summary.items() if key != "cool_until"}
    return {**kept, "failures": 0}


def _is_all_pinned(turn: PlacedTurn) -> bool:
    return len(pinned_groups(turn.messages)) == len(turn.messages)
