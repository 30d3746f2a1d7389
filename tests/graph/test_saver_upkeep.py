"""Whole threads, runs and files: pruning, copying, deleting for runs, collecting what belongs to nothing."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from tests.graph.effects_stage import EFFECT
from tests.graph.saver_chat import (
    SNAPSHOT_FREQUENCY,
    ask,
    assert_no_reader_is_open,
    build_chat,
    conversation,
    put_checkpoints,
    rows,
    texts,
    thread,
)
from tests.graph.saver_turns import build_turns, said
from tests.graph.test_archive import fill, found, ids
from tests.graph.test_effects_saver import Xor
from tests.graph.test_saver_boundary import assert_is_whole, query
from turnflow.graph import saver_collect
from turnflow.graph.archive import Scope
from turnflow.graph.langgraph_access import checkpoint_time
from turnflow.graph.saver import TurnSaver, open_saver
from turnflow.graph.saver_tables import TABLES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


@pytest.fixture
def saver(path: Path) -> Iterator[TurnSaver]:
    with open_saver(path) as opened:
        yield opened


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a moment old counts as old."""
    monkeypatch.setattr(saver_collect, "GRACE", -60.0)


def counts(path: Path, name: str) -> dict[str, int]:
    """Rows of a thread, by table."""
    tables = ["checkpoints", "writes", *TABLES]
    with closing(sqlite3.connect(path)) as other:
        return {
            table: other.execute(f"SELECT count(*) FROM {table} WHERE thread_id = ?", (name,)).fetchone()[0]  # noqa: S608
            for table in tables
        }


def whole_thread(saver: TurnSaver, name: str = "t") -> list[str]:
    """A thread with rows in every table; gives the keys of its turns."""
    graph = build_turns(saver)
    for number in range(3):
        graph.invoke(said(str(number)), thread(name), durability="sync")
        if not number:
            first = graph.get_state(thread(name)).config
            saver.put_writes(first, [("turnflow_record", [{"type": "old"}, {"type": "older"}])], "first")
    newest = graph.get_state(thread(name)).config
    effect = replace(EFFECT, thread_id=name, checkpoint_id=newest["configurable"]["checkpoint_id"])
    saver.start_effect(effect)
    saver.put_writes(newest, [("turnflow_record", [{"type": "one"}, {"type": "two"}])], "facts")
    saver.keep_result(name, "handle", "a long result " * 200)
    keys = fill(saver, ["one", "two"], scope=Scope(name, ""))
    keys += fill(saver, ["three"], keys[0], 1, Scope(name, ""))
    saver.put_vectors(Scope(name, ""), "model", {keys[0]: [1.0]})
    return keys


# Pruning by hand


@pytest.mark.parametrize("number", [1, SNAPSHOT_FREQUENCY, SNAPSHOT_FREQUENCY + 1, 11])
def test_the_latest_checkpoint_is_read_as_before(saver: TurnSaver, path: Path, number: int) -> None:
    graph = build_chat(saver)
    questions = [str(count) for count in range(number)]
    for question in questions:
        graph.invoke(ask(question), thread("t"))
    before = rows(path, "checkpoints")
    saver.prune(["t", "unknown"])
    assert texts(graph.get_state(thread("t")).values) == conversation(questions)
    assert rows(path, "checkpoints") <= min(before, 3 * SNAPSHOT_FREQUENCY + 1)
    graph.invoke(ask("more"), thread("t"))
    assert texts(graph.get_state(thread("t")).values) == conversation([*questions, "more"])
    assert_is_whole(path)


async def test_pruning_keeps_what_was_said_and_removes_what_led_there(saver: TurnSaver, path: Path) -> None:
    keys = whole_thread(saver)
    await saver.aprune(["t"])
    left = counts(path, "t")
    assert left["checkpoints"] == left["turnflow_turns"] == 1
    assert (left["turnflow_record"], left["turnflow_packs"]) == (3, 1)
    assert left["turnflow_archive"] == len(keys)
    assert saver.find_result("t", "handle")


def test_a_pruned_conversation_is_pruned_on_as_turns_begin(path: Path) -> None:
    with open_saver(path, keep_turns=3, full_turns=1) as saver:
        graph = build_turns(saver)
        for number in range(4):
            graph.invoke(said(str(number)), thread("t"), durability="sync")
        saver.prune(["t"])
        for number in range(4, 9):
            graph.invoke(said(str(number)), thread("t"), durability="sync")
        assert query(path, "SELECT turn_id FROM turnflow_turns") == [("turn-6",), ("turn-7",), ("turn-8",)]
        assert len([m for m in graph.get_state(thread("t")).values["messages"] if m.type == "human"]) == 3


def test_pruning_by_deleting(saver: TurnSaver, path: Path) -> None:
    whole_thread(saver, "t")
    whole_thread(saver, "other")
    before = counts(path, "other")
    saver.prune(["t"], strategy="delete")
    assert not any(counts(path, "t").values())
    assert counts(path, "other") == before


def test_an_unknown_strategy_is_refused(saver: TurnSaver, path: Path) -> None:
    put_checkpoints(saver, "t", 3)
    with pytest.raises(ValueError, match="keep_latest"):
        saver.prune(["t"], strategy="keep_some")
    assert rows(path, "checkpoints") == 3


# Copies


@pytest.mark.parametrize("serde", [None, EncryptedSerializer(Xor())], ids=["plain", "encrypted"])
async def test_a_copy_has_all_of_a_thread(path: Path, serde: Any) -> None:
    async with open_saver(path, serde=serde) as saver:
        keys = whole_thread(saver)
        fill(saver, ["more"], scope=Scope("last", ""))
        saver.inbox("t").put("What waits for the thread does not wait for its copy.")
        before = counts(path, "t")
        await saver.acopy_thread("t", "copy")
        assert counts(path, "t") == {**counts(path, "copy"), "turnflow_inbox": 1} == before
        assert all(before.values())
        graph, scope = build_turns(saver), Scope("copy", "")
        assert list(graph.get_state_history(thread("copy"))) != []
        assert graph.get_state(thread("copy")).values == graph.get_state(thread("t")).values
        assert saver.find_result("copy", "handle") == saver.find_result("t", "handle")
        facts = [{**fact, "seq": 0} for fact in saver.read_record("t")]
        assert [{**fact, "seq": 0} for fact in saver.read_record("copy")] == facts
        assert ids(saver.turn_infos(scope, keys[1])) == ["one", "two"]
        assert ids(saver.read_turns(scope, keys[2])) == ["one", "three"]
        assert found(saver, keys[2], "two three", scope=scope) == [1]
        assert saver.find_effects("copy", "", EFFECT.batch_id) == saver.find_effects("t", "", EFFECT.batch_id)
        # And it has its own life.
        graph.invoke(said("on"), thread("copy"))
        fill(saver, ["four"], keys[2], 2, scope)
        saver.delete_thread("t")
        assert ids(saver.turn_infos(scope, keys[2])) == ["one", "three"]
        assert found(saver, keys[2], "one", scope=scope) == [0]
        assert "on" in [m.id for m in graph.get_state(thread("copy")).values["messages"]]


@pytest.mark.parametrize("target", ["t", "other"])
def test_a_thread_is_not_copied_over_another(saver: TurnSaver, path: Path, target: str) -> None:
    put_checkpoints(saver, "t", 2)
    saver.keep_result("other", "handle", "text")
    with pytest.raises(ValueError, match="already"):
        saver.copy_thread("t", target)
    assert rows(path, "checkpoints") == 2


# Runs


def run_of(name: str, run: str) -> RunnableConfig:
    return {**thread(name), "metadata": {"run_id": run}}


def test_what_other_runs_are_read_from_stays(saver: TurnSaver, path: Path) -> None:
    graph = build_chat(saver)
    runs = [f"run-{number}" for number in range(SNAPSHOT_FREQUENCY + 3)]
    for run in runs:
        graph.invoke(ask(run), run_of("t", run), durability="sync")
    saver.delete_for_runs(runs[:-1])
    assert texts(graph.get_state(thread("t")).values) == conversation(runs)
    left = {saved.metadata.get("run_id") for saved in saver.list(thread("t"))}
    assert {runs[0], *runs[-1:]} - left == {runs[0]}
    assert_is_whole(path)


async def test_the_last_run_is_taken_back(saver: TurnSaver, path: Path) -> None:
    graph = build_chat(saver)
    for run in ("one", "two", 'odd "\\ %'):
        graph.invoke(ask(run), run_of("t", run), durability="sync")
    await saver.adelete_for_runs(['odd "\\ %', "unknown"])
    assert texts(graph.get_state(thread("t")).values) == conversation(["one", "two"])
    await saver.adelete_for_runs(["two"])
    assert texts(graph.get_state(thread("t")).values) == conversation(["one"])
    assert_is_whole(path)


def test_a_run_named_elsewhere_in_the_metadata_is_not_meant(saver: TurnSaver, path: Path) -> None:
    saver.put(thread("t"), empty_checkpoint(), {"source": "loop", "note": "run"}, {})  # type: ignore[typeddict-unknown-key]
    saver.conn.execute(
        "INSERT INTO checkpoints VALUES ('odd', '', '1', NULL, '', x'', '\"run\" and no JSON')"
    )
    saver.delete_for_runs(["run"])
    assert rows(path, "checkpoints") == 2


# Collecting


@pytest.mark.usefixtures("no_grace")
def test_what_belongs_to_nothing_goes(saver: TurnSaver, path: Path) -> None:
    whole_thread(saver, "kept")
    before = counts(path, "kept")
    whole_thread(saver, "gone")
    saver.conn.execute("DELETE FROM checkpoints WHERE thread_id = 'gone'")
    parent, child = put_checkpoints(saver, "sub", 2), {"": ""}
    for namespace, of in (
        ("node:1", parent[0]),
        ("node:2", parent[1]),
        ("node:2|in:3", "lost"),
        ("stable", "lost"),
    ):
        above = namespace.rpartition("|")[0]
        config: Any = {"configurable": {"thread_id": "sub", "checkpoint_ns": namespace}}
        stored = saver.put(config, empty_checkpoint(), {"parents": {**child, above: of}}, {})
        saver.put_writes(stored, [("channel", 1)], "task")
    saver.conn.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (parent[0],))

    counted = saver.collect(vacuum=False)

    assert not any(counts(path, "gone").values())
    assert counts(path, "kept") == before
    left = {row[0] for row in query(path, "SELECT checkpoint_ns FROM checkpoints WHERE thread_id = 'sub'")}
    assert left == {"", "node:2", "stable"}
    assert counted == {"threads": 0, "remains": 1, "namespaces": 2, "checkpoints": 2, "writes": 3, "bytes": 0}
    assert saver.collect(vacuum=False) == dict.fromkeys(counted, 0)


async def test_what_may_be_on_its_way_stays(saver: TurnSaver, path: Path) -> None:
    early = {
        "configurable": {"thread_id": "new", "checkpoint_ns": "", "checkpoint_id": empty_checkpoint()["id"]}
    }
    saver.put_writes(early, [("channel", 1)], "task")  # type: ignore[arg-type]
    fill(saver, ["one"], scope=Scope("new", ""))
    turn_time = saver.conn.execute("UPDATE turnflow_archive SET time = ?", (time.time(),))
    assert turn_time.rowcount == 1
    assert not any((await saver.acollect(vacuum=False)).values())
    assert rows(path, "writes") == rows(path, "turnflow_archive") == 1


def test_threads_that_were_not_active_go_on_request(saver: TurnSaver, path: Path) -> None:
    put_checkpoints(saver, "t", 2)
    put_checkpoints(saver, "active", 2)
    saver.conn.execute(
        "UPDATE checkpoints SET checkpoint_id = '1e' || substr(checkpoint_id, 3) WHERE thread_id = 't'"
    )
    odd: Any = {**empty_checkpoint(), "id": "no time in it"}
    saver.put(thread("odd"), odd, {}, {})
    assert saver.collect(older_than=10**10, vacuum=False)["threads"] == 0
    assert saver.collect(older_than=3600, vacuum=False)["threads"] == 1
    assert sorted(saver.thread_ids()) == ["active", "odd"]
    with pytest.raises(ValueError, match="negative"):
        saver.collect(older_than=-1)


def test_the_time_of_a_checkpoint_is_in_its_id() -> None:
    before = time.time()
    when = checkpoint_time(empty_checkpoint()["id"])
    assert when is not None
    assert before - 1 < when < time.time() + 1
    assert checkpoint_time("1") is checkpoint_time("00000000-0000-4000-8000-000000000000") is None


@pytest.mark.parametrize("kept_track", [True, False], ids=["fresh file", "file from before"])
def test_the_file_becomes_smaller(path: Path, *, kept_track: bool) -> None:
    if not kept_track:
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE mine (x)")
    with open_saver(path) as saver:
        assert saver.conn.execute("PRAGMA auto_vacuum").fetchone() == (2 if kept_track else 0,)
        for number in range(40):
            saver.keep_result("gone", str(number), secrets.token_hex(20_000))
        put_checkpoints(saver, "t", 2)
        saver.delete_thread("gone")
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.stat().st_size
        counted = saver.collect()
        assert counted["bytes"] > before / 2
        assert path.stat().st_size < before / 2
        assert saver.conn.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert saver.collect()["bytes"] == 0
        assert len(list(saver.list(None))) == 2
    assert_no_reader_is_open(path)
