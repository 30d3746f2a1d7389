"""Which archive a run has: its saver's, else its store's, else none (docs/archive.md)."""

from __future__ import annotations

from turnflow.graph.archive import Archive
from turnflow.graph.archive_store import StoreArchive
from turnflow.graph.flow import NodeRun
from turnflow.graph.langgraph_access import saver_of
from turnflow.graph.saver_archive import ArchiveStore


def archive_of(run: NodeRun) -> Archive | None:
    """Where a run's turns are archived; None where neither its saver nor a store keeps them."""
    saver = saver_of(run.config)
    if isinstance(saver, ArchiveStore):
        return saver
    store = getattr(run.runtime, "store", None)
    return None if store is None else StoreArchive(store)
