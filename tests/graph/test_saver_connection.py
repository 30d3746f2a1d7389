"""Files that a saver opens or refuses, and the errors that say why."""

import copy
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.graph.saver_chat import (
    SNAPSHOT_FREQUENCY,
    ask,
    build_chat,
    conversation,
    put_checkpoints,
    texts,
    thread,
)
from turnflow.graph import saver_connection
from turnflow.graph.saver import SaverError, TurnSaver, open_saver


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


# Files


def test_a_file_of_the_stock_saver_is_read_on_and_the_other_way_round(path: Path) -> None:
    questions = [str(number) for number in range(SNAPSHOT_FREQUENCY + 2)]
    for number, question in enumerate(questions):
        opened = open_saver(path) if number % 2 else SqliteSaver.from_conn_string(str(path))
        with opened as saver:
            graph = build_chat(saver)
            graph.invoke(ask(question), thread("t"))
            assert texts(graph.get_state(thread("t")).values) == conversation(questions[: number + 1])


def test_a_file_from_before_task_paths_is_upgraded(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as stock:
        (checkpoint_id,) = put_checkpoints(stock, "t", 1)
        stock.conn.execute("ALTER TABLE writes DROP COLUMN task_path")
        stock.conn.commit()

    with open_saver(path) as saver:
        saved = saver.get_tuple(thread("t"))
        assert saved is not None
        assert saved.checkpoint["id"] == checkpoint_id
        assert saved.pending_writes == [("task-0", "channel", 0)]
        put_checkpoints(saver, "t", 1)


@pytest.mark.parametrize("as_type", [str, Path])
def test_a_path_may_be_text_or_a_path(path: Path, as_type: Callable[[Path], str | Path]) -> None:
    with open_saver(as_type(path)) as saver:
        put_checkpoints(saver, "t", 1)
    with open_saver(path) as saver:
        assert saver.get_tuple(thread("t")) is not None


async def test_memory_lasts_as_long_as_its_block() -> None:
    context = open_saver(":memory:")
    async with context as saver:
        graph = build_chat(saver)
        await graph.ainvoke(ask("one"), thread("t"))
        assert texts(graph.get_state(thread("t")).values) == conversation(["one"])
    with context as saver:
        assert saver.get_tuple(thread("t")) is None


def test_a_saver_made_without_a_block_is_closed_by_hand(path: Path) -> None:
    saver = TurnSaver(path)
    put_checkpoints(saver, "t", 1)
    saver.close()
    saver.close()
    with TurnSaver.from_conn_string(str(path)) as again:
        assert again.get_tuple(thread("t")) is not None


@pytest.mark.parametrize(("synchronous", "level"), [("NORMAL", 1), ("FULL", 2)])
def test_durability_is_chosen_by_name(path: Path, synchronous: Any, level: int) -> None:
    with open_saver(path, synchronous=synchronous) as saver:
        assert saver.conn.execute("PRAGMA synchronous").fetchone()[0] == level
        assert saver.conn.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert saver.conn.execute("PRAGMA busy_timeout").fetchone()[0] == 30_000


@pytest.mark.parametrize("synchronous", ["OFF", "normal", "", None, 1])
def test_an_unknown_durability_is_refused_by_name(path: Path, synchronous: Any) -> None:
    with pytest.raises(ValueError, match=f"synchronous={synchronous!r}.*NORMAL and FULL"):
        open_saver(path, synchronous=synchronous).__enter__()
    assert not path.exists()


# Errors


def assert_refused(path: str | Path, *words: str) -> None:
    with pytest.raises(SaverError) as raised:
        open_saver(path).__enter__()
    text = str(raised.value)
    assert "\n" not in text
    for word in (str(path), *words):
        assert word in text


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    assert_refused(tmp_path / "missing" / "chat.db", str(tmp_path / "missing"), "create it")
    assert not (tmp_path / "missing").exists()


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    assert_refused(tmp_path, "is a directory", "path of a file")


def test_an_empty_path_is_refused() -> None:
    assert_refused("", "empty", ":memory:")


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    text = "These are notes, not a database.\n" * 100
    path.write_text(text)
    assert_refused(path, "not an SQLite database")
    assert path.read_text() == text


def test_another_programs_tables_are_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE writes (author TEXT, book TEXT)")
    assert_refused(path, "another program's table 'writes'")
    with closing(sqlite3.connect(path)) as connection:
        assert len(connection.execute("PRAGMA table_info(writes)").fetchall()) == 2
        assert connection.execute("PRAGMA table_info(checkpoints)").fetchall() == []


def test_a_file_that_stays_locked_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver_connection, "BUSY_TIMEOUT", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE fresh (x)")
        connection.execute("BEGIN EXCLUSIVE")
        assert_refused(path, "locked by another process", "try again")
    with open_saver(path) as saver:
        connection = sqlite3.connect(path, isolation_level=None)
        with closing(connection):
            connection.execute("BEGIN IMMEDIATE")
            assert_refused(path, "locked by another process", "try again")
        put_checkpoints(saver, "t", 1)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions do not bind root, under which tests may run: be nobody for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("file_mode", [0o444, 0o000, 0o666])
def test_a_file_that_cannot_be_written_is_refused(file_mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.db"
        with open_saver(path) as saver:
            put_checkpoints(saver, "t", 1)
        path.chmod(file_mode)
        Path(folder).chmod(0o555 if file_mode == 0o666 else 0o777)
        with unprivileged():
            assert_refused(path, "make the file and its directory", "writable")
        Path(folder).chmod(0o755)


async def test_a_closed_saver_says_so(path: Path) -> None:
    with open_saver(path) as saver:
        put_checkpoints(saver, "t", 1)
        reader, areader = saver.list(thread("t")), saver.alist(thread("t"))
    copied = copy.copy(saver)

    with pytest.raises(SaverError, match=r"chat\.db: this saver is closed.*open_saver"):
        saver.get_tuple(thread("t"))
    with pytest.raises(SaverError, match="closed"):
        await saver.aget_tuple(thread("t"))
    with pytest.raises(SaverError, match="closed"):
        saver.put(thread("t"), empty_checkpoint(), {}, {})
    with pytest.raises(SaverError, match="closed"):
        copied.delete_thread("t")
    with pytest.raises(SaverError, match="closed"):
        next(reader)
    with pytest.raises(SaverError, match="closed"):
        await anext(areader)
    with pytest.raises(SaverError, match="closed"):
        build_chat(saver).invoke(ask("one"), thread("t"))
