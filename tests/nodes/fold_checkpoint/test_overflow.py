"""What a refusal for length teaches."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.graph.budget import budget_of, window_for
from turnflow.nodes.fold_checkpoint.overflow import (
    LEAST_WINDOW,
    MOST_OVERFLOWS,
    after_overflow,
    learned_window,
    named_limit,
)

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, you sent 9120 tokens.",
            8192,
        ),
        ("maximum context length of 8,192 tokens", 8192),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, shorten it", 200_000),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("Requested tokens (5000) exceed context window of 4096", 4096),
        (
            "The input count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        ("Range of input length should be [1, 30720]", 30_720),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", 4096),
        ("n_ctx: 2048", 2048),
        ("Input is too long for requested model.", None),
        ("maximum context length is 12 tokens", None),
        ("maximum context length is 99999999999999999999 tokens", None),
        ("", None),
    ],
)
def test_the_number_in_an_error_is_read_where_it_is_one(text: str, limit: int | None) -> None:
    assert named_limit(text) == limit


def test_without_a_number_85_per_cent_of_what_failed_have_room() -> None:
    # 11,674 without 256 of margin and a quarter for the reply are 8,500.
    assert learned_window(10_000, "too long", 128_000) == 11_674
    # With 1,000 of output that are asked for.
    assert learned_window(10_000, "too long", 128_000, requested=1000) == 9756
    assert learned_window(10_000, "maximum context length is 8192 tokens", 128_000) == 8192
    # Our own count was below the limit, and it failed all the same: the count is the measure.
    assert learned_window(4000, "maximum context length is 8192 tokens", 128_000) == 4874


def test_what_was_accepted_has_room() -> None:
    assert learned_window(10_000, "too long", 128_000, accepted=9000) == 12_341
    # As large as what failed, it says nothing.
    assert learned_window(10_000, "too long", 128_000, accepted=10_000) == 11_674
    turn = {"learned": {"model": "m", "accepted": 9000}}
    after = after_overflow(turn, failed=8000, error="", before=128_000, requested=None, model="m")
    assert after is not None
    assert after["learned"] == {"model": "m", "window": window_for(6800, None)}


@FUZZ
@given(st.integers(LEAST_WINDOW, 10**6), st.one_of(st.none(), st.integers(1, 10**5)))
def test_85_per_cent_of_what_failed_have_room(failed: int, requested: int | None) -> None:
    window = learned_window(failed, "too long", 10**8, requested=requested)
    room = budget_of(window, requested, 0).room
    assert room is not None
    assert int(failed * 0.85) <= room
    smaller = budget_of(window - 1, requested, 0).room
    assert window == LEAST_WINDOW or smaller is None or smaller < int(failed * 0.85)


@FUZZ
@given(st.integers(0, 10**7), st.text(max_size=80), st.integers(LEAST_WINDOW, 10**7))
def test_a_window_never_grows(failed: int, error: str, before: int) -> None:
    assert LEAST_WINDOW <= learned_window(failed, error, before) <= before


def test_it_goes_on_while_it_shrinks_and_six_times_at_most() -> None:
    turn: dict[str, Any] = {"error": {"type": "BadRequestError"}}
    window, failed, times = 128_000, 100_000, 0
    while times < 20:
        after = after_overflow(
            turn, failed=failed, error="too long", before=window, requested=None, model="m"
        )
        if after is None:
            break
        turn, times = after, times + 1
        assert turn["learned"] == {"model": "m", "window": window_for(int(failed * 0.85), None)}
        assert turn["overflows"] == times
        assert "error" not in turn
        window = turn["learned"]["window"]
        failed = budget_of(window, None, 0).room or 0
    assert times == MOST_OVERFLOWS


def test_it_ends_where_nothing_shrinks() -> None:
    first = after_overflow({}, failed=200, error="", before=8192, requested=None, model="m")
    assert first is not None
    assert first["learned"]["window"] == LEAST_WINDOW
    assert after_overflow(first, failed=200, error="", before=LEAST_WINDOW, requested=None, model="m") is None
    assert (
        after_overflow(first, failed=190, error="", before=LEAST_WINDOW, requested=None, model="m")
        is not None
    )


def test_what_another_model_taught_is_not_kept() -> None:
    turn = {"learned": {"model": "a", "factor": 1.5, "window": 4000}}
    same = after_overflow(turn, failed=1000, error="", before=4000, requested=None, model="a")
    other = after_overflow(turn, failed=1000, error="", before=4000, requested=None, model="b")
    assert same is not None
    assert other is not None
    assert same["learned"] == {"model": "a", "factor": 1.5, "window": 1350}
    assert other["learned"] == {"model": "b", "window": 1350}
