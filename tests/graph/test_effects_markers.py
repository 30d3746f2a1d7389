"""Markers on savers of other kinds: LangGraph passes over them, and looking for them has bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.graph.effects_stage import EFFECT, KINDS, Stage, opened, results
from tests.graph.saver_chat import thread
from turnflow.graph import effects, effects_markers
from turnflow.graph.effects_journal import NEW, STARTED, Effect, EffectFound
from turnflow.graph.effects_markers import MARKER, MAX_STEPS, find_marked, start_marked, withdraw_marked
from turnflow.graph.flow import drive

foreign_savers = pytest.mark.parametrize(("kind", "mode"), [one for one in KINDS if one[0] != "ours"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "effects.db"


# Through LangGraph


async def play(saver: Any, mode: str) -> list[Any]:
    """Turns with an error, a fork and an update in between; gives all states, described without ids."""
    stage = Stage(saver, mode, durability="sync")
    for turn in range(4):
        await stage.go(f"a{turn}", f"b{turn}")
    stage.act = int
    with pytest.raises(ValueError, match="breaks"):
        await stage.go("breaks")
    seen = [described(await stage.state())]
    update = {"messages": [("ai", "never mind")]}
    if mode == "async":
        await stage.graph.aupdate_state(thread("t"), update, as_node="tool")
    else:
        stage.graph.update_state(thread("t"), update, as_node="tool")
    seen.append(described(await stage.state()))
    await stage.go()
    await stage.give(None, config=await stage.before_tools())
    return [*seen, *(described(state) for state in await stage.history())]


def described(state: Any) -> Any:
    messages = [(message.type, message.text) for message in state.values.get("messages", [])]
    tasks = sorted((task.name, task.error is not None, len(task.interrupts)) for task in state.tasks)
    return messages, state.next, tasks, state.values.get("turns"), state.metadata["source"]


async def marked(saver: Any, mode: str) -> int:
    config = {"configurable": {"thread_id": "t"}}
    saved = [one async for one in saver.alist(config)] if mode == "async" else saver.list(config)
    return sum(channel == MARKER for one in saved for _, channel, _ in one.pending_writes or ())


@foreign_savers
async def test_langgraph_passes_over_markers(path: Path, kind: str, mode: str) -> None:
    async with opened(kind, path) as saver:
        with_markers = await play(saver, mode)
        assert await marked(saver, mode) == 9
    async with opened("ours", path.with_name("ours.db")) as saver:
        assert await play(saver, mode) == with_markers
        assert await marked(saver, mode) == 0


class Unfit(InMemorySaver):
    """A saver that cannot do for us what LangGraph did not ask of it."""

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        if any(channel == MARKER for channel, _ in writes):
            raise NotImplementedError
        super().put_writes(config, writes, task_id, task_path)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_saver_that_cannot_keep_markers_breaks_no_turn(
    caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    effects._warned.clear()
    stage = Stage(Unfit(), mode, durability="sync")
    await stage.go("a")
    values = await stage.go("b")
    assert results(values) == {"a": "did a", "b": "did b"}
    (warning,) = [record for record in caplog.records if record.name == "turnflow"]
    assert "Unfit cannot keep the effects journal" in warning.message


async def test_the_configuration_of_the_caller_reaches_the_saver() -> None:
    asked: list[dict[str, Any]] = []

    class Keyed(InMemorySaver):
        """Keeps what it was asked with."""

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            if any(channel == MARKER for channel, _ in writes):
                asked.append(config["configurable"])
            super().put_writes(config, writes, task_id, task_path)

    stage = Stage(Keyed(), durability="sync")
    await stage.go("a", config={"configurable": {"thread_id": "t", "tenant": "acme"}})
    (place,) = asked
    assert {*place} == {"thread_id", "tenant", "checkpoint_ns", "checkpoint_id"}
    assert (place["thread_id"], place["tenant"], place["checkpoint_ns"]) == ("t", "acme", "")


# On a saver alone


class Chain:
    """Checkpoints one behind the other, and the calls that come after the newest."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.config = thread("t")

    def put(self, *, batch: str | None = None, source: Any = "loop") -> None:
        checkpoint = empty_checkpoint()
        if batch:
            checkpoint["channel_values"]["batch"] = {"id": batch}
        self.config = self.saver.put(self.config, checkpoint, {"source": source}, {})

    def effect(self, **fields: Any) -> Effect:
        checkpoint_id = self.config["configurable"]["checkpoint_id"]
        return replace(EFFECT, **{"checkpoint_id": checkpoint_id, **fields})

    def start(self, *, again: bool = False, **fields: Any) -> EffectFound | None:
        effect = self.effect(**fields)
        return drive(start_marked(self.saver, thread("t"), effect, again=again, needs_checkpoint=True))

    def withdraw(self, **fields: Any) -> None:
        drive(withdraw_marked(self.saver, thread("t"), self.effect(**fields)))

    def write(self, task_id: str = "task") -> ToolMessage:
        result = ToolMessage("sent", tool_call_id="call", id=task_id)
        self.saver.put_writes(self.config, [("messages", [result])], task_id)
        return result

    def find(self, batch_id: str = "message") -> dict[str, EffectFound]:
        return drive(find_marked(self.saver, thread("t"), "", batch_id))


@pytest.fixture
def chain(path: Path) -> Any:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        yield Chain(saver)


def test_a_start_needs_its_checkpoint(chain: Chain) -> None:
    effect = replace(EFFECT, checkpoint_id="not there")
    for needed, expected in ((True, None), (False, NEW)):
        body = start_marked(chain.saver, thread("t"), effect, again=False, needs_checkpoint=needed)
        assert drive(body) == expected
    assert chain.find() == {}


def test_starts_and_withdrawals_follow_each_other(chain: Chain) -> None:
    chain.put()
    chain.withdraw()
    assert chain.find() == {}
    assert [chain.start(), chain.start()] == [NEW, STARTED]
    chain.withdraw()
    chain.withdraw()
    assert chain.find() == {}
    assert [chain.start(), chain.start(), chain.start(again=True)] == [NEW, STARTED, NEW]
    assert chain.find() == {"call": STARTED}
    assert chain.start(key="another", task_id="another") == NEW
    assert chain.start(key="another") == STARTED
    result = chain.write("another")
    assert chain.start(key="another") == chain.find()["call"] == EffectFound("done", result)


@pytest.mark.parametrize("source", ["fork", "update", "loop", "input"])
def test_a_fork_stands_for_the_checkpoint_before_it(chain: Chain, source: str) -> None:
    chain.put()
    chain.start()
    result = chain.write()
    chain.put(source=source)
    chain.put(source=source)
    found = chain.start(task_id="forked")
    assert found == (EffectFound("done", result) if source in {"fork", "update"} else NEW)


def test_a_call_that_was_withdrawn_last_is_not_found_further_back(chain: Chain) -> None:
    chain.put()
    chain.start()
    chain.put(source="fork")
    assert chain.start(task_id="forked", again=True) == NEW
    chain.withdraw(task_id="forked")
    assert chain.find() == {}


def test_looking_back_has_an_end(chain: Chain) -> None:
    chain.put()
    chain.start()
    for _ in range(MAX_STEPS - 1):
        chain.put()
    assert chain.find() == {"call": STARTED}
    chain.put()
    assert chain.find() == {}


def test_looking_back_ends_before_the_batch(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in ("other", "other", "message", "message", "message"):
        chain.put(batch=batch)
        if batch == "message":
            chain.start(call_id=f"call-{chain.config['configurable']['checkpoint_id']}")
    chain.put(batch="next")
    read: list[Any] = []
    get = effects_markers._get

    def counting(*place: Any) -> Any:
        read.append(place)
        return get(*place)

    monkeypatch.setattr(effects_markers, "_get", counting)
    assert len(chain.find()) == 3
    assert len(read) == 5
