"""Reading the record: in pages, from a place on, compressed or not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from tests.graph.saver_chat import assert_no_reader_is_open, thread
from tests.graph.test_effects_saver import Xor
from tests.graph.test_saver_boundary import query
from turnflow.graph.saver import TurnSaver, open_saver
from turnflow.graph.saver_values import packed, unpacked
from turnflow.graph.state import RECORD


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.db"


def put_facts(saver: TurnSaver, number: int, name: str = "t", *, task: str = "task", **more: Any) -> None:
    config = saver.put(thread(name), empty_checkpoint(), {}, {})
    facts = [{"type": "fact", "number": count, **more} for count in range(number)]
    saver.put_writes(config, [(RECORD, facts)], task)


async def test_a_long_record_is_read_in_pages(path: Path) -> None:
    with open_saver(path) as saver:
        put_facts(saver, 3, "other")
        put_facts(saver, 1_000)
        facts = list(saver.read_record("t"))
        assert [fact["number"] for fact in facts] == list(range(1_000))
        assert [fact async for fact in saver.aread_record("t")] == facts
        assert list(saver.read_record("t", after=facts[600]["seq"])) == facts[601:]
        assert [fact async for fact in saver.aread_record("t", after=facts[998]["seq"])] == facts[999:]
        assert list(saver.read_record("t", after=facts[-1]["seq"])) == []
        assert list(saver.read_record("unknown")) == []


def test_nothing_is_held_while_the_reader_pauses(path: Path) -> None:
    with open_saver(path) as saver:
        put_facts(saver, 500)
        reader = saver.read_record("t")
        first = next(reader)
        assert_no_reader_is_open(path)
        put_facts(saver, 1, task="later")
        assert len(list(reader)) == 500
        assert first["number"] == 0


def test_a_page_is_found_by_the_index(path: Path) -> None:
    with open_saver(path) as saver:
        plan = saver.conn.execute(
            "EXPLAIN QUERY PLAN SELECT seq FROM turnflow_record "
            "WHERE thread_id = 't' AND seq > 5 ORDER BY seq LIMIT 9"
        ).fetchall()
    assert "turnflow_record_order (thread_id=? AND rowid>?)" in plan[0][-1]
    assert len(plan) == 1, "and needs no sorting"


def test_large_facts_are_compressed_and_old_ones_are_still_read(path: Path) -> None:
    big = {"text": "word " * 10_000}
    with open_saver(path) as saver:
        put_facts(saver, 1, **big)
        put_facts(saver, 1, "small")
    assert query(path, "SELECT type FROM turnflow_record") == [("msgpack:zlib",), ("msgpack",)]
    assert query(path, "SELECT max(length(value)) FROM turnflow_record")[0][0] < 1_000
    kind, value = JsonPlusSerializer().dumps_typed({"type": "old", **big})
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("INSERT INTO turnflow_record VALUES (99, 't', '', 'old', 0, ?, ?)", (kind, value))
    with open_saver(path) as saver:
        facts = list(saver.read_record("t"))
        assert [fact["type"] for fact in facts] == ["fact", "old"]
        assert facts[0]["text"] == facts[1]["text"] == big["text"]


def test_what_is_encrypted_is_not_compressed(path: Path) -> None:
    with open_saver(path, serde=EncryptedSerializer(Xor())) as saver:
        put_facts(saver, 1, text="the secret word " * 1_000)
        saver.keep_result("t", "handle", "the secret word " * 1_000)
        assert len(next(saver.read_record("t"))["text"]) == 16_000
        assert saver.find_result("t", "handle") == "the secret word " * 1_000
    assert query(path, "SELECT type FROM turnflow_record") == [("msgpack+xor",)]
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize(
    "value", ["", "short", "汉字 \x00 " * 5_000, b"\x00" * 5_000, None, {"a": [1.5, None] * 900}]
)
def test_any_value_comes_back(value: Any) -> None:
    serde = JsonPlusSerializer()
    assert unpacked(serde, *packed(serde, value)) == value
