"""How long a provider asks to wait, in each form in which it says so."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.nodes.call_llm.errors.retry_after import retry_after

NOW = 1_700_000_000.0
"""14 November 2023, 22:13:20 UTC."""

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"x-ms-retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "no", "retry-after": "2"}, 2.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 23:13:50 +0100"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
        ({"retry-after": "7s"}, 7.0),
        ({"retry-after": "7 s"}, 7.0),
        ({"retry-after": "120 seconds"}, 120.0),
        ({"retry-after": "1 second"}, 1.0),
        ({"retry-after": "2 minutes"}, 120.0),
        ({"retry-after": "1m30s"}, 90.0),
        ({"retry-after": "1h0m0.5s"}, 3600.5),
        ({"retry-after": "500ms"}, 0.5),
        ({"retry-after": "1.5S"}, 1.5),
        ({"retry-after-ms": "250ms"}, 0.25),
        ({"retry-after-ms": "2s", "retry-after": "9"}, 2.0),
        ({"retry-after": "7 apples"}, None),
        ({"retry-after": "about 7s"}, None),
        ({"retry-after": "Tuesday"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_headers_say_it(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 2s.", 2.0),
        ("Please try again in 120ms. Visit", 0.12),
        ("Please try again in 6m0s.", 360.0),
        ("try again in 1h2m3.5s", 3723.5),
        ("Please retry after 6 seconds.", 6.0),
        ("Please retry in 37.4s.", 37.4),
        ("please try again after 1 seconds", 1.0),
        ("retry after 30 minutes", 1800.0),
        ("try again in a moment", None),
        ("try again in 5 apples", None),
    ],
)
def test_words_say_it(text: str, seconds: float | None) -> None:
    assert retry_after({}, text) == (None if seconds is None else pytest.approx(seconds))


def test_a_header_wins_over_words() -> None:
    assert retry_after({"retry-after": "1"}, "try again in 9s") == 1.0


@FUZZ
@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text(max_size=200)), st.text())
def test_whatever_it_says_it_is_no_time_or_one(headers: dict[str, str], text: str) -> None:
    wait = retry_after(headers, text)
    assert wait is None or 0 <= wait < float("inf")
