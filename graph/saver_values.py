"""Large values of the saver's own tables: compressed where that makes them smaller (docs/storage.md)."""

from __future__ import annotations

import zlib
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_COMPRESSED = ":zlib"
"""What the type of a compressed value ends with."""

_SMALL = 1_000
"""Bytes below which it is not worth the time."""


def is_readable(serde: SerializerProtocol) -> bool:
    """Whether a serializer is known to hide nothing.

    What another one gives may be encrypted, so it is neither compressed nor taken into an index.
    """
    return type(serde).dumps_typed is JsonPlusSerializer.dumps_typed


def packed(serde: SerializerProtocol, value: Any) -> tuple[str, bytes]:
    """A value's type and bytes, as a row holds them."""
    kind, data = serde.dumps_typed(value)
    if len(data) >= _SMALL and is_readable(serde):
        smaller = zlib.compress(data)
        if len(smaller) < len(data):
            return kind + _COMPRESSED, smaller
    return kind, data


def unpacked(serde: SerializerProtocol, kind: str, data: bytes) -> Any:
    """The value of a row, compressed or not."""
    return serde.loads_typed(unzipped(kind, data))


def unzipped(kind: str, data: bytes) -> tuple[str, bytes]:
    """A row's type and bytes as the serializer gave them."""
    if kind.endswith(_COMPRESSED):
        return kind.removesuffix(_COMPRESSED), zlib.decompress(data)
    return kind, data
