"""The saver inside one process: sync and async, threads, failures, cancellation, paused readers."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from tests.graph.saver_chat import (
    SNAPSHOT_FREQUENCY,
    ChatState,
    Note,
    ask,
    assert_no_reader_is_open,
    build_chat,
    conversation,
    put_checkpoints,
    rows,
    texts,
    thread,
)
from turnflow.graph.saver import SaverError, TurnSaver, open_saver
from turnflow.graph.saver_boundary import Held, HeldWrites
from turnflow.graph.saver_rows import insert


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


@pytest.fixture
def saver(path: Path) -> Iterator[TurnSaver]:
    with open_saver(path) as opened:
        yield opened


# One saver for sync and async


async def test_invoke_and_ainvoke_share_a_thread_beyond_the_snapshot_frequency(saver: TurnSaver) -> None:
    graph = build_chat(saver)
    questions = [str(number) for number in range(3 * SNAPSHOT_FREQUENCY)]

    for number, question in enumerate(questions):
        if number % 2:
            graph.invoke(ask(question), thread("t"))
        else:
            await graph.ainvoke(ask(question), thread("t"))

    assert texts(graph.get_state(thread("t")).values) == conversation(questions)
    assert texts((await graph.aget_state(thread("t"))).values) == conversation(questions)
    stored = [saved.checkpoint["channel_values"].get("messages") for saved in saver.list(thread("t"))]
    snapshots = [value for value in stored if isinstance(value, _DeltaSnapshot)]
    assert 1 < len(snapshots) < len(stored) / 2


async def test_past_states_read_alike_from_sync_and_async(saver: TurnSaver) -> None:
    graph = build_chat(saver)
    for number in range(2 * SNAPSHOT_FREQUENCY):
        graph.invoke(ask(str(number)), thread("t"))

    history = list(graph.get_state_history(thread("t")))

    assert [state async for state in graph.aget_state_history(thread("t"))] == history
    assert [len(state.values.get("messages", [])) for state in reversed(history)][-3:] == [14, 15, 16]


async def test_delta_history_reads_alike_from_sync_and_async(saver: TurnSaver, path: Path) -> None:
    graph = build_chat(saver)
    for number in range(SNAPSHOT_FREQUENCY + 1):
        graph.invoke(ask(str(number)), thread("t"))

    history = saver.get_delta_channel_history(config=thread("t"), channels=["messages", "nothing"])

    assert isinstance(history["messages"]["seed"], _DeltaSnapshot)
    assert history["nothing"] == {"writes": []}
    again = await saver.aget_delta_channel_history(config=thread("t"), channels=["messages", "nothing"])
    assert again == history
    assert_no_reader_is_open(path)


def test_one_saver_serves_event_loops_that_follow_and_accompany_each_other(saver: TurnSaver) -> None:
    graph = build_chat(saver)

    def run_loop(question: str) -> None:
        asyncio.run(graph.ainvoke(ask(question), thread(question)))

    run_loop("first")
    run_loop("second")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run_loop, ["a", "b", "c", "d"]))

    for question in ["first", "second", "a", "b", "c", "d"]:
        assert texts(graph.get_state(thread(question)).values) == conversation([question])


async def test_many_threads_and_tasks_write_at_once(saver: TurnSaver) -> None:
    graph = build_chat(saver)
    questions = [str(number) for number in range(6)]

    def talk(name: str) -> None:
        for question in questions:
            graph.invoke(ask(question), thread(name))

    async def atalk(name: str) -> None:
        for question in questions:
            await graph.ainvoke(ask(question), thread(name))

    with ThreadPoolExecutor(8) as pool:
        talks = [pool.submit(talk, f"sync-{number}") for number in range(8)]
        await asyncio.gather(*(atalk(f"async-{number}") for number in range(8)))
        await asyncio.gather(*(asyncio.wrap_future(one) for one in talks))

    for kind in ("sync", "async"):
        for number in range(8):
            values = graph.get_state(thread(f"{kind}-{number}")).values
            assert texts(values) == conversation(questions)
            assert values["count"] == len(questions)


async def test_async_work_does_not_wait_for_the_loops_default_threads(saver: TurnSaver) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as only:
        loop.set_default_executor(only)
        release = threading.Event()
        busy = loop.run_in_executor(None, release.wait)
        async with asyncio.timeout(20):
            assert await saver.aget_tuple(thread("t")) is None
        release.set()
        await busy


async def test_deleting_a_thread_leaves_the_others(saver: TurnSaver, path: Path) -> None:
    for name in ("a", "b", "c"):
        put_checkpoints(saver, name, 2)

    saver.delete_thread("a")
    await saver.adelete_thread("b")

    assert [saver.get_tuple(thread(name)) is None for name in ("a", "b", "c")] == [True, True, False]
    assert rows(path, "checkpoints") == rows(path, "writes") == 2


# Listing


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit": 0},
        {"limit": 1},
        {"limit": 16},
        {"limit": 33},
        {"filter": {"step": 20}},
        {"filter": {"step": 99}},
    ],
)
async def test_lists_give_what_the_stock_saver_gives(
    saver: TurnSaver, path: Path, options: dict[str, Any]
) -> None:
    ids = put_checkpoints(saver, "t", 40)
    put_checkpoints(saver, "other", 3)
    before = thread("t")
    before["configurable"]["checkpoint_id"] = ids[35]
    with SqliteSaver.from_conn_string(str(path)) as stock:
        for config in (thread("t"), None):
            for until in (before, None):
                expected = list(stock.list(config, before=until, **options))
                assert list(saver.list(config, before=until, **options)) == expected
                assert [one async for one in saver.alist(config, before=until, **options)] == expected


async def test_a_paused_reader_blocks_nobody(saver: TurnSaver, path: Path) -> None:
    ids = put_checkpoints(saver, "t", 20)
    reader, areader = saver.list(thread("t")), saver.alist(thread("t"))
    next(reader)
    await anext(areader)

    async with asyncio.timeout(20):
        await saver.aput(thread("new"), empty_checkpoint(), {}, {})
        await asyncio.to_thread(saver.put, thread("newer"), empty_checkpoint(), {}, {})
    assert_no_reader_is_open(path)

    assert [one.checkpoint["id"] for one in reader] == ids[-2::-1]
    assert [one.checkpoint["id"] async for one in areader] == ids[-2::-1]


def test_what_is_deleted_while_a_reader_pauses_is_left_out(saver: TurnSaver) -> None:
    put_checkpoints(saver, "t", 3)
    reader = saver.list(thread("t"))
    next(reader)
    saver.delete_thread("t")
    assert list(reader) == []


# Failures


async def test_a_run_whose_value_cannot_be_stored_leaves_the_thread_as_it_was(saver: TurnSaver) -> None:
    graph = build_chat(saver)
    graph.invoke(ask("one"), thread("t"))

    with pytest.raises(TypeError, match="serializable"):
        graph.invoke(ask("unserialisable"), thread("sync"))
    with pytest.raises(TypeError, match="serializable"):
        await graph.ainvoke(ask("unserialisable"), thread("async"))

    graph.invoke(ask("two"), thread("t"))
    assert texts(graph.get_state(thread("t")).values) == conversation(["one", "two"])
    for name in ("sync", "async"):
        assert texts(graph.get_state(thread(name)).values) == ["unserialisable"]
        await graph.ainvoke(ask("now"), thread(name))
        assert texts(graph.get_state(thread(name)).values) == ["unserialisable", *conversation(["now"])]


class HalfwayFailingSerde(JsonPlusSerializer):
    """Gives SQLite a value that it refuses, after earlier rows of the same call went in."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if obj == "refused":
            return "msgpack", cast("bytes", object())
        return super().dumps_typed(obj)


async def test_a_failing_write_is_rolled_back_as_a_whole(path: Path) -> None:
    with open_saver(path, serde=HalfwayFailingSerde()) as saver:
        stored = saver.put(thread("t"), empty_checkpoint(), {}, {})

        with pytest.raises(sqlite3.Error):
            saver.put_writes(stored, [("a", 1), ("b", "refused")], "task")
        with pytest.raises(sqlite3.Error):
            await saver.aput_writes(stored, [("a", 1), ("b", "refused")], "task")

        saver.put_writes(stored, [("a", 2)], "other")
        saved = await saver.aget_tuple(stored)
        assert saved is not None
        assert saved.pending_writes == [("other", "a", 2)]
    assert rows(path, "writes") == 1


def test_nested_transactions_succeed_or_fail_as_one(saver: TurnSaver, path: Path) -> None:
    stored = saver.put(thread("t"), empty_checkpoint(), {}, {})

    def write_then(*, fail: bool) -> None:
        with saver.cursor():
            saver.put_writes(stored, [("a", 1)], "task")
            assert saver.get_tuple(stored) is not None
            if fail:
                raise KeyError

    with pytest.raises(KeyError):
        write_then(fail=True)
    assert rows(path, "writes") == 0
    write_then(fail=False)
    assert rows(path, "writes") == 1


def test_a_writing_transaction_keeps_other_writers_out_from_its_start(saver: TurnSaver, path: Path) -> None:
    stored = saver.put(thread("t"), empty_checkpoint(), {}, {})
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other, saver.cursor():
        saver.get_tuple(stored)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("DELETE FROM checkpoints")
        saver.put_writes(stored, [("a", 1)], "task")
    assert rows(path, "writes") == 1


# Cancellation


class Storing:
    """Stops inside the storing of a write called "pause" until it is told to go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def insert(self, cursor: sqlite3.Cursor, held: Held) -> None:
        if isinstance(held, HeldWrites) and held.task_id == "pause":
            self.entered.set()
            assert self.go_on.wait(20)
        insert(cursor, held)


@pytest.fixture
def storing(monkeypatch: pytest.MonkeyPatch) -> Storing:
    pausing = Storing()
    monkeypatch.setattr("turnflow.graph.saver.insert", pausing.insert)
    return pausing


async def test_what_a_cancelled_call_brought_is_stored_all_the_same(path: Path, storing: Storing) -> None:
    async with open_saver(path) as saver:
        stored = await saver.aput(thread("t"), empty_checkpoint(), {}, {})
        begun = asyncio.create_task(saver.aput_writes(stored, [("a", 1), ("b", 1)], "pause"))
        await asyncio.to_thread(storing.entered.wait, 20)
        waiting = asyncio.create_task(saver.aput_writes(stored, [("a", 2)], "waiting"))
        await asyncio.sleep(0)

        for task in (begun, waiting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert rows(path, "writes") == 0
        storing.go_on.set()

        saved = await saver.aget_tuple(stored)
        assert saved is not None
        assert saved.pending_writes == [("pause", "a", 1), ("pause", "b", 1), ("waiting", "a", 2)]
        assert await asyncio.to_thread(saver.get_tuple, stored) == saved, "the lock is free for other threads"


async def test_leaving_the_block_finishes_what_was_asked_for(path: Path, storing: Storing) -> None:
    async with open_saver(path) as saver:
        stored = await saver.aput(thread("t"), empty_checkpoint(), {}, {})
        begun = asyncio.create_task(saver.aput_writes(stored, [("a", 1)], "pause"))
        await asyncio.to_thread(storing.entered.wait, 20)
        begun.cancel()
        waiting = asyncio.create_task(saver.aput_writes(stored, [("a", 2)], "waiting"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, storing.go_on.set)
    await waiting
    assert rows(path, "writes") == 2
    assert not [one for one in threading.enumerate() if one.name.startswith("turnflow-saver")]


async def test_a_cancelled_run_can_be_continued(saver: TurnSaver) -> None:
    hold = True
    started = asyncio.Event()

    async def answer(state: ChatState) -> ChatState:
        if hold:
            started.set()
            await asyncio.Event().wait()
        return {"messages": [AIMessage(f"re: {state['messages'][-1].text}")]}

    builder = StateGraph(ChatState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver)
    run = asyncio.create_task(graph.ainvoke(ask("one"), thread("t")))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    hold = False
    await graph.ainvoke(None, thread("t"))

    assert texts(graph.get_state(thread("t")).values) == conversation(["one"])


# Strict msgpack


def test_a_type_of_the_state_reads_back_as_itself(saver: TurnSaver) -> None:
    graph = build_chat(saver)
    graph.invoke(ask("hello"), thread("t"))
    assert graph.get_state(thread("t")).values["note"] == Note("hello")


def test_a_copy_with_an_allow_list_shares_connection_lock_and_end(path: Path) -> None:
    with open_saver(path, serde=JsonPlusSerializer(allowed_msgpack_modules=None)) as saver:
        copied = saver.with_allowlist([(Note.__module__, Note.__name__)])
        stored = saver.put(thread("t"), empty_checkpoint(), {}, {})
        saver.put_writes(stored, [("note", Note("hello"))], "task")

        assert isinstance(copied, TurnSaver)
        assert copied is not saver
        assert copied.conn is saver.conn
        assert copied.lock is saver.lock
        seen, hidden = copied.get_tuple(stored), saver.get_tuple(stored)
        assert seen is not None
        assert hidden is not None
        assert seen.pending_writes == [("task", "note", Note("hello"))]
        assert hidden.pending_writes != seen.pending_writes
    with pytest.raises(SaverError, match="closed"):
        copied.get_tuple(stored)
