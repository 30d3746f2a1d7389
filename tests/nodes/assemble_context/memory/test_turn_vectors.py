"""Vectors of turns: made once, kept, and compared whatever embeddings give."""

from __future__ import annotations

import logging
import math
import time
from array import array

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, ToolMessage

from tests.nodes.assemble_context.memory.past_of import SCOPE, WordBags, chatter, past_of, turn
from turnflow.graph.archive import Scope
from turnflow.graph.archive_memory import MemoryArchive
from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.memory import HybridMemory, VectorMemory
from turnflow.nodes.assemble_context.memory.turn_vectors import BATCH, MOST_EMBEDDED, model_key, similar_turns

FACT = ("By the way, the code of the garden gate is 4711.", "Noted.")
QUESTION = "What is the code of the garden gate?"


class Fixed(Embeddings):
    """Gives vectors by a text's words; `query` for questions."""

    def __init__(self, query: list[float], **vectors: list[float]) -> None:
        self.query = query
        self.vectors = vectors

    def embed_query(self, text: str) -> list[float]:
        return self.query

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [next(vector for word, vector in self.vectors.items() if word in text) for text in texts]


def found(embeddings: Embeddings, past: Past, question: str = QUESTION, limit: int = 4) -> list[int]:
    return [position for _, position in similar_turns(embeddings, question, past, limit=limit)]


def test_each_turn_is_embedded_once() -> None:
    bags = WordBags()
    past = past_of(FACT, *chatter(40))
    assert found(bags, past) == [0]
    assert len(bags.embedded) == 41
    assert found(bags, past) == [0]
    assert len(bags.embedded) == 41
    past.archive.put_turn(SCOPE, turn(41, "The gate is shut.", "Yes.", parent=past.head), "")
    longer = Past(past.archive, past.scope, "key-41", 42, past.counter)
    found(bags, longer)
    assert bags.embedded[41:] == ["User: The gate is shut.\nAssistant: Yes."]


def test_the_newest_are_embedded_first_and_the_rest_later(caplog: pytest.LogCaptureFixture) -> None:
    bags = WordBags()
    past = past_of(FACT, *chatter(MOST_EMBEDDED + 9), FACT)
    with caplog.at_level(logging.INFO, "turnflow"):
        assert found(bags, past) == [MOST_EMBEDDED + 10]
    assert "11 turns of thread have no vectors yet" in caplog.text
    assert len(bags.embedded) == MOST_EMBEDDED
    assert max(bags.batches) == BATCH
    assert FACT[0] in bags.embedded[0] or FACT[0] in bags.embedded[BATCH - 1]
    caplog.clear()
    assert found(bags, past) == [MOST_EMBEDDED + 10, 0]
    assert len(bags.embedded) == MOST_EMBEDDED + 11
    assert not caplog.records


def test_what_was_embedded_before_a_failure_is_kept() -> None:
    class Away(WordBags):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            if len(self.batches) == 2:
                raise ConnectionError("the embeddings are away")
            return super().embed_documents(texts)

    for kind in (VectorMemory, HybridMemory):
        past = past_of(*chatter(BATCH * 3))
        with pytest.raises(ConnectionError, match="away"):
            kind(Away()).recall(QUESTION, past, 1000)
        again = Away()
        kind(again).recall(QUESTION, past, 1000)
        assert len(again.embedded) == BATCH


def test_models_are_told_apart() -> None:
    past = past_of(FACT, *chatter(5))
    for number, bags in enumerate((WordBags("one"), WordBags("two"), WordBags("two", size=128)), start=1):
        assert found(bags, past) == [0]
        assert len(bags.embedded) == 6, number
    again = WordBags("one")
    assert found(again, past) == [0]
    assert again.embedded == []
    assert model_key(again, 256) == "WordBags:one:256"
    assert model_key(Fixed([1.0]), 1) == "Fixed::1"


@pytest.mark.parametrize("broken", [b"", b"\0" * 4, b"\0" * 1025])
def test_stored_vectors_of_another_length_are_made_again(broken: bytes) -> None:
    bags = WordBags()
    past = past_of(FACT, *chatter(5))

    class Broken(MemoryArchive):
        def read_vectors(
            self, scope: Scope, head: str, model: str, before: int
        ) -> dict[str, tuple[int, bytes]]:
            kept = super().read_vectors(scope, head, model, before)
            return {key: (at, broken if key == "key-0" else blob) for key, (at, blob) in kept.items()}

    found(bags, past)
    damaged = Broken()
    damaged.__dict__.update(past.archive.__dict__)
    assert found(bags, Past(damaged, past.scope, past.head, past.before, past.counter)) == [0]
    assert len(bags.embedded) == 7


@pytest.mark.parametrize("odd", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [-1.0, 0.0]])
def test_vectors_that_point_nowhere_are_like_nothing(odd: list[float]) -> None:
    past = past_of(("odd",), ("good",), ("good too",))
    assert found(Fixed([1.0, 0.0], odd=odd, good=[1.0, 0.1]), past) == [2, 1]


@pytest.mark.parametrize("query", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 0.0]])
def test_a_question_that_points_nowhere_finds_nothing(query: list[float]) -> None:
    assert found(Fixed(query, good=[1.0, 0.0]), past_of(("good",))) == []


def test_sizes_of_numbers_do_not_matter() -> None:
    past = past_of(("tiny",), ("huge",), ("other",))
    embeddings = Fixed([1e200, 0.0], tiny=[1e-200, 0.0], huge=[1e300, 1e300], other=[0.0, 1.0])
    assert found(embeddings, past) == [0, 1]


@pytest.mark.parametrize(
    ("embeddings", "named"),
    [
        (Fixed([1.0, 0.0], good=[1.0]), "1 vectors of 1 numbers for 1 texts, and 2 numbers"),
        (Fixed([], good=[1.0]), "gave no vectors"),
        (Fixed(["x"], good=[1.0]), "no numbers"),  # type: ignore[list-item]
        (Fixed([[1.0], [1.0, 2.0]], good=[1.0]), "several lengths"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_vector_is_named(embeddings: Embeddings, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        found(embeddings, past_of(("good",)))


def test_too_few_vectors_are_named() -> None:
    class Forgets(WordBags):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return super().embed_documents(texts)[1:]

    with pytest.raises(ValueError, match="4 vectors of 256 numbers for 5 texts"):
        found(Forgets(), past_of(*chatter(5)))


def test_a_turn_in_which_nothing_was_said_is_done() -> None:
    bags = WordBags()
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    silent = (ToolMessage("gate", tool_call_id="c1"), AIMessage("", tool_calls=[call]))
    past = past_of(silent, FACT)
    assert found(bags, past) == [1]
    assert found(bags, past) == [1]
    assert len(bags.embedded) == 1
    only_silent = past_of(silent)
    assert found(bags, only_silent) == []
    assert len(bags.embedded) == 1


def test_a_fact_deep_in_a_long_turn_is_found() -> None:
    filler = "And so it goes on about rivers and bridges. " * 40
    past = past_of(
        *chatter(20), (f"{filler} The code of the garden gate is 4711. {filler}", "Long."), *chatter(20)
    )
    assert found(WordBags(), past) == [20]


def test_of_a_huge_text_only_so_much_is_embedded() -> None:
    bags = WordBags()
    found(bags, past_of(("garden " * 100_000, "gate " * 100_000)), "gate " * 100_000)
    assert sum(map(len, bags.embedded)) <= 8 * 800
    assert max(map(len, bags.asked)) <= 810


@pytest.mark.parametrize(("floor", "expected"), [(0.0, [0, 1]), (0.6, [0, 1]), (0.8, [0]), (0.99, [])])
def test_turns_that_are_less_alike_than_the_least_are_left_out(floor: float, expected: list[int]) -> None:
    embeddings = Fixed([1.0, 0.0], near=[0.9, 0.436], fair=[0.7, 0.714], far=[0.3, 0.954])
    past = past_of(("near",), ("fair",), ("far",))
    hits = similar_turns(embeddings, "near?", past, limit=4, min_similarity=floor)
    assert [position for _, position in hits] == expected


def test_a_thousand_turns_take_milliseconds() -> None:
    bags = WordBags(size=384)
    past = past_of(*chatter(1000))
    numbers = {f"key-{number}": [1.0 / (number + 1)] * 384 for number in range(1000)}
    past.keep_vectors(model_key(bags, 384), numbers)

    class Still(MemoryArchive):
        """Gives at once what it would read."""

        def read_vectors(
            self, scope: Scope, head: str, model: str, before: int
        ) -> dict[str, tuple[int, bytes]]:
            return stored

    stored = {key: (int(key[4:]), array("f", vector).tobytes()) for key, vector in numbers.items()}
    still = Past(Still(), past.scope, past.head, past.before, past.counter)

    def seconds() -> float:
        start = time.thread_time()
        similar_turns(bags, QUESTION, still, limit=4)
        return time.thread_time() - start

    assert min(seconds() for _ in range(5)) < 0.05
    assert bags.embedded == []
