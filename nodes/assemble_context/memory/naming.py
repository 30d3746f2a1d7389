"""The memory of a name, or the memory itself."""

from __future__ import annotations

from typing import cast

from turnflow.graph.memory import MEMORY_NAMES, Memory
from turnflow.nodes.assemble_context.memory.checks import check_embeddings, check_summary_after, check_whole
from turnflow.nodes.assemble_context.memory.hybrid import HybridMemory
from turnflow.nodes.assemble_context.memory.summary import SummaryMemory
from turnflow.nodes.assemble_context.memory.vector import VectorMemory
from turnflow.nodes.assemble_context.memory.window import WindowMemory


def as_memory(given: object, embeddings: object = None) -> Memory:
    """The memory strategy of a name, or the object itself where it has `recall`.

    Args:
        given: A name, or a memory.
        embeddings: LangChain `Embeddings`, or None; `vector` needs them, `hybrid` uses them.

    Raises:
        ValueError: There is no such memory, or something about it or the embeddings is wrong; the text names
            the value and the mend.
        ImportError: The embeddings are for a memory that compares vectors, and numpy is not installed.
    """
    if isinstance(given, str):
        return _named(given, embeddings)
    if embeddings is not None:
        check_embeddings(embeddings)
    if isinstance(given, type):
        raise ValueError(f"memory is an object, not a class: give {given.__name__}(…)")
    if given is None or not hasattr(given, "recall"):
        raise ValueError(_unknown(given))
    if not callable(given.recall):
        raise ValueError(
            f"memory {given!r}: recall is a function of query, record and budget, not {given.recall!r}"
        )
    if hasattr(given, "recent_turns"):
        check_whole("recent_turns", given.recent_turns)
    check_summary_after(getattr(given, "summary_after", None))
    return cast("Memory", given)


def _named(name: str, embeddings: object) -> Memory:
    if name not in MEMORY_NAMES:
        raise ValueError(_unknown(name))
    checked = None if embeddings is None else check_embeddings(embeddings)
    if name == "window":
        return WindowMemory()
    if name == "summary":
        return SummaryMemory()
    if name == "hybrid":
        return HybridMemory(checked)
    if checked is None:
        raise ValueError(
            'memory "vector" needs embeddings: give embeddings=…, such as LocalEmbeddings() of '
            'turnflow.apps.local_embeddings (docs/memory.md), or take "hybrid"'
        )
    return VectorMemory(checked)


def _unknown(given: object) -> str:
    names = ", ".join(MEMORY_NAMES)
    return f"memory {given!r} is not one of: {names}; or give an object with a method recall"
