"""What was read of replies whose run was broken off: kept for a while, per saver, and taken once."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from turnflow.graph import partial_replies
from turnflow.graph.outcome import NO_USAGE
from turnflow.graph.partial_replies import MOST_KEPT, is_broken_off, keep_partial, take_partial


def run_on(saver: Any, thread: str = "t") -> Any:
    """What of a node's run is looked at."""
    config = {"configurable": {"__pregel_checkpointer": saver}}
    return SimpleNamespace(config=config, thread_id=thread, namespace="")


def partial(text: str) -> Any:
    return {"text": text}, dict(NO_USAGE)


def test_a_reply_is_taken_once_by_its_own_thread_and_saver() -> None:
    saver = InMemorySaver()
    keep_partial(run_on(saver), "m", lambda: partial("It is"))
    assert take_partial(run_on(saver, "u"), "m") is None
    assert take_partial(run_on(InMemorySaver()), "m") is None
    assert take_partial(run_on(saver), "n") is None
    assert take_partial(run_on(saver), "m") == partial("It is")
    assert take_partial(run_on(saver), "m") is None


def test_so_many_are_kept_and_no_more() -> None:
    saver = InMemorySaver()
    for number in range(MOST_KEPT + 2):
        keep_partial(run_on(saver), str(number), lambda: partial("It is"))
    found = [number for number in range(MOST_KEPT + 2) if take_partial(run_on(saver), str(number))]
    assert found == list(range(2, MOST_KEPT + 2))


def test_they_go_with_their_saver() -> None:
    saver = InMemorySaver()
    before = len(partial_replies._kept)
    keep_partial(run_on(saver), "m", lambda: partial("It is"))
    assert len(partial_replies._kept) == before + 1
    del saver
    gc.collect()
    assert len(partial_replies._kept) == before


@pytest.mark.parametrize("text", ["", " \n"])
def test_what_shows_nothing_is_not_kept(text: str) -> None:
    saver = InMemorySaver()
    keep_partial(run_on(saver), "m", lambda: partial(text))
    assert take_partial(run_on(saver), "m") is None


def test_nothing_is_kept_where_nothing_is_saved_nor_raised_where_reading_fails() -> None:
    def fails() -> Any:
        raise ValueError("no")

    keep_partial(run_on(None), "m", fails)
    saver = InMemorySaver()
    keep_partial(run_on(saver), "m", fails)
    keep_partial(run_on({}), "m", lambda: partial("It is"))  # takes no weak references
    savers: list[Any] = [None, saver, {}]
    for each in savers:
        assert take_partial(run_on(each), "m") is None


def test_what_breaks_off() -> None:
    assert is_broken_off(KeyboardInterrupt())
    assert is_broken_off(SystemExit())
    assert not is_broken_off(ValueError())
    assert not is_broken_off(asyncio.CancelledError())  # a model raised it

    async def waits() -> bool:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError as error:
            return is_broken_off(error)
        return False

    async def main() -> bool:
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main())
