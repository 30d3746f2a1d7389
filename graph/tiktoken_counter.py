"""Counting with OpenAI's vocabularies, where one is on this disk already. Nothing is ever fetched."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from turnflow.graph.profile import REASONING_FIELDS
from turnflow.graph.tokens import TextCounter

logger = logging.getLogger("turnflow")

_AT = "https://openaipublic.blob.core.windows.net/encodings/"
_VOCABULARIES = {
    "o200k_base": ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    "o200k_harmony": ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    "cl100k_base": ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
}
"""File and SHA-256 of it, by the encoding's name. tiktoken fetches what is missing or has another hash."""

_PIECE = 20_000
"""Characters that are encoded at once; a word of a million would take tiktoken forever."""

_found: dict[tuple[str, str], Any | None] = {}
"""What was looked for in this process, by encoding and directory; None: it is not there."""


class TiktokenCounter(TextCounter):
    """Counts with a tiktoken encoding."""

    def __init__(
        self, encoding: Any, factor: float = 1.0, *, reasoning_fields: Collection[str] = REASONING_FIELDS
    ) -> None:
        self.encoding = encoding
        super().__init__(factor, reasoning_fields=reasoning_fields)

    def count(self, text: str) -> int:
        """Tokens of a text before the factor; what looks like a special token is text."""
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return sum(len(self.encoding.encode_ordinary(piece)) for piece in pieces)

    def shared_key(self) -> object:
        """Those with one vocabulary count alike."""
        return self.encoding.name

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TiktokenCounter)
            and other.encoding.name == self.encoding.name
            and other.factor == self.factor
            and other.reasoning_fields == self.reasoning_fields
        )

    def __hash__(self) -> int:
        return hash((self.encoding.name, self.factor, self.reasoning_fields))


def tiktoken_counter(
    model_name: str, factor: float = 1.0, *, reasoning_fields: Collection[str] = REASONING_FIELDS
) -> TiktokenCounter | None:
    """The counter with the model's vocabulary, or the newest that there is; None where there is none."""
    directory = _directory()
    if directory is None:
        return None
    for name in _encodings(model_name):
        encoding = _encoding(name, directory)
        if encoding is not None:
            return TiktokenCounter(encoding, factor, reasoning_fields=reasoning_fields)
    return None


def is_tiktoken_loaded(model_name: str) -> bool:
    """Whether `tiktoken_counter` has nothing to read any more to answer for this model."""
    directory = _directory()
    if directory is None:
        return True
    for name in _encodings(model_name):
        if (name, directory) not in _found:
            return False
        if _found[name, directory] is not None:
            return True
    return True


def _directory() -> str | None:
    """Where tiktoken keeps vocabularies; None where it is told to keep none."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return os.environ[variable] or None
    return str(Path(tempfile.gettempdir()) / "data-gym-cache")


@functools.lru_cache(maxsize=256)
def _encodings(model_name: str) -> tuple[str, ...]:
    """Names of encodings, the best first."""
    try:
        from tiktoken.model import encoding_name_for_model

        name = encoding_name_for_model(model_name)
    except (ImportError, KeyError):
        return tuple(_VOCABULARIES)
    return (name,) if name in _VOCABULARIES else ()


def _encoding(name: str, directory: str) -> Any | None:
    """The encoding whose file is there and whole; looked for once in a process."""
    key = name, directory
    if key not in _found:
        _found[key] = _read(name, directory)
    return _found[key]


def _read(name: str, directory: str) -> Any | None:
    file_name, digest = _VOCABULARIES[name]
    path = Path(directory) / hashlib.sha1(f"{_AT}{file_name}.tiktoken".encode()).hexdigest()  # noqa: S324
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            return None
        import tiktoken

        return tiktoken.get_encoding(name)
    except FileNotFoundError:
        return None
    except Exception as error:
        logger.warning("the vocabulary %s cannot be read; tokens are estimated", path, exc_info=error)
        return None
