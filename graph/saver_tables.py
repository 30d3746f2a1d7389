"""The tables that the saver keeps beside LangGraph's (docs/storage.md)."""

from __future__ import annotations

import sqlite3

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
    "turnflow_packs": """CREATE TABLE IF NOT EXISTS turnflow_packs (
    thread_id TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    numbers TEXT NOT NULL,
    graph TEXT NOT NULL,
    turn_key TEXT NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL
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
    "turnflow_inbox": """CREATE TABLE IF NOT EXISTS turnflow_inbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id TEXT NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (thread_id, id)
)""",
    "turnflow_archive": """CREATE TABLE IF NOT EXISTS turnflow_archive (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id TEXT NOT NULL,
    graph TEXT NOT NULL,
    key TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    input_id TEXT NOT NULL,
    parent TEXT NOT NULL,
    position INTEGER NOT NULL,
    line INTEGER NOT NULL,
    status TEXT NOT NULL,
    time REAL NOT NULL,
    message_count INTEGER NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    text_type TEXT NOT NULL,
    text BLOB NOT NULL,
    indexed INTEGER NOT NULL,
    UNIQUE (thread_id, graph, key)
)""",
    "turnflow_vectors": """CREATE TABLE IF NOT EXISTS turnflow_vectors (
    thread_id TEXT NOT NULL,
    graph TEXT NOT NULL,
    model TEXT NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (thread_id, graph, model, key)
)""",
    "turnflow_turns": """CREATE TABLE IF NOT EXISTS turnflow_turns (
    thread_id TEXT NOT NULL,
    graph TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    step TEXT NOT NULL,
    first TEXT NOT NULL,
    is_whole INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (thread_id, graph, checkpoint_ns, turn_id)
) WITHOUT ROWID""",
}
"""The statement that makes each table, by name. All have a column `thread_id`."""

_INDEXES = (
    "CREATE INDEX IF NOT EXISTS turnflow_record_order ON turnflow_record (thread_id)",
    "CREATE INDEX IF NOT EXISTS turnflow_packs_order ON turnflow_packs (thread_id, first, last)",
    "CREATE INDEX IF NOT EXISTS turnflow_archive_line ON turnflow_archive (thread_id, graph, line, position)",
    """CREATE INDEX IF NOT EXISTS turnflow_archive_rest
    ON turnflow_archive (thread_id, graph) WHERE NOT indexed""",
    # Covers what is asked of checkpoints without their values.
    """CREATE INDEX IF NOT EXISTS turnflow_checkpoints
    ON checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata)""",
)

_WORDS = """CREATE VIRTUAL TABLE IF NOT EXISTS turnflow_words
USING fts5(scope, text, content='', tokenize="unicode61 remove_diacritics 0")"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Make what is missing of the tables, but for LangGraph's own, which must be there."""
    for statement in (*TABLES.values(), *_INDEXES):
        connection.execute(statement)
    if can_index(connection):
        connection.execute(_WORDS)


def can_index(connection: sqlite3.Connection) -> bool:
    """Whether this Python's SQLite has full-text search."""
    try:
        connection.execute("SELECT fts5_source_id()")
    except sqlite3.OperationalError:
        return False
    return True
