"""Where whole results are kept: in the saver, the store, or the process; never found by another thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from turnflow import open_saver
from turnflow.graph.flow import NodeRun
from turnflow.graph.resources import TurnResources
from turnflow.graph.result_shelf import FindResult, KeepResult, Shelf, is_handle, result_handle

HANDLE = result_handle("m", "c")


class Saver:
    """Keeps results as a saver of ours does."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}

    def keep_result(self, thread_id: str, handle: str, value: Any) -> None:
        self.kept[thread_id, handle] = value

    async def akeep_result(self, thread_id: str, handle: str, value: Any) -> None:
        self.keep_result(thread_id, handle, value)

    def find_result(self, thread_id: str, handle: str) -> Any:
        return self.kept.get((thread_id, handle))

    async def afind_result(self, thread_id: str, handle: str) -> Any:
        return self.find_result(thread_id, handle)


def made_run(
    *, thread: str | None = None, session: str = "", saver: Any = None, store: BaseStore | None = None
) -> NodeRun:
    configurable: dict[str, Any] = {
        "__pregel_checkpointer": saver,
        "__pregel_read": lambda *_, **__: {},
        "__pregel_read_state": lambda: {"turn": {"session_id": session}},
    }
    if thread is not None:
        configurable["thread_id"] = thread
    resources = TurnResources(make_model=None, registries=None)  # type: ignore[arg-type]
    return NodeRun(resources, {"configurable": configurable}, Runtime(store=store))


def places() -> list[dict[str, Any]]:
    return [{}, {"saver": Saver()}, {"store": InMemoryStore()}, {"saver": object(), "store": InMemoryStore()}]


PLACES = pytest.mark.parametrize("place", places(), ids=["process", "saver", "store", "foreign saver"])


@PLACES
def test_what_was_kept_is_found_in_its_thread_alone(place: dict[str, Any]) -> None:
    mine, other = made_run(thread="a.b", **place), made_run(thread="a", **place)
    assert KeepResult(mine, HANDLE, "text").call()
    assert FindResult(mine, HANDLE).call() == "text"
    assert asyncio.run(FindResult(mine, HANDLE).acall()) == "text"
    assert FindResult(other, HANDLE).call() is None
    assert FindResult(mine, result_handle("m", "d")).call() is None
    assert asyncio.run(KeepResult(mine, HANDLE, "newer").acall())
    assert FindResult(mine, HANDLE).call() == "newer"


def test_the_saver_comes_before_the_store() -> None:
    saver, store = Saver(), InMemoryStore()
    assert KeepResult(made_run(thread="t", saver=saver, store=store), HANDLE, "text").call()
    assert saver.kept == {("t", HANDLE): "text"}
    assert store.search(("turnflow",)) == []


@pytest.mark.parametrize("pair", [("a.b", "a%2Eb"), ("a\0", "a%00"), ("", "%"), ("a", "a.")])
def test_each_session_has_a_part_of_the_store_of_its_own(pair: tuple[str, str]) -> None:
    store = InMemoryStore()
    for thread in pair:
        assert KeepResult(made_run(thread=thread, store=store), HANDLE, repr(thread)).call()
    for thread in pair:
        assert FindResult(made_run(thread=thread, store=store), HANDLE).call() == repr(thread)


def test_turns_without_a_thread_have_their_sessions() -> None:
    one, two = made_run(session="one"), made_run(session="two")
    assert KeepResult(one, HANDLE, "text").call()
    assert FindResult(one, HANDLE).call() == "text"
    assert FindResult(two, HANDLE).call() is None


@pytest.mark.parametrize("place", [{"saver": Saver()}, {"store": InMemoryStore()}], ids=["saver", "store"])
def test_what_is_no_text_is_not_found(place: dict[str, Any]) -> None:
    run = made_run(thread="t", **place)
    KeepResult(run, HANDLE, 5).call()  # type: ignore[arg-type]
    assert FindResult(run, HANDLE).call() is None


@pytest.mark.parametrize(
    "handle", ["", "r", "R0123456789", "r0123456789 ", "r012345678g", "\ud800", "r" * 11]
)
def test_only_handles_are_looked_for(handle: str) -> None:
    saver = Saver()
    saver.kept["t", handle] = "text"
    assert not is_handle(handle)
    assert FindResult(made_run(thread="t", saver=saver), handle).call() is None
    assert asyncio.run(FindResult(made_run(thread="t", saver=saver), handle).acall()) is None


class FullSaver(Saver):
    def keep_result(self, *_: Any) -> None:
        raise OSError("no space left on device")

    def find_result(self, *_: Any) -> Any:
        raise OSError("gone")


class FullStore(InMemoryStore):
    def batch(self, _: Any) -> Any:
        raise OSError("no space left on device")

    async def abatch(self, _: Any) -> Any:
        raise OSError("no space left on device")


@pytest.mark.parametrize("place", [{"saver": FullSaver()}, {"store": FullStore()}], ids=["saver", "store"])
def test_a_failure_is_logged_and_breaks_nothing(
    place: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    run = made_run(thread="t", **place)
    with caplog.at_level(logging.WARNING):
        assert KeepResult(run, HANDLE, "text").call() is False
        assert asyncio.run(KeepResult(run, HANDLE, "text").acall()) is False
        assert FindResult(run, HANDLE).call() is None
        assert asyncio.run(FindResult(run, HANDLE).acall()) is None
    assert [record.message.split(";")[0] for record in caplog.records] == [
        *["a long result could not be kept"] * 2,
        *["a kept result could not be read"] * 2,
    ]


def test_a_result_that_is_too_large_for_the_process_is_not_kept() -> None:
    assert KeepResult(made_run(thread="t"), HANDLE, "x" * 70_000_000).call() is False


def test_the_least_recently_used_go_first() -> None:
    shelf = Shelf(max_bytes=3500)
    for handle in "abc":
        shelf.keep("s", handle, handle * 1000)
    assert shelf.find("s", "a") == "a" * 1000
    shelf.keep("s", "d", "d" * 1000)
    assert [handle for handle in "abcd" if shelf.find("s", handle)] == ["a", "c", "d"]
    shelf.keep("s", "a", "new")
    shelf.keep("s", "e", "e" * 1000)
    assert [handle for handle in "acde" if shelf.find("s", handle)] == ["a", "c", "d", "e"]
    with pytest.raises(ValueError, match="too large"):
        shelf.keep("s", "f", "f" * 3500)


def test_many_threads_may_keep_and_find() -> None:
    shelf = Shelf(max_bytes=20_000)
    wrong: list[str] = []

    def work(name: str) -> None:
        for number in range(300):
            shelf.keep(name, str(number), name * 1000)
            found = shelf.find(name, str(number))
            if found not in {None, name * 1000}:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sum(shelf.find(name, str(n)) is not None for name in "abcd" for n in range(300)) in range(10, 20)


def test_our_own_saver_keeps_results_in_its_file(tmp_path: Path) -> None:
    text = "ü" * 100_000
    with open_saver(tmp_path / "threads.sqlite") as saver:
        assert KeepResult(made_run(thread="a", saver=saver), HANDLE, text).call()
    with open_saver(tmp_path / "threads.sqlite") as saver:
        mine, other = made_run(thread="a", saver=saver), made_run(thread="b", saver=saver)
        assert FindResult(mine, HANDLE).call() == text
        assert asyncio.run(FindResult(mine, HANDLE).acall()) == text
        assert FindResult(other, HANDLE).call() is None
