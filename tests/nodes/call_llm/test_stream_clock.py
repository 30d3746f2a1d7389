"""When a reply is late, and when it is only over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.nodes.call_llm.stream_clock import (
    FirstTokenTimeoutError,
    IdleTimeoutError,
    Limits,
    ReplyTimeoutError,
    RoundTimeoutError,
    StreamClock,
)

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "500")), deadline=None)
LIMITS = Limits(first_token=60, idle=30, usage=1, final=8, deadline=1600)


@dataclass
class Watch:
    """Time that passes when it is told to, and a clock that goes by it."""

    limits: Limits = LIMITS
    time: float = 1000.0
    clock: StreamClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = StreamClock(self.limits, lambda: self.time)

    def after(self, seconds: float, *what: str) -> StreamClock:
        """The clock when so much more time has passed, and a chunk came that brought this."""
        self.time += seconds
        if what:
            self.clock.seen(
                has_output="output" in what, finish_reason="finish" in what, usage="usage" in what
            )
        return self.clock


def test_before_any_output_the_first_token_is_waited_for_from_the_start() -> None:
    watch = Watch()
    assert watch.clock.left() == 60
    assert watch.after(20, "empty").left() == 40
    assert watch.after(20, "usage").left() == 20
    assert watch.clock.expired() is None
    error = watch.after(20).expired()
    assert isinstance(error, FirstTokenTimeoutError)
    assert str(error) == "no token came in 60 s"


def test_between_outputs_silence_counts_and_empty_chunks_are_silence() -> None:
    watch = Watch()
    assert watch.after(59, "output").left() == 30
    assert watch.after(29, "output").left() == 30
    assert watch.after(20, "empty").left() == 10
    error = watch.after(10).expired()
    assert isinstance(error, IdleTimeoutError)
    assert str(error) == "nothing came for 30 s"


def test_after_the_finish_reason_a_short_silence_ends_a_whole_reply() -> None:
    watch = Watch()
    watch.after(1, "output")
    assert watch.after(1, "finish").left() == 1
    assert watch.after(0.5, "finish").left() == 0.5, "it is told of each chunk of a finished reply"
    assert watch.after(0.25, "usage", "finish").left() == 1
    assert watch.after(1).left() == 0
    assert watch.clock.expired() is None


def test_a_reply_that_is_nothing_but_its_end_is_whole() -> None:
    assert Watch().after(5, "finish").left() == 1


def test_after_the_finish_reason_a_trickle_ends_too() -> None:
    watch = Watch()
    watch.after(1, "output")
    watch.after(1, "finish")
    watch.clock.go()
    for _ in range(15):
        assert watch.after(0.5, "output", "finish").left() > 0
        assert not watch.clock.overdue()
    assert watch.after(0.5, "output", "finish").left() == 0
    assert watch.clock.overdue()
    assert watch.clock.expired() is None


def test_the_deadline_beats_all() -> None:
    watch = Watch(Limits(first_token=60, idle=30, usage=1, final=8, deadline=1010))
    watch.after(9, "output")
    assert watch.clock.left() == 1
    assert not watch.clock.overdue()
    error = watch.after(1).expired()
    assert isinstance(error, RoundTimeoutError)
    assert str(error) == "the round's time was over 10 s after the request, and the reply was not"
    assert watch.clock.overdue()
    assert watch.after(0, "finish").expired() is None
    assert watch.clock.left() == 0


def test_where_all_limits_are_over_it_is_the_rounds() -> None:
    assert isinstance(Watch().after(5000).expired(), RoundTimeoutError)


def test_no_time_passes_while_the_stream_is_not_waited_for() -> None:
    watch = Watch()
    watch.after(1, "output")
    watch.clock.stop()
    assert watch.after(400).left() == 30
    watch.clock.go()
    assert watch.after(29).left() == 1
    watch.clock.stop()
    assert watch.after(100, "output").left() == 30
    watch.clock.go()
    assert isinstance(watch.after(30).expired(), IdleTimeoutError)


def test_the_deadline_comes_nearer_while_the_stream_is_not_waited_for() -> None:
    watch = Watch()
    watch.clock.stop()
    assert watch.after(590).left() == 10
    assert watch.after(10).overdue()


def test_the_time_after_the_finish_reason_begins_with_the_next_wait() -> None:
    watch = Watch()
    watch.clock.stop()
    watch.after(1, "output", "finish")
    assert not watch.after(100).overdue()
    assert not watch.after(7).overdue()
    assert watch.after(1).overdue()


def test_what_is_excused_is_no_silence_but_never_more_than_there_was() -> None:
    watch = Watch()
    watch.after(1, "output")
    watch.after(30).excuse(10)
    assert watch.clock.left() == 10
    watch.clock.excuse(100)
    assert watch.clock.left() == 30


@pytest.mark.parametrize(
    ("limit", "text"), [(0.25, "0.25 s"), (60.0, "60 s"), (90, "90 s"), (3600, "3600 s"), (1 / 3, "0.333 s")]
)
def test_times_are_told_in_seconds(limit: float, text: str) -> None:
    watch = Watch(Limits(first_token=limit, idle=1, usage=1, final=1))
    assert str(watch.after(limit + 1).expired()) == f"no token came in {text}"


def test_a_late_reply_is_a_timeout_to_whoever_knows_only_those() -> None:
    for kind in (FirstTokenTimeoutError, IdleTimeoutError, RoundTimeoutError):
        assert issubclass(kind, ReplyTimeoutError)
    assert issubclass(ReplyTimeoutError, TimeoutError)


SECONDS = st.floats(0, 100, allow_nan=False).map(lambda seconds: round(seconds, 3))
CHUNKS = st.sets(st.sampled_from(["output", "finish", "usage"]))
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("chunk"), CHUNKS),
        st.tuples(st.just("pass"), SECONDS),
        st.tuples(st.sampled_from(["go", "stop", "overdue"]), st.none()),
        st.tuples(st.just("excuse"), SECONDS),
    ),
    max_size=20,
)
ANY_LIMITS = st.builds(Limits, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS.map(lambda left: 1000 + 10 * left))


def acted(watch: Watch, kind: str, value: Any) -> None:
    if kind == "chunk":
        watch.after(0, "chunk", *value)
    elif kind == "pass":
        watch.after(value)
    elif kind == "excuse":
        watch.clock.excuse(value)
    else:
        getattr(watch.clock, kind)()


@FUZZ
@given(limits=ANY_LIMITS, acts=ACTS)
def test_what_is_left_keeps_its_bounds(limits: Limits, acts: list[tuple[str, Any]]) -> None:
    watch = Watch(limits)
    longest = max(limits.first_token, limits.idle, limits.usage)
    finished = False
    for kind, value in acts:
        acted(watch, kind, value)
        finished = finished or (kind == "chunk" and "finish" in value)
        left, error = watch.clock.left(), watch.clock.expired()
        assert 0 <= left <= longest + 1e-6
        assert left <= max(0, limits.deadline - watch.time)
        assert (error is not None) == (left == 0 and not finished)
        assert not (watch.clock.overdue() and left)
        assert isinstance(error, RoundTimeoutError) == (
            not finished and left == 0 and watch.time >= limits.deadline
        )


@FUZZ
@given(limits=ANY_LIMITS, acts=ACTS, seconds=SECONDS)
def test_what_is_late_stays_late_until_something_comes(
    limits: Limits, acts: list[tuple[str, Any]], seconds: float
) -> None:
    watch = Watch(limits)
    for kind, value in acts:
        acted(watch, kind, value)
    left = watch.clock.left()
    assert watch.after(seconds).left() <= left
    watch.after(0, "empty")
    assert watch.clock.left() <= left


@FUZZ
@given(limits=ANY_LIMITS, gaps=st.lists(SECONDS, min_size=1, max_size=10))
def test_a_stream_that_never_stops_is_over_in_the_end(limits: Limits, gaps: list[float]) -> None:
    """However chunks come after the finish reason, no wait goes beyond the time that they have in all."""
    watch = Watch(limits)
    watch.after(0, "output", "finish")
    watch.clock.go()
    for gap in gaps:
        wait = min(gap, watch.clock.left())
        watch.after(wait, "output", "finish")
        assert watch.time <= 1000 + limits.final + 1e-6
