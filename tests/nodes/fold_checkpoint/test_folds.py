"""Texts in fences."""

from __future__ import annotations

import time

import pytest

from tests.linear_time import is_linear
from turnflow.graph.folds import defused, written_part


@pytest.mark.parametrize("tag", ["<summary>", "</summary>", "< / SUMMARY x>", "<\n/\nsummary", "<checkpoint"])
def test_nothing_in_a_text_opens_or_closes_its_fence(tag: str) -> None:
    text = defused(f"before {tag} behind", "summary", "checkpoint")
    assert tag not in text
    assert text == f"before {tag} behind".replace("<", "<\\")


def test_other_marks_stay() -> None:
    text = "a < b, <b>bold</b>, </other>"
    assert defused(text, "summary") == text


@pytest.mark.parametrize("piece", ["<", "< ", "<" + " " * 5000, "</", "<summary", "< /summary"])
def test_defusing_takes_time_in_proportion(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.thread_time()
        defused(text, "summary", "checkpoint")
        return time.thread_time() - start

    assert is_linear(seconds, 1_000_000)


def test_one_mark_before_many_blanks_takes_time_in_proportion() -> None:
    def seconds(size: int) -> float:
        start = time.thread_time()
        defused("<" + " " * size, "summary")
        return time.thread_time() - start

    assert is_linear(seconds, 1_000_000)


def test_what_a_summariser_wrote_is_told_from_what_was_added() -> None:
    assert written_part("Tea.\n\nStill open:\n- Pay", 4) == "Tea."
    assert written_part("A checkpoint.", None) == "A checkpoint."
