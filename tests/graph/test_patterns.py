"""Patterns run in linear time and mean what Python's engine takes them for; the rest is not applied."""

from __future__ import annotations

import os
import re
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linear_time import is_linear
from turnflow.graph.patterns import is_pattern, read_pattern

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "1000")), deadline=None)

PIECES = [
    "a",
    "b",
    "-",
    "[ab]",
    "[^a]",
    ".",
    r"\w",
    r"\d",
    r"\s",
    r"\b",
    r"\.",
    r"\-",
    "[.\\w-]",
    "[a-c-]",
    "[b&~]",
]
SIGNS = [
    "*",
    "+",
    "?",
    "{2}",
    "{1,2}",
    "{1,}",
    "{,2}",
    "^",
    "$",
    "|",
    "(?:",
    "(",
    "(?P<n>",
    ")",
    "[",
    "]",
    "{",
    "}",
    "&",
]
PATTERNS = st.lists(st.sampled_from([*PIECES, *SIGNS]), min_size=1, max_size=7).map("".join)


@FUZZ
@given(PATTERNS, st.text(alphabet="ab-.1 &~[]{", max_size=6))
def test_what_is_applied_means_the_same_to_python(pattern: str, text: str) -> None:
    found = read_pattern(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            meant = re.compile(pattern)
    except re.error:
        return
    assert found is None or found.is_in(text) == (meant.search(text) is not None)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"\S", "x", " "),
        ("^[a-z0-9-]{1,64}$", "a-1", "A"),
        (r"^\d{4}-\d{2}-\d{2}$", "2024-01-31", "2024-1-31"),
        (r"^[\w.+-]{1,64}@[\w-]+(\.[\w-]+)+$", "jose.é@example.org", "jose@example"),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "1b4e28ba"),
        (r"^https?:\/\/.+", "http://x", "ftp://x"),
        (r"^(a+)+$", "aaa", "aab"),
        (r"^\w{1,200}$", "é" * 200, "é" * 201),
        (r"^(?<year>\d+)$", "1", "x"),
        (r"^[*+?]+$", "*+", "a"),
        ("^a$", "a", "a\n"),
    ],
)
def test_usual_patterns_are_applied(pattern: str, inside: str, outside: str) -> None:
    found = read_pattern(pattern)
    assert found is not None
    assert found.is_in(inside)
    assert not found.is_in(outside)


@pytest.mark.parametrize(
    "pattern", [r"^(?!x)a", r"(?<=a)b", r"(a)\1", "(", "a" * 1001, r"(\w{99}){99}", "[a&&b]", "a++"]
)
def test_what_takes_long_or_is_read_differently_is_not_applied(pattern: str) -> None:
    assert read_pattern(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a+)+$", "a"),
        (r"(x+x+)+y", "x"),
        (r"(\w+\s?)+!", "ab "),
        (r".*.*.*.*z", "a"),
        (r"[ab]*a[ab]{200}c", "ab"),
    ],
)
def test_time_is_linear(pattern: str, text: str) -> None:
    found = read_pattern(pattern)
    assert found is not None

    def seconds(size: int) -> float:
        subject = text * (size // len(text)) + "-"
        started = time.thread_time()
        assert not found.is_in(subject)
        return time.thread_time() - started

    assert is_linear(seconds, 1_000_000)


@pytest.mark.parametrize(
    "pattern", [r"\w{240}", "[^a]{2000}", "(" * 400, "(a|b)*" * 160, "[é-ü]{1000}", "(a{900}){30}"]
)
def test_reading_takes_little(pattern: str) -> None:
    started = time.thread_time()
    read_pattern.__wrapped__(pattern)
    assert time.thread_time() - started < 5


def test_what_python_cannot_read_is_no_pattern() -> None:
    assert [text for text in ("(", "a{2,1}", r"\p{L}", "*", "(?<=a*)b") if is_pattern(text)] == []


@pytest.mark.parametrize("value", ["^a$", r"^(?!x)", "", 5, None, "(" * 1001, "(?i)[\0-\U0010ffff]" * 50])
def test_what_it_can_read_or_takes_long_passes(value: object) -> None:
    started = time.thread_time()
    assert is_pattern(value)
    assert time.thread_time() - started < 1
