"""The loop guard: circles are seen at their third, fifth and eighth time, and progress is left alone."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.graph.loop_guard import (
    CALLS_KEPT,
    LONGEST_CYCLE,
    ROUNDS_KEPT,
    STOP_AT,
    Circle,
    Level,
    WatchedRound,
    digest,
    watch,
)

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "500")), deadline=None)

Round = Sequence[Sequence[str]]


def seen(rounds: Iterable[Round]) -> list[Circle | None]:
    """What the guard says after each round; the window goes through JSON each time, as in a checkpoint."""
    window: list[WatchedRound] = []
    circles = []
    for entries in rounds:
        watched = watch(window, entries)
        window = json.loads(json.dumps(watched.window))
        circles.append(watched.circle)
    return circles


def singles(keys: Iterable[str]) -> list[Round]:
    """Rounds of one call each, whose results never change."""
    return [[[key, "same"]] for key in keys]


def levels(circles: Iterable[Circle | None]) -> list[str | None]:
    return [circle.level if circle else None for circle in circles]


@pytest.mark.parametrize("length", range(1, LONGEST_CYCLE + 1))
def test_a_cycle_is_seen_at_its_third_fifth_and_eighth_time(length: int) -> None:
    circles = seen(singles("abcd"[n % length] for n in range(STOP_AT * length)))
    for place, circle in enumerate(circles, start=1):
        times = place // length
        level: Level | None = (
            "stop" if times >= 8 else "firm" if times >= 5 else "note" if times >= 3 else None
        )
        assert circle == (Circle(level, times, length) if level else None)


@pytest.mark.parametrize("length", range(1, LONGEST_CYCLE + 1))
@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_rounds_of_several_calls_go_round_as_those_of_one_do(length: int, size: int) -> None:
    def rounds() -> Iterable[Round]:
        shuffle = random.Random(0)  # noqa: S311 - the same order in each run
        for n in range(STOP_AT * length):
            calls = [[f"{n % length}-{call}", "same"] for call in range(size)]
            yield shuffle.sample(calls, size)

    assert seen(rounds()) == seen(singles("abcd"[n % length] for n in range(STOP_AT * length)))


def test_a_call_that_was_sent_twice_in_a_round_counts_once() -> None:
    assert seen([[["a", "same"]] * 9]) == [None]


def test_a_circle_is_over_once_something_else_comes() -> None:
    circles = seen([*singles("aaaa"), [["a", "changed"]], *singles("bba")])
    assert levels(circles) == [None, None, "note", "note", None, None, None, "note"]
    assert circles[-1] == Circle("note", 5, 0)


def test_a_round_without_calls_changes_nothing() -> None:
    window = watch([], [["a", "same"]]).window
    assert watch(window, []).window == window
    assert levels(seen([*singles("aa"), [], *singles("a")])) == [None, None, None, "note"]


def test_a_call_that_comes_back_between_others_is_told_of() -> None:
    others = iter(range(100))
    rounds = [entry for _ in range(12) for entry in ([["t", "ok"]], [[f"edit {next(others)}", "done"]])]
    circles = seen(rounds)
    assert levels(circles[::2]) == [None, None, "note", "note", *["note"] * 8]
    assert set(circles[1::2]) == {None}


@pytest.mark.parametrize("between", [["t"], ["t", "t"], ["lint", "t"]])
def test_a_test_that_is_run_between_changes_stops_nobody(between: list[str]) -> None:
    rounds = [entry for n in range(16) for entry in singles([*between, f"edit {n}"])]
    assert "stop" not in levels(seen(rounds))
    together = [
        [*([key, "same"] for key in dict.fromkeys(between)), [f"edit {n}", "done"]] for n in range(16)
    ]
    assert "stop" not in levels(seen(together))


def test_a_circle_without_a_rhythm_is_stopped_too() -> None:
    shuffle = random.Random(1)  # noqa: S311 - the same order in each run
    circles = seen(singles(shuffle.choice("abc") for _ in range(40)))
    assert "stop" in levels(circles[:30])


def test_a_cycle_of_more_rounds_is_told_of_and_not_stopped() -> None:
    assert set(levels(seen(singles("abcde" * 10)))) == {None, "note", "firm"}


def test_invalid_calls_go_round_like_others() -> None:
    raw = '{"path": "a'
    rounds = [[[digest(f"read_file {raw}"), digest("The call was not run: …")]] for _ in range(8)]
    assert levels(seen(rounds))[2::5] == ["note", "stop"]


def test_the_stronger_of_two_circles_is_told() -> None:
    rounds = singles([*"axaya", *"bababa"])
    assert seen(rounds)[-1] == Circle("note", 6, 0)


KEYS = st.sampled_from("abc")
ENTRIES = st.lists(st.tuples(KEYS, st.sampled_from("12")), max_size=4)


@FUZZ
@given(st.lists(st.lists(st.tuples(st.text(), st.text()), max_size=40), max_size=40))
def test_any_entries_are_taken_and_the_window_stays_small(rounds: list[list[tuple[str, str]]]) -> None:
    window: list[WatchedRound] = []
    for entries in rounds:
        before = json.dumps(window)
        watched = watch(window, entries)
        assert json.dumps(window) == before
        assert watched == watch(window, entries)
        window = watched.window
        assert len(window) <= ROUNDS_KEPT
        assert sum(len(each[1:]) for each in window) <= CALLS_KEPT
        assert json.loads(json.dumps(window)) == window


@FUZZ
@given(st.lists(ENTRIES, max_size=40), st.randoms())
def test_the_order_within_a_round_says_nothing(
    rounds: list[list[tuple[str, str]]], shuffle: random.Random
) -> None:
    assert seen(rounds) == seen([shuffle.sample(entries, len(entries)) for entries in rounds])


@FUZZ
@given(st.lists(st.integers(1, 6), max_size=30))
def test_no_two_calls_alike_are_no_circle(sizes: list[int]) -> None:
    numbers = iter(range(1000))
    rounds = [[[f"call {next(numbers)}", "same"] for _ in range(size)] for size in sizes]
    assert set(seen(rounds)) <= {None}


@FUZZ
@given(st.integers(1, 60))
def test_a_long_poll_with_changing_results_is_no_circle(times: int) -> None:
    assert set(seen([[["status", f"{n} %"]] for n in range(times)])) == {None}


@FUZZ
@given(st.lists(st.lists(KEYS, min_size=1, max_size=STOP_AT - 2), min_size=1, max_size=12))
def test_what_brings_something_new_every_few_calls_is_never_stopped(stretches: list[list[str]]) -> None:
    rounds = [entry for n, keys in enumerate(stretches) for entry in singles([f"new {n}", *keys])]
    assert "stop" not in levels(seen(rounds))


@FUZZ
@given(
    st.lists(KEYS, max_size=30),
    st.lists(KEYS, min_size=1, max_size=LONGEST_CYCLE),
)
def test_every_short_cycle_is_stopped_at_its_eighth_time(before: list[str], cycle: list[str]) -> None:
    circles = seen(singles([*before, *cycle * STOP_AT]))
    assert circles[-1] is not None
    assert circles[-1].level == "stop"
    assert circles[-1].count >= STOP_AT


@FUZZ
@given(st.lists(KEYS, max_size=40), st.integers(0, 40))
def test_a_call_that_never_came_before_is_no_circle(keys: list[str], count: int) -> None:
    assert seen(singles([*keys[:count], "new"]))[-1] is None


@FUZZ
@given(st.text(st.characters()))
def test_digests_are_short_and_equal_for_equal_texts(text: str) -> None:
    assert digest(text) == digest(text)
    assert len(digest(text)) == 12
    assert digest(text) != digest(f"{text} ")


def test_halves_of_surrogate_pairs_have_digests_too() -> None:
    assert digest("\ud83d") != digest("\ude00")
    assert levels(seen([[["\ud83d", "\ude00"]]] * 3)) == [None, None, "note"]
