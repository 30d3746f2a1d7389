"""How a memory is named or given, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.nodes.assemble_context.memory.past_of import WordBags
from turnflow.graph.memory import MEMORY_NAMES
from turnflow.nodes.assemble_context.memory import (
    HybridMemory,
    SummaryMemory,
    VectorMemory,
    WindowMemory,
    as_memory,
)


class Own:
    """A memory of one's own."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def recall(self, query: str, record: Any, budget: int) -> list[Any]:
        return []


def test_each_name_is_a_memory_with_its_defaults() -> None:
    bags = WordBags()
    memories = [as_memory(name, bags) for name in MEMORY_NAMES]
    assert [type(memory) for memory in memories] == [WindowMemory, SummaryMemory, VectorMemory, HybridMemory]
    assert [memory.recent_turns for memory in memories] == [10, 5, 10, 5]
    assert [memory.summary_after for memory in memories] == [None, 20, None, 20]
    vector, hybrid = memories[2:]
    assert isinstance(vector, VectorMemory)
    assert isinstance(hybrid, HybridMemory)
    assert vector.embeddings is hybrid.embeddings is bags
    assert (vector.k, hybrid.k) == (4, 4)


def test_hybrid_needs_no_embeddings() -> None:
    hybrid = as_memory("hybrid", None)
    assert isinstance(hybrid, HybridMemory)
    assert hybrid.embeddings is None


def test_an_object_with_recall_is_itself() -> None:
    for own in (Own(), Own(recent_turns=0, summary_after=None), Own(recent_turns=3, summary_after=0)):
        memory: object = as_memory(own, None)
        assert memory is own


def test_vector_without_embeddings_says_what_to_do() -> None:
    with pytest.raises(
        ValueError, match=r'"vector" needs embeddings: .*LocalEmbeddings\(\).* or take "hybrid"'
    ):
        as_memory("vector", None)


@pytest.mark.parametrize("given", ["vectors", "", "Window", None, 3, object(), ["window"]])
def test_an_unknown_memory_is_refused_with_the_names(given: object) -> None:
    with pytest.raises(ValueError) as error:
        as_memory(given, None)
    assert repr(given) in str(error.value)
    assert "window, summary, vector, hybrid" in str(error.value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (Own, r"not a class: give Own\(…\)"),
        (Own(recall=3), "recall is a function of query, record and budget, not 3"),
        (Own(recent_turns=-1), "recent_turns is a whole number of at least 0, not -1"),
        (Own(recent_turns=True), "recent_turns is .*, not True"),
        (Own(recent_turns=None), "recent_turns is .*, not None"),
        (Own(recent_turns="10"), "recent_turns is .*, not '10'"),
        (Own(summary_after=2.5), "summary_after is .*, not 2.5"),
        (Own(summary_after=-1), "summary_after is .*, not -1"),
    ],
)
def test_what_is_wrong_with_an_own_memory_is_named(given: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        as_memory(given, None)


@pytest.mark.parametrize("name", MEMORY_NAMES)
@pytest.mark.parametrize("embeddings", ["all-MiniLM-L6-v2", WordBags, object()])
def test_what_is_no_embeddings_is_refused(name: str, embeddings: object) -> None:
    with pytest.raises(ValueError, match="embeddings are a LangChain `Embeddings` object"):
        as_memory(name, embeddings)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: WindowMemory(-1), "recent_turns"),
        (lambda: SummaryMemory(summary_after=-2), "summary_after"),
        (lambda: VectorMemory(WordBags(), k=0), "k is a whole number of at least 1"),
        (lambda: HybridMemory(k=1.0), "k is"),  # type: ignore[arg-type]
        (lambda: HybridMemory(min_similarity=1.5), "min_similarity"),
        (lambda: VectorMemory(WordBags(), min_similarity=float("nan")), "min_similarity"),
        (lambda: VectorMemory(None), "embeddings"),  # type: ignore[arg-type]
    ],
)
def test_a_memory_refuses_wrong_numbers(make: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()


def test_without_numpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    for name in ("vector", "hybrid"):
        with pytest.raises(ImportError, match=r'pip install "turnflow\[vectors\]"'):
            as_memory(name, WordBags())
    assert isinstance(as_memory("hybrid", None), HybridMemory)
