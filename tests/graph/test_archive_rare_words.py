"""Searches in long conversations: by the words that tell turns apart, and never by none."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from tests.graph.test_archive import HERE, KINDS, fill, found, opened, turn_of
from turnflow.graph.archive import Archive, Scope
from turnflow.graph.archive_search import MANY_TURNS, Term, common_from, query_terms, rarest
from turnflow.graph.saver import TurnSaver, open_saver

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "100")), deadline=None)

TURNS = 240


def said_in(number: int) -> str:
    words = ["the weather and the sea", "天气很好"]
    if number % 30 == 0:
        words.append("a harbour")
    if number == 17:
        words.append("in Oslo with 北京")
    if number < 60:
        words.append("early")
    return " ".join(words)


def put_texts(archive: Archive, texts: Sequence[str], scope: Scope = HERE) -> str:
    key = ""
    with ExitStack() as stack:
        if isinstance(archive, TurnSaver):
            stack.enter_context(archive.cursor())  # one transaction is faster than many
        for position, text in enumerate(texts):
            turn = turn_of(f"turn-{position}", key, position, [HumanMessage(text, id=str(position))])
            archive.put_turn(scope, turn, text)
            key = turn["key"]
    return key


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What was the weather in Oslo?", 17),
        ("oslo", 17),
        ("北京的天气", 17),
        ("北", 17),
        ("the weather and a harbour", 210),
        ("the sea early", 59),
        ("early", 59),
        ("the weather", TURNS - 1),
        ("天气", TURNS - 1),
        ("天", TURNS - 1),
        ("and nothing of it known, the", TURNS - 1),
    ],
)
def test_the_best_turn_of_a_long_conversation(kind: str, query: str, expected: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        archive = opened(kind, tmp_path, stack)
        head = put_texts(archive, [said_in(number) for number in range(TURNS)])
        assert found(archive, head, query)[0] == expected


def test_words_that_occur_nowhere_find_nothing_in_a_long_conversation(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        head = put_texts(saver, [said_in(number) for number in range(TURNS)])
        assert found(saver, head, "unheard of") == []
        assert found(saver, "unknown", "oslo") == []


def test_in_a_short_conversation_every_word_counts(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        texts = [f"common word{number}" for number in range(MANY_TURNS - 1)]
        head = put_texts(saver, texts)
        hits = saver.search_turns(
            HERE, head, " ".join(["common", *(f"word{n}" for n in range(20))]), 500, 500
        )
        assert len(hits) == len(texts)


def test_what_other_threads_speak_of_makes_no_word_common_or_rare(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        many = put_texts(saver, [f"oslo and harbour {number}" for number in range(200)])
        other = Scope("other", "")
        texts = [f"harbour {'oslo' if number == 3 else f'word{number}'}" for number in range(200)]
        head = put_texts(saver, texts, other)
        query = "the harbour of oslo word10 word11 word12 word13"
        assert sorted(found(saver, head, query, scope=other)) == [3, 10, 11, 12, 13]
        assert found(saver, many, "oslo word10 10 11 12 13") == [13, 12, 11, 10]


def test_the_words_of_a_branch_are_found(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        trunk = fill(saver, [str(number) for number in range(150)])
        branch = fill(saver, ["left turn"], trunk[120], 121)
        assert found(saver, branch[-1], "about left") == [121, 120, 119, 118, 117, 116, 115, 114, 113, 112]
        assert 121 not in found(saver, trunk[-1], "about left")


def test_a_long_query_searches_for_few_words(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        head = put_texts(saver, [f"the sea word{number // 2}" for number in range(TURNS)])
        statements: list[str] = []
        saver.conn.set_trace_callback(statements.append)
        query = " ".join(["the", "sea", *(f"word{number}" for number in range(50))])
        hits = saver.search_turns(HERE, head, query, 100, TURNS)
        assert len(hits) == 32
        (searched,) = [statement for statement in statements if "bm25" in statement]
        assert searched.count("word") - searched.count("words") == 16
        assert '"sea"' not in searched


def test_a_search_does_not_grow_with_the_conversation(tmp_path: Path) -> None:
    times = {}
    query = " ".join(f"common{n}" for n in range(30)) + " " + " ".join(f"rare{n}" for n in range(20))
    for turns in (300, 3_000):
        with open_saver(tmp_path / f"{turns}.db") as saver:
            common = " ".join(f"common{n}" for n in range(30))
            head = put_texts(saver, [f"{common} rare{number}" for number in range(turns)])
            times[turns] = min(seconds(saver, head, query) for _ in range(7))
    assert times[3_000] < 4 * times[300] + 0.002


def seconds(saver: TurnSaver, head: str, query: str) -> float:
    begun = time.thread_time()
    saver.search_turns(HERE, head, query, 10, 10**6)
    return time.thread_time() - begun


# Which words


def terms(*words: str) -> list[Term]:
    return [Term(word, is_prefix=False) for word in words]


def test_the_rarest_words_first() -> None:
    rare = dict(zip(terms("a", "b", "c", "d", "e"), [3, 1, 0, 2, 9], strict=True))
    assert rarest(rare, dict) == terms("b", "d", "a", "e")


def test_common_words_fill_up_what_few_rare_ones_leave() -> None:
    rare, common = (
        dict(zip(terms("a", "b"), [0, 2], strict=True)),
        dict(zip(terms(*"wxyz"), [40, 30, 99, 60], strict=True)),
    )
    assert rarest(rare, lambda: common) == terms("b", "x", "w", "z")
    assert rarest({}, lambda: common) == terms("x", "w", "z", "y")


@FUZZ
@given(
    st.dictionaries(st.text("abcd", min_size=1, max_size=3), st.integers(0, 12), max_size=40),
    st.dictionaries(st.text("wxyz", min_size=1, max_size=3), st.integers(13, 99), max_size=40),
)
def test_few_words_and_none_that_is_nowhere(rare: dict[str, int], common: dict[str, int]) -> None:
    asked: list[Any] = []

    def count() -> dict[Term, int]:
        asked.append(1)
        return {Term(word, is_prefix=False): number for word, number in common.items()}

    known = {Term(word, is_prefix=False): number for word, number in rare.items()}
    chosen = rarest(known, count)
    occurring = [word for word, number in rare.items() if number]
    assert (
        len(chosen) == len(set(chosen)) == min(16, max(len(occurring), min(4, len(occurring) + len(common))))
    )
    counts = [{**rare, **common}[term.word] for term in chosen]
    assert counts == sorted(counts)
    assert all(counts)
    assert bool(asked) == (len(occurring) < 4)


def test_a_word_is_common_from_a_share_of_the_turns_on() -> None:
    assert [common_from(turns) for turns in (100, 1_000, 10_000)] == [11, 101, 128]
    assert query_terms("the sea") == terms("the", "sea")
