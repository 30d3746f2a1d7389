"""How long a retry waits."""

from __future__ import annotations

import math
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow import TurnSettings
from turnflow.graph.retrying import JITTER, MOST_SECONDS, pause_before

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "500")), deadline=None)

RETRIES = st.integers(1, 2000)
SECONDS = st.floats(0, 1e6, allow_nan=False)
ASKED = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), SECONDS, st.integers(0, 200))


@pytest.mark.parametrize("chance", [0.0, JITTER])
def test_the_wait_doubles_up_to_its_most(monkeypatch: pytest.MonkeyPatch, chance: float) -> None:
    monkeypatch.setattr(random, "uniform", lambda *_: chance)
    waits = [pause_before(retry, None, TurnSettings()) for retry in range(1, 10)]
    assert waits == [wait * (1 - chance) for wait in (0.5, 1, 2, 4, 8, 16, 30, 30, 30)]


def test_waits_differ_by_chance() -> None:
    for asked in (None, 5.0):
        assert len({pause_before(7, asked, TurnSettings()) for _ in range(20)}) > 1


def test_what_the_provider_asks_for_is_granted_with_a_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda *_: JITTER)
    assert pause_before(1, 20.0, TurnSettings()) == 25.0
    assert pause_before(1, 60.0, TurnSettings()) == 60.0
    assert pause_before(1, 0.008, TurnSettings()) == 0.01


def test_a_provider_that_asks_for_too_much_is_not_asked_again() -> None:
    assert pause_before(1, 60.1, TurnSettings()) is None
    assert pause_before(1, math.inf, TurnSettings()) is None
    assert pause_before(1, 0.1, TurnSettings(max_retry_wait=0)) is None
    assert pause_before(1, None, TurnSettings(max_retry_wait=0)) == 0


@FUZZ
@given(retry=RETRIES, asked=ASKED, longest=SECONDS)
def test_no_wait_is_shorter_than_asked_for_or_longer_than_allowed(
    retry: int, asked: float | None, longest: float
) -> None:
    wait = pause_before(retry, asked, TurnSettings(max_retry_wait=longest))
    if wait is None:
        assert asked is not None
        assert asked > longest
        return
    assert 0 <= wait <= longest
    if asked is not None and asked > 0:
        assert wait >= asked
    else:
        assert wait <= MOST_SECONDS
