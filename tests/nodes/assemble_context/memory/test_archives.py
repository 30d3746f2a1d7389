"""Recall from each kind of archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from langgraph.store.memory import InMemoryStore

from tests.nodes.assemble_context.memory.past_of import WordBags, chatter, past_of
from turnflow.graph.archive import Archive
from turnflow.graph.archive_memory import MemoryArchive
from turnflow.graph.archive_store import StoreArchive
from turnflow.graph.memory import Memory
from turnflow.graph.saver import open_saver
from turnflow.nodes.assemble_context.memory import HybridMemory, VectorMemory

FACT = ("By the way, the code of the garden gate is 4711.", "Noted.")
CHINESE_FACT = ("花园大门的密码是四七一一。", "好的，我记住了。")

MEMORIES: dict[str, Callable[[], Memory]] = {
    "vector": lambda: VectorMemory(WordBags()),
    "hybrid by words": HybridMemory,
    "hybrid with embeddings": lambda: HybridMemory(WordBags()),
}


@pytest.fixture(params=["memory", "store", "sqlite"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    if request.param == "sqlite":
        with open_saver(tmp_path / "threads.sqlite") as saver:
            yield saver
    else:
        yield MemoryArchive() if request.param == "memory" else StoreArchive(InMemoryStore())


@pytest.mark.parametrize("make", MEMORIES.values(), ids=MEMORIES)
def test_facts_are_found_in_each_archive(make: Callable[[], Memory], archive: Archive) -> None:
    past = past_of(*chatter(60), FACT, CHINESE_FACT, *chatter(60), archive=archive)
    memory = make()
    for question, place in (("What is the code of the garden gate?", 60), ("花园大门的密码是多少？", 61)):
        for _ in range(2):  # vectors are made the first time, and read the second
            found = list(memory.recall(question, past, 1500))  # type: ignore[arg-type]
            assert place in [each["position"] for each in found]
            assert len(found) <= 4


def test_a_branch_does_not_recall_what_another_one_said(archive: Archive) -> None:
    past = past_of(*chatter(5), FACT, archive=archive)
    other = past_of(*chatter(5), archive=archive)
    question = "What is the code of the garden gate?"
    for make in MEMORIES.values():
        assert [each["position"] for each in make().recall(question, past, 1500)] == [5]  # type: ignore[union-attr]
        assert list(make().recall(question, other, 1500)) == []  # type: ignore[arg-type]
