"""The numbers and the embeddings that memories are given."""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

SUMMARY_AFTER = 20
"""`summary_after` of the memories that keep a summary."""
RECENT_SUMMED_UP = 5
"""`recent_turns` of the memories that keep a summary."""
RECALLED_TURNS = 4
"""`k` of the memories that recall."""

_HOW_TO_INSTALL = 'pip install "turnflow[vectors]"'


def check_whole(name: str, given: object, least: int = 0) -> int:
    """The number, if it is a whole one and large enough.

    Raises:
        ValueError: It is not; the text names it.
    """
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ValueError(f"memory: {name} is a whole number of at least {least}, not {given!r}")
    return given


def check_summary_after(given: object) -> int | None:
    """The number of messages, or None.

    Raises:
        ValueError: It is neither; the text names it.
    """
    return None if given is None else check_whole("summary_after", given)


def check_similarity(given: object) -> float:
    """The cosine.

    Raises:
        ValueError: It is none that a text could have; the text names it.
    """
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValueError(f"memory: min_similarity is a number from 0 to 1, not {given!r}")
    if not 0 <= given <= 1:
        raise ValueError(f"memory: min_similarity is a number from 0 to 1, not {given!r}")
    return float(given)


def check_embeddings(given: object) -> Embeddings:
    """The embeddings, if they look like LangChain's and there is numpy to compare vectors with.

    Raises:
        ValueError: They do not; the text names the mend.
        ImportError: numpy is not installed; the text names the extra.
    """
    is_usable = all(callable(getattr(given, name, None)) for name in ("embed_documents", "embed_query"))
    if isinstance(given, type) or not is_usable:
        raise ValueError(
            "embeddings are a LangChain `Embeddings` object, with embed_documents and embed_query, "
            f"not {given!r}"
        )
    if importlib.util.find_spec("numpy") is None:
        raise ImportError(f"a memory with embeddings needs numpy, which is not installed: {_HOW_TO_INSTALL}")
    return cast("Embeddings", given)
