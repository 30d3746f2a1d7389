"""Fusion of rankings, pieces of texts, and the shortening of a text."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodes.assemble_context.memory.past_of import WordCounter
from turnflow.nodes.assemble_context.memory.fitting import CUT, head_and_tail, shortened
from turnflow.nodes.assemble_context.memory.fusion import fused
from turnflow.nodes.assemble_context.memory.pieces import MAX_PIECES, PIECE_CHARS, pieces

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)

TEXTS = st.lists(
    st.sampled_from(["word ", "的", "。", ". ", "\n", "x" * 900, "a sentence of words. ", "🙂", " " * 50]),
    max_size=400,
).map("".join)


def test_what_both_rankings_name_comes_before_what_one_puts_first() -> None:
    positions = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert fused([["a", "b", "c"], ["d", "b", "e"]], positions)[0] == "b"


def test_a_ranking_alone_keeps_its_order_when_the_older_ones_are_better() -> None:
    keys = ["a", "b", "c"]
    assert fused([keys], {"a": 3, "b": 2, "c": 1}) == keys
    assert fused([], {}) == []
    assert fused([[], []], {}) == []


def test_newer_ones_come_first_where_rankings_do_not_decide() -> None:
    assert fused([["old"], ["new"]], {"old": 0, "new": 9}) == ["new", "old"]
    assert fused([["old", "new"], ["new", "old"]], {"old": 0, "new": 9}) == ["new", "old"]


def test_the_age_is_gentle() -> None:
    keys = [f"key-{number}" for number in range(8)]  # the best one is the oldest
    order = fused([keys], {key: place for place, key in enumerate(keys)})
    assert order == keys


@FUZZ
@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=12), max_size=3))
def test_each_key_comes_once_and_the_order_of_rankings_does_not_matter(numbers: list[list[int]]) -> None:
    rankings = [[f"key-{number}" for number in each] for each in numbers]
    positions = {f"key-{number}": number for number in range(31)}
    result = fused(rankings, positions)
    assert sorted(result) == sorted({key for each in rankings for key in each})
    assert fused(rankings[::-1], positions) == result


@FUZZ
@given(TEXTS)
def test_pieces_are_short_few_and_lose_nothing_of_a_text_that_is_not_too_long(text: str) -> None:
    cut = pieces(text)
    assert len(cut) <= MAX_PIECES
    assert all(0 < len(piece) <= PIECE_CHARS for piece in cut)
    if len(text) <= MAX_PIECES * PIECE_CHARS:
        assert "".join("".join(cut).split()) == "".join(text.split())
    else:
        assert text.strip()[:20].strip() in cut[0] or text[:PIECE_CHARS].isspace()
        assert text.strip()[-20:].strip() in cut[-1] or text[-PIECE_CHARS:].isspace()


def test_pieces_end_where_lines_and_sentences_end() -> None:
    line = "A line of some words that says something. " * 12
    assert [piece[-1] for piece in pieces(f"{line}\n{line}\n{line}")] == ["."] * 3
    assert pieces("short") == ["short"]
    assert pieces(" \n") == []


@FUZZ
@given(TEXTS, st.integers(-5, 300))
def test_a_shortened_text_fits_and_keeps_its_ends(text: str, budget: int) -> None:
    counter = WordCounter()
    short = shortened(text, counter, budget)
    if short:
        assert counter.text(short) <= budget
        if short != text:
            head, _, tail = short.partition(CUT)
            assert text.startswith(head)
            assert text.endswith(tail)


def test_head_and_tail_have_the_length_asked_for() -> None:
    assert head_and_tail("abcdefghij", 10) == "abcdefghij"
    assert head_and_tail("abcdefghij", 6) == f"abcd{CUT}ij"
    assert head_and_tail("abcdefghij", 1) == f"a{CUT}"
    assert head_and_tail("abcdefghij", 0) == CUT
