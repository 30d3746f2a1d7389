"""Server-sent events, cut anywhere."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.apps.doctor.sse import MAX_EVENT_CHARS, SseEvent, SseReader

EXAMPLES = int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "60"))

BODY = ": keep-alive\r\n\r\ndata: {“é”}\r\n\r\nevent: x\ndata: a\ndata:b\n\ndata\n\ndata: [DONE]"
EVENTS = [SseEvent("keep-alive", is_comment=True), SseEvent("{“é”}"), SseEvent("a\nb"), SseEvent("[DONE]")]


def read(*pieces: bytes) -> list[SseEvent]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


def test_a_whole_body() -> None:
    # A field name alone is an empty line of data, and an event without text is none to us.
    assert [event for event in read(BODY.encode()) if event.data] == EVENTS


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.integers(0, len(BODY.encode())), max_size=8))
def test_the_cuts_do_not_matter(cuts: list[int]) -> None:
    data, places = BODY.encode(), [0, *sorted(cuts), len(BODY.encode())]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == read(data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_bytes_can_be_read(pieces: list[bytes]) -> None:
    assert read(*pieces) == read(b"".join(pieces))


def test_a_line_ends_in_any_of_three_ways() -> None:
    assert [event.data for event in read(b"data: a\n\ndata: b\r\rdata: c\r\n\r\n")] == ["a", "b", "c"]


@pytest.mark.parametrize("line", [b"data: " + b"x" * 100_000, b"data: " + b"x" * 100_000 + b"\n"])
def test_an_event_without_an_end_is_given_up(line: bytes) -> None:
    with pytest.raises(ValueError, match="does not end"):
        read(*[line] * (MAX_EVENT_CHARS // len(line) + 2))
