"""The tables that the saver keeps beside LangGraph's (docs/storage.md)."""

from __future__ import annotations

TABLES = {
    "turnflow_record": """CREATE TABLE IF NOT EXISTS turnflow_record (
    seq INTEGER PRIMARY KEY,
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL,
    task_id TEXT NOT NULL,
    idx INTEGER NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (thread_id, checkpoint_ns, task_id, idx)
)""",
    "turnflow_effects": """CREATE TABLE IF NOT EXISTS turnflow_effects (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL,
    batch_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    task_id TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    started REAL NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, batch_id, call_id, key)
) WITHOUT ROWID""",
    "turnflow_results": """CREATE TABLE IF NOT EXISTS turnflow_results (
    thread_id TEXT NOT NULL,
    handle TEXT NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (thread_id, handle)
)""",
}
"""The statement that makes each table, by name. All have a column `thread_id`."""
