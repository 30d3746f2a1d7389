"""What a summary may stand for: laws over generated conversations."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.nodes.fold_checkpoint.fold_stage import LONG, AMemory, Quarter, a_round, a_state, a_turn, ten_turns
from turnflow import PlanInput, TurnSettings, plan_context
from turnflow.graph.fold_room import AT_ONCE, FoldRoom, fold_room
from turnflow.graph.folding import (
    RoundRange,
    TurnRange,
    failed,
    find_foldable,
    fold_wanted,
    foldable_rounds,
    foldable_turns,
    left_turns,
    may_try,
    placed_turns,
    rounds_of,
    succeeded,
    tried,
)
from turnflow.graph.turns import pinned

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "200")), deadline=None)
COUNTER = Quarter()

FULL = {"fill": 0.9, "fits": True, "window": 8192}
ROOMY = {"fill": 0.5, "fits": True, "window": 8192}

SMALL = FoldRoom(free=256, tail=0)

lengths = st.integers(0, 4000)
rooms = st.integers(0, 16_000).flatmap(
    lambda free: st.builds(FoldRoom, st.just(free), st.integers(0, free // 2))
)


@st.composite
def conversations(draw: st.DrawFn) -> list[AnyMessage]:
    """Turns of any length, some pinned in part, and a last question."""
    messages: list[AnyMessage] = []
    for number in range(draw(st.integers(0, 14))):
        turn = a_turn(number, "x" * draw(lengths))
        if draw(st.booleans()):
            turn[1:1] = a_round(number, "y" * draw(lengths))
        if draw(st.integers(0, 5)) == 0:
            turn[0] = pinned(turn[0])
        messages += turn
    return [*messages, HumanMessage(content="now", id="now")]


@st.composite
def own_rounds(draw: st.DrawFn) -> list[AnyMessage]:
    """The rounds of a turn: calls, questions to the user, narrations, pinned ones; the last perhaps open."""
    own: list[AnyMessage] = []
    for number in range(draw(st.integers(0, 30))):
        kind = draw(st.sampled_from(["read", "read", "read", "ask_user", "said", "pinned"]))
        if kind == "said":
            own.append(AIMessage(content="z" * draw(lengths), id=f"r{number}"))
            continue
        group = a_round(number, "y" * draw(lengths), tool="ask_user" if kind == "ask_user" else "read")
        own += [pinned(group[0]), group[1]] if kind == "pinned" else group
    return own


@FUZZ
@given(conversations(), st.integers(-1, 12), st.integers(1, 5), st.integers(0, 12), st.data())
def test_whole_turns_are_folded_oldest_first_and_the_tail_stays(
    messages: list[AnyMessage], anchor: int, protected: int, recent: int, data: st.DataObject
) -> None:
    room, with_left = data.draw(rooms), data.draw(st.booleans())
    turns = placed_turns(messages, a_state(messages, {})["turn"])
    found = foldable_turns(
        turns,
        anchor=anchor,
        protected=protected,
        recent=recent,
        with_left=with_left,
        room=room,
        counter=COUNTER,
    )
    if found is None:
        return
    positions = [turn.position for turn in found.turns]
    assert positions == list(range(positions[0], found.last + 1))
    assert positions[0] > anchor
    assert found.first <= positions[0]
    # At least two turns stay, those that are protected, and never more than the room's tail beyond.
    kept = [turn for turn in turns if turn.position > found.last]
    assert len(kept) >= max(2, protected)
    kept_tokens = sum(COUNTER.message(m) for turn in kept for m in turn.messages)
    assert kept_tokens <= room.tail or len(kept) == max(2, protected)
    # One at a time would cost a request each; only a large first one does not wait.
    saved = sum(COUNTER.message(m) for turn in found.turns for m in turn.messages)
    assert len(positions) >= AT_ONCE or (anchor < 0 and saved >= room.free // 2)
    # What is summed up begins right behind the last summary, or with the first turn that is shown.
    assert found.first in {anchor + 1, positions[0]}


@FUZZ
@given(own_rounds(), rooms, st.data())
def test_closed_rounds_are_folded_and_what_must_stay_stays(
    own: list[AnyMessage], room: FoldRoom, data: st.DataObject
) -> None:
    before = data.draw(st.integers(0, 6))
    ids = [m.id for group in rounds_of(own)[:before] for m in group if m.id and not _stays(group)]
    found = foldable_rounds(own, ids, room=room, counter=COUNTER)
    if found is None:
        return
    hidden = set(found.message_ids)
    assert set(ids) <= hidden
    assert not {message.id for message in found.messages} & set(ids)
    groups = rounds_of(own)
    assert not {m.id for m in groups[-1]} & hidden
    for group in groups:
        of_group = {m.id for m in group}
        assert of_group <= hidden or not of_group & hidden, "rounds fold whole, calls with their results"
        if _stays(group):
            assert not of_group & hidden
    assert [m.id for m in own if m.id in hidden] == list(found.message_ids)


def _stays(group: list[AnyMessage]) -> bool:
    asks = any(isinstance(m, ToolMessage) and m.name == "ask_user" for m in group)
    return asks or any(m.additional_kwargs.get("turnflow", {}).get("pinned") for m in group)


@FUZZ
@given(own_rounds(), rooms)
def test_what_was_folded_is_not_folded_again(own: list[AnyMessage], room: FoldRoom) -> None:
    found = foldable_rounds(own, (), room=room, counter=COUNTER)
    if found:
        assert foldable_rounds(own, found.message_ids, room=room, counter=COUNTER) is None


def test_a_round_whose_calls_are_open_is_not_folded() -> None:
    open_round = [AIMessage(content="", tool_calls=[{"name": "read", "args": {}, "id": "x"}], id="open")]
    own = [*a_round(0), *open_round, *a_round(1), *a_round(2)]
    found = foldable_rounds(own, (), room=SMALL, counter=COUNTER)
    assert found is not None
    assert found.message_ids == ("r0", "t0", "r1", "t1")


def test_older_turns_go_first_and_then_rounds() -> None:
    messages = [*ten_turns(), *(m for n in range(12) for m in a_round(n))]
    state = a_state(messages, {})
    options: Any = {
        "settings": TurnSettings(),
        "memory": AMemory(),
        "window": 8192,
        "manifest": {},
        "counter": COUNTER,
        "remembers": True,
    }
    turns = find_foldable(state, **options)
    assert isinstance(turns, TurnRange)
    state["summary"] = {"anchor": {"through_id": "u8", "position": turns.last, "text": "All."}}
    rounds = find_foldable(state, **options)
    assert isinstance(rounds, RoundRange)
    assert rounds.message_ids[0] == "r0"


def test_positions_count_from_the_current_turn_past_what_is_pinned() -> None:
    left = [pinned(HumanMessage(content="Call me Ann.", id="p0"))]
    messages = [*left, *ten_turns()]
    placed = placed_turns(messages, {"input_id": "u10", "position": 50})
    assert [turn.position for turn in placed] == list(range(40, 51))
    assert [turn.input_id for turn in placed] == [f"u{n}" for n in range(11)]


def test_exactly_what_left_the_memory_waits_for_a_summary() -> None:
    placed = placed_turns(ten_turns(), {"input_id": "u10", "position": 50})
    left = left_turns(placed, anchor=30, recent=4)
    assert left is not None
    assert (left.first, left.last) == (31, 45)
    assert [turn.position for turn in left.turns] == list(range(40, 46))
    assert left_turns(placed, anchor=45, recent=4) is None


def test_a_full_request_wants_a_fold_where_there_is_something_to_fold() -> None:
    state, small = a_state(ten_turns(), {}), a_state(a_turn(0), {})
    settings_, memory = TurnSettings(), AMemory()
    assert fold_wanted(FULL, state, settings_, memory, COUNTER, remembers=True) == "window"
    assert fold_wanted(ROOMY, state, settings_, memory, COUNTER, remembers=True) == ""
    assert (
        fold_wanted({**ROOMY, "fits": False}, state, settings_, memory, COUNTER, remembers=True) == "window"
    )
    assert fold_wanted(FULL, small, settings_, memory, COUNTER, remembers=True) == ""
    assert fold_wanted(FULL, state, TurnSettings(fold_at=None), memory, COUNTER, remembers=True) == ""


def test_what_left_the_memory_is_summed_up_past_its_threshold() -> None:
    state = a_state(ten_turns(), {})
    for pending, after, wanted in ((20, 20, ""), (21, 20, "memory"), (500, None, "")):
        state["gathered"] = {"pending": pending}
        memory = AMemory(recent_turns=5, summary_after=after)
        assert fold_wanted(ROOMY, state, TurnSettings(), memory, COUNTER, remembers=True) == wanted


def test_a_memory_is_not_summed_up_turn_by_turn() -> None:
    """Where more turns stay than the threshold has room for, half as many leave together."""
    state = a_state(ten_turns(), {}) | {"gathered": {"pending": 100}}
    position = state["turn"]["position"]
    for recent, wanted in ((4, "memory"), (position - 1, ""), (position, ""), (0, "memory")):
        memory = AMemory(recent_turns=recent, summary_after=2)
        assert fold_wanted(ROOMY, state, TurnSettings(), memory, COUNTER, remembers=True) == wanted


def test_a_failure_cools_down_for_ever_more_turns_up_to_eight() -> None:
    summary: dict[str, Any] = {"anchor": {"text": "kept"}}
    pauses = []
    for _ in range(5):
        summary = failed(summary, {"position": 100})
        pauses.append(summary["cool_until"] - 100)
    assert pauses == [2, 4, 8, 8, 8]
    assert summary["anchor"] == {"text": "kept"}
    assert not may_try(summary, {"position": 107, "round": 1})
    assert may_try(summary, {"position": 108, "round": 1})
    assert may_try(succeeded(summary), {"position": 101, "round": 1})


def test_within_a_turn_it_is_tried_twice_and_some_rounds_apart() -> None:
    turn: dict[str, Any] = {"position": 5, "round": 4}
    assert may_try({}, turn)
    turn = tried(turn)
    summary = failed({}, turn)
    assert [may_try(summary, {**turn, "round": n}) for n in (4, 5, 6, 7)] == [False, False, False, True]
    turn = tried({**turn, "round": 7})
    assert not may_try(summary, {**turn, "round": 60})


def test_a_long_conversation_is_placed_in_no_time() -> None:
    messages = [m for n in range(1000) for m in a_turn(n, "")]
    found = left_turns(placed_turns(messages, {"input_id": "u999", "position": 999}), anchor=-1, recent=10)
    assert found is not None
    assert (found.first, found.last, len(found.turns)) == (0, 988, 989)


def test_what_stays_is_half_of_what_there_is_when_folding_begins() -> None:
    """8,000 without 256 of margin and 2,000 for the reply are 5,744; 0.85 of that are 4,882."""
    segments = {"tools": 2000, "system": 300, "directives": 82, "contributions": 50}
    given = [{"tokens": 50}, {"tokens": 200}]  # the second stands in the system prompt, and gives way
    manifest = {"segments": segments, "contributions": given}
    room = fold_room(manifest, window=8000, requested=None, fold_at=0.85)
    assert room == FoldRoom(free=5744 - 2182, tail=(4882 - 2182) // 2)
    assert fold_room({}, window=8000, requested=4000, fold_at=None) == FoldRoom(free=3744, tail=1872)
    # Where prompt and tools alone are too much, nothing stays that need not.
    large = {"segments": {"tools": 6000}}
    assert fold_room(large, window=8000, requested=None, fold_at=0.85) == FoldRoom(free=0, tail=0)


def test_a_summary_saves_a_tenth_of_the_room_and_stands_for_some_turns_at_once() -> None:
    room = FoldRoom(free=4000, tail=1000)
    for tokens, count, is_first, worth in (
        (400, 5, False, True),
        (399, 5, False, False),
        (3999, 4, False, False),
        (2000, 1, True, True),
        (1999, 4, True, False),
    ):
        assert room.is_worth(tokens, count, is_first=is_first) == worth


def test_where_the_next_turn_does_not_find_it_only_rounds_are_summed_up() -> None:
    settings_, memory = TurnSettings(), AMemory()
    state = a_state(ten_turns(), {})
    assert fold_wanted(FULL, state, settings_, memory, COUNTER, remembers=True) == "window"
    assert fold_wanted(FULL, state, settings_, memory, COUNTER, remembers=False) == ""
    state = a_state([*ten_turns(), *(m for n in range(12) for m in a_round(n))], {})
    found = find_foldable(
        state,
        settings=settings_,
        memory=memory,
        window=8192,
        manifest={},
        counter=COUNTER,
        remembers=False,
    )
    assert isinstance(found, RoundRange)


def test_what_gives_way_anyway_does_not_make_a_request_full() -> None:
    plan = PlanInput(ten_turns(), window=8192, counter=COUNTER)
    recalled: Any = [{"key": f"turn-{n}~x", "position": n, "time": 0.0, "text": LONG} for n in range(4)]
    given: Any = [{"name": "a", "text": LONG, "place": "system", "budget": 900, "priority": 1}]
    full = plan_context(replace(plan, recalled=recalled, contributions=given))[1]
    assert full["fill"] == plan_context(plan)[1]["fill"] > 0
