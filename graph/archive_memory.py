"""An archive in memory: for looking at turns that are still in the transcript (docs/archive.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage

from turnflow.graph.archive import Scope, TurnInfo
from turnflow.graph.archive_linked import LinkedArchive


class MemoryArchive(LinkedArchive):
    """Keeps turns for as long as it lives; messages are kept as they are, not copied."""

    def __init__(self) -> None:
        self._turns: dict[Scope, dict[str, tuple[TurnInfo, str]]] = {}
        self._said: dict[tuple[Scope, str], list[AnyMessage]] = {}
        self._known_vectors: dict[tuple[Scope, str], dict[str, bytes]] = {}

    def _info(self, scope: Scope, key: str) -> TurnInfo | None:
        found = self._turns.get(scope, {}).get(key)
        return None if found is None else found[0].copy()

    def _all(self, scope: Scope) -> dict[str, tuple[TurnInfo, str]]:
        return {key: (info.copy(), text) for key, (info, text) in self._turns.get(scope, {}).items()}

    def _messages(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[AnyMessage]]:
        return {key: list(self._said[scope, key]) for key in keys if (scope, key) in self._said}

    def _keep(self, scope: Scope, info: TurnInfo, text: str, messages: list[AnyMessage]) -> None:
        self._said[scope, info["key"]] = messages
        self._turns.setdefault(scope, {})[info["key"]] = (info, text)

    def _vectors(self, scope: Scope, model: str) -> dict[str, bytes]:
        return self._known_vectors.get((scope, model), {})

    def _keep_vectors(self, scope: Scope, model: str, vectors: Mapping[str, bytes]) -> None:
        self._known_vectors.setdefault((scope, model), {}).update(vectors)
