"""Values that belong to objects which cannot be hashed, such as messages; kept while the object lives."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Ref(weakref.ref[Any]):
    """A weak reference that knows where its value is kept."""

    __slots__ = ("key",)
    key: int


class IdentityCache(Generic[T]):
    """A value to an object, by the object's identity."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Ref, T]] = {}
        self.find = self._kept.get
        """Finds an entry by `id`; it belongs to whom its first part gives when it is called."""

    def get(self, owner: object) -> T | None:
        """The object's value, or None."""
        entry = self._kept.get(id(owner))
        return entry[1] if entry is not None and entry[0]() is owner else None

    def put(self, owner: object, value: T) -> None:
        """Keep a value, which must not refer to its owner."""
        reference = _Ref(owner, self._drop)
        reference.key = id(owner)
        self._kept[reference.key] = (reference, value)

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, reference: weakref.ref[Any]) -> None:
        key = reference.key if isinstance(reference, _Ref) else 0
        entry = self._kept.get(key)
        if entry is not None and entry[0] is reference:
            self._kept.pop(key, None)
