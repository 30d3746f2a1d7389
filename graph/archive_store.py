"""The archive in a LangGraph store, for graphs with another saver than turnflow's (docs/archive.md)."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, cast

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import BaseStore, GetOp, Op, PutOp

from turnflow.graph.archive import Scope, TurnInfo
from turnflow.graph.archive_linked import LinkedArchive, info_of

ROOT = "turnflow_archive"
"""The first part of every namespace."""

_PAGE = 200
"""Items per question to the store."""


class StoreArchive(LinkedArchive):
    """Keeps turns as items of a store; an item is found by thread, graph and key.

    Namespaces are `(ROOT, thread, graph, kind)` with digests for thread and graph, so that ids may be any
    text. Items hold JSON only, are never embedded by the store, and do not expire.
    """

    def __init__(self, store: BaseStore, *, serde: SerializerProtocol | None = None) -> None:
        self._store = store
        self._serde = serde or JsonPlusSerializer()

    def _info(self, scope: Scope, key: str) -> TurnInfo | None:
        item = self._store.get(_namespace(scope, "turns"), _item_key(key))
        return None if item is None else info_of(item.value)

    def _all(self, scope: Scope) -> dict[str, tuple[TurnInfo, str]]:
        items = self._items(_namespace(scope, "turns"))
        return {value["key"]: (info_of(value), str(value["text"])) for value in items}

    def _messages(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[AnyMessage]]:
        place = _namespace(scope, "messages")
        found: dict[str, list[AnyMessage]] = {}
        for start in range(0, len(keys), _PAGE):
            page = keys[start : start + _PAGE]
            for key, item in zip(
                page, self._batch([GetOp(place, _item_key(key)) for key in page]), strict=True
            ):
                if item is not None:
                    found[key] = self._loaded(item.value)
        return found

    def _keep(self, scope: Scope, info: TurnInfo, text: str, messages: list[AnyMessage]) -> None:
        kind, value = self._serde.dumps_typed(messages)
        packed = {"type": kind, "value": _text_of(zlib.compress(value))}
        whole = {**info, "text": text, "thread_id": scope.thread_id, "graph": scope.graph}
        # A turn counts as archived once the second item is there; a store may not take both or none.
        places = (("messages", packed), ("turns", whole))
        self._batch([_put(_namespace(scope, kind), info["key"], value) for kind, value in places])

    def _vectors(self, scope: Scope, model: str) -> dict[str, bytes]:
        items = self._items((*_namespace(scope, "vectors"), _digest(model)))
        return {value["key"]: b64decode(value["value"]) for value in items}

    def _keep_vectors(self, scope: Scope, model: str, vectors: Mapping[str, bytes]) -> None:
        place = (*_namespace(scope, "vectors"), _digest(model))
        items = (
            _put(place, key, {"key": key, "model": model, "value": _text_of(vector)})
            for key, vector in vectors.items()
        )
        while page := list(islice(items, _PAGE)):
            self._batch(page)

    def _loaded(self, value: Mapping[str, Any]) -> list[AnyMessage]:
        data = zlib.decompress(b64decode(value["value"]))
        return cast("list[AnyMessage]", self._serde.loads_typed((value["type"], data)))

    def _batch(self, operations: Sequence[Op]) -> list[Any]:
        return list(self._store.batch(operations))

    def _items(self, place: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        start = 0
        while True:
            page = self._store.search(place, limit=_PAGE, offset=start)
            for item in page:
                yield item.value
            if len(page) < _PAGE:
                return
            start += _PAGE


def _namespace(scope: Scope, kind: str) -> tuple[str, str, str, str]:
    return (ROOT, _digest(scope.thread_id), _digest(scope.graph), kind)


def _put(place: tuple[str, ...], key: str, value: dict[str, Any]) -> PutOp:
    return PutOp(place, _item_key(key), value, index=False, ttl=None)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _item_key(key: str) -> str:
    """A key that any store takes."""
    return key if key.isascii() and key.isprintable() else _digest(key)


def _text_of(value: bytes) -> str:
    return b64encode(value).decode()
