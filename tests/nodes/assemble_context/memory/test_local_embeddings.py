"""Recall with the packaged embedding model; skipped only where the extra is not installed."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.nodes.assemble_context.memory.past_of import chatter, past_of
from turnflow.apps.local_embeddings import DIMENSIONS, LocalEmbeddings, local_embeddings_missing
from turnflow.nodes.assemble_context.memory import HybridMemory, VectorMemory, as_memory

pytestmark = [
    pytest.mark.skipif(
        local_embeddings_missing() is not None, reason="the extra `embeddings` is not installed"
    ),
    pytest.mark.timeout(300),
]

FACTS = {
    "How do I open the garden gate?": ("By the way, the code of the garden gate is 4711.", "Noted."),
    "Which nuts make my daughter ill?": (
        "Ida, my girl, is allergic to walnuts.",
        "I will keep that in mind.",
    ),
    "When may we deploy?": ("New releases go out on Thursdays only.", "Understood."),
}


@pytest.fixture(scope="module")
def embeddings() -> LocalEmbeddings:
    return LocalEmbeddings().load()


@pytest.mark.parametrize("question", FACTS)
def test_a_fact_said_in_other_words_is_found_among_200_turns(
    embeddings: LocalEmbeddings, question: str
) -> None:
    turns: list[tuple[str, str]] = chatter(200)
    turns.insert(90, FACTS[question])
    past = past_of(*turns)
    for memory in (VectorMemory(embeddings), HybridMemory(embeddings)):
        found = memory.recall(question, past, 1500)
        assert 90 in [each["position"] for each in found]
        assert len(found) <= 4


def test_what_has_nothing_to_do_with_the_question_is_not_recalled(embeddings: LocalEmbeddings) -> None:
    past = past_of(*FACTS.values(), *chatter(50))
    assert as_memory("vector", embeddings).recall("Who won the chess tournament in 1972?", past, 1500) == []


def test_vectors_have_length_one_and_do_not_depend_on_their_neighbours(embeddings: LocalEmbeddings) -> None:
    texts = ["The gate is shut.", "a", "", "long " * 2000]
    together = embeddings.embed_documents(texts)
    assert [len(vector) for vector in together] == [DIMENSIONS] * 4
    for text, vector in zip(texts, together, strict=True):
        assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-4)
        assert embeddings.embed_query(text) == pytest.approx(vector, abs=1e-4)
    assert embeddings.embed_documents([]) == []


def test_threads_share_it(embeddings: LocalEmbeddings) -> None:
    texts = [f"Text number {number}." for number in range(16)]
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(LocalEmbeddings().embed_query, texts))
    assert vectors == [pytest.approx(embeddings.embed_query(text), abs=1e-4) for text in texts]


def test_loading_says_nothing_and_asks_no_network() -> None:
    program = """
import socket

def refuse(*args, **kwargs):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from turnflow.apps.local_embeddings import LocalEmbeddings
from transformers.utils import logging
print(len(LocalEmbeddings().embed_query("hello")), logging.is_progress_bar_enabled())
"""
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (child.stdout, child.stderr) == ("384 True\n", "")
