"""What the saver holds back, and when it is in the file: looked at from a second connection."""

from __future__ import annotations

import asyncio
import copy
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Durability
from typing_extensions import TypedDict

from tests.graph.saver_chat import ask, build_chat, rows, texts, thread
from tests.turns.killed import GOAL, REPLIES, Scripted, calls, works
from tests.turns.stage import check_transcript
from turnflow import TurnContext, TurnHooks, arun_turn, build_turn_graph, open_saver, run_turn
from turnflow.graph import saver as saver_module
from turnflow.graph.run import is_unfinished
from turnflow.graph.saver import TurnSaver
from turnflow.graph.saver_boundary import REPEATABLE_NODES, Boundary, Held, HeldCheckpoint, HeldWrites, can_go
from turnflow.graph.saver_rows import insert
from turnflow.graph.state import LAYOUT, SNAPSHOT_EVERY

THREE_ROUNDS = (works("c1"), works("c2", "c3", "c4"), works("c5"), {"content": GOAL})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


@pytest.fixture
def saver(path: Path) -> Iterator[TurnSaver]:
    with open_saver(path) as opened:
        yield opened


def turn_graph(
    saver: Any,
    replies: Any = THREE_ROUNDS,
    *,
    on_request: Callable[[int], None] | None = None,
    on_tool: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> Any:
    def work(name: str) -> str:
        """Do some work."""
        on_tool(name)
        return f"did {name}"

    model = Scripted(replies=replies, on_request=on_request)
    # What failed to be stored is run again: these tests are about the saver, not about effects.
    given = {"policies": {"work": {"read_only": True}}, **options}
    return build_turn_graph(model, [work], checkpointer=saver, **given)


def stored_messages(path: Path, name: str = "t") -> list[BaseMessage]:
    """The transcript as another process would read it."""
    with SqliteSaver.from_conn_string(str(path)) as other:
        snapshot = turn_graph(other).get_state(thread(name))
        return list(snapshot.values.get("messages", []))


def described(messages: Sequence[BaseMessage]) -> list[Any]:
    """Messages without their ids."""
    return [
        (m.type, m.content, getattr(m, "tool_calls", None), getattr(m, "tool_call_id", None))
        for m in messages
    ]


def query(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def assert_is_whole(path: Path) -> None:
    """No row hangs on a checkpoint that is not there, and no fact is there twice."""
    known = {row[0] for row in query(path, "SELECT checkpoint_id FROM checkpoints")}
    hanging = {row[0] for row in query(path, "SELECT checkpoint_id FROM writes")} - known
    parents = {row[0] for row in query(path, "SELECT parent_checkpoint_id FROM checkpoints")} - {None}
    assert not hanging
    assert not parents - known
    assert not query(path, "SELECT 1 FROM turnflow_record GROUP BY task_id, idx HAVING count(*) > 1")


# The rules alone


def checkpoint(name: str, parent: str | None = None, *, can_go: bool = False) -> HeldCheckpoint:
    return HeldCheckpoint("t", "", name, parent, (), can_go)


def task_writes(checkpoint_id: str, node: str, *, facts: int = 0, pins: bool = False) -> HeldWrites:
    path = f"~__pregel_pull, {node}"
    rows = [(0, "channel", "msgpack", b"")]
    return HeldWrites("t", "", checkpoint_id, f"task-{node}", path, rows, [()] * facts, False, pins)


def before(*nodes: str, **channels: Any) -> dict[str, Any]:
    """The channels of a turn's checkpoint, with the nodes that come next."""
    return {"turn": {"layout": LAYOUT}, **{f"branch:to:{node}": None for node in nodes}, **channels}


def begun() -> Boundary:
    """A boundary that has seen a turn's first checkpoint stored, and its task done."""
    boundary = Boundary()
    assert not boundary.add_checkpoint(checkpoint("0"), {START: {}}, "input")
    assert boundary.add_checkpoint(checkpoint("1", "0"), before("assemble_context"), "loop")
    assert not boundary.add_writes(task_writes("1", "assemble_context"), [("turn", {"layout": LAYOUT})])
    boundary.take("t")
    return boundary


@pytest.mark.parametrize(
    ("following", "is_due"),
    [
        ("classify_label", False),
        ("repair", False),
        ("fold_checkpoint", True),
        ("assemble_context", True),
        ("finalize", True),
        ("call_llm", True),
        ("dispatch_tools", True),
    ],
)
def test_a_reply_is_held_before_quiet_nodes_alone(following: str, *, is_due: bool) -> None:
    boundary = begun()
    assert not boundary.add_checkpoint(checkpoint("2", "1"), before("call_llm"), "loop")
    assert not boundary.add_writes(task_writes("2", "call_llm"), [("turn", {"layout": LAYOUT})])
    assert boundary.add_checkpoint(checkpoint("3", "2"), before(following), "loop") is is_due


@pytest.mark.parametrize(
    ("values", "source"),
    [
        (before("classify_label"), "update"),
        (before("classify_label"), "fork"),
        (before("classify_label") | {"turn": {"layout": "another/1"}}, "loop"),
        (before("classify_label") | {"turn": "left"}, "loop"),
        (before(), "loop"),
    ],
    ids=["update", "fork", "another layout", "another graph", "the end"],
)
def test_what_is_never_held(values: dict[str, Any], source: str) -> None:
    assert begun().add_checkpoint(checkpoint("2", "1"), values, source)


def test_a_checkpoint_that_follows_another_is_not_held() -> None:
    boundary = begun()
    assert boundary.add_checkpoint(checkpoint("2", "elsewhere"), before("classify_label"), "loop")
    assert not boundary.add_checkpoint(checkpoint("3", "2"), before("classify_label"), "loop")
    boundary.forget("t")
    assert boundary.add_checkpoint(checkpoint("4", "3"), before("classify_label"), "loop")


def test_pauses_and_errors_are_due_and_so_is_what_follows() -> None:
    for channel in ("__interrupt__", "__error__", "__resume__"):
        boundary = begun()
        assert boundary.add_writes(task_writes("1", "classify_label"), [(channel, "value")])
        assert boundary.add_checkpoint(checkpoint("2", "1"), before("classify_label"), "loop")


def test_replaced_checkpoints_are_left_out_with_their_writes_but_not_with_their_facts() -> None:
    boundary = Boundary()
    kept, last = checkpoint("1"), checkpoint("4", "3")
    gone = [checkpoint("2", "1", can_go=True), checkpoint("3", "2", can_go=True)]
    silent, telling = task_writes("2", "repair"), task_writes("3", "repair", facts=1)

    boundary._held["t"] = [kept, *gone, silent, telling, last]
    _, thinned = boundary.take("t")

    assert [held.id for held in thinned if isinstance(held, HeldCheckpoint)] == ["1", "4"]
    assert [held.parent for held in thinned if isinstance(held, HeldCheckpoint)] == [None, "1"]
    (facts,) = [held for held in thinned if isinstance(held, HeldWrites)]
    assert (facts.rows, facts.facts) == ((), [()])


def test_a_checkpoint_stays_that_nothing_follows_or_that_the_transcript_hangs_on() -> None:
    boundary = Boundary()
    pinned, tip = checkpoint("1", "0", can_go=True), checkpoint("2", "1", can_go=True)
    taken: list[Held] = [pinned, task_writes("1", "classify_label", pins=True), tip]
    boundary.put_back(taken)
    assert boundary.take("t") == (taken, taken)


def test_a_checkpoint_stays_whose_part_of_the_transcript_came_before_it() -> None:
    boundary = begun()
    assert boundary.add_writes(task_writes("2", "classify_label", pins=True), [])
    boundary.take("t")
    boundary.add_checkpoint(checkpoint("2", "1", can_go=True), before("classify_label"), "loop")
    boundary.add_checkpoint(checkpoint("3", "2"), before("finalize"), "loop")
    _, thinned = boundary.take("t")
    assert [held.id for held in thinned if isinstance(held, HeldCheckpoint)] == ["2", "3"]


def test_a_checkpoint_that_failed_to_be_stored_stays() -> None:
    boundary = begun()
    assert boundary.add_writes(task_writes("2", "classify_label", pins=True), [])
    boundary.take("t")
    boundary.add_checkpoint(checkpoint("2", "1", can_go=True), before("classify_label"), "loop")
    taken, _ = boundary.take("t")
    boundary.put_back(taken)
    boundary.add_checkpoint(checkpoint("3", "2"), before("finalize"), "loop")
    _, thinned = boundary.take("t")
    assert [held.id for held in thinned if isinstance(held, HeldCheckpoint)] == ["2", "3"]


def test_nothing_is_remembered_of_a_thread_whose_turn_has_ended() -> None:
    boundary = begun()
    assert boundary.add_writes(task_writes("2", "finalize"), [])
    boundary.take("t")
    boundary.add_checkpoint(checkpoint("2", "1", can_go=True), before("finalize"), "loop")
    assert boundary.add_checkpoint(checkpoint("3", "2"), before(), "loop")
    boundary.take("t")
    assert (boundary._held, boundary._runs, boundary._early) == ({}, {}, {})


def test_late_writes_of_a_checkpoint_that_was_left_out_bring_their_facts_alone() -> None:
    boundary = begun()
    for number in (2, 3):
        held = checkpoint(str(number), str(number - 1), can_go=True)
        assert not boundary.add_checkpoint(held, before("assemble_context"), "loop")
    _, thinned = boundary.take("t")
    assert [held.id for held in thinned if isinstance(held, HeldCheckpoint)] == ["3"]
    assert not boundary.add_writes(task_writes("2", "assemble_context", facts=1), [])
    _, (late,) = boundary.take("t")
    assert isinstance(late, HeldWrites)
    assert (late.rows, late.facts) == ((), [()])


@pytest.mark.parametrize("node", ["fold_checkpoint", "dispatch_tools", "call_llm"])
def test_a_checkpoint_waits_for_the_writes_that_it_was_made_of(node: str) -> None:
    boundary = begun()
    boundary.add_checkpoint(checkpoint("2", "1"), before(node), "loop")
    boundary.take("t")
    after = checkpoint("3", "2")
    assert not boundary.add_checkpoint(after, before("assemble_context"), "loop")
    late = task_writes("2", node, facts=1)
    assert boundary.add_writes(late, [("turn", {"layout": LAYOUT})])
    assert boundary.take("t")[1] == [after, late]


def test_a_checkpoint_waits_for_all_that_is_late_and_for_nothing_else() -> None:
    boundary = begun()
    boundary.add_checkpoint(checkpoint("2", "1"), before("call_llm"), "loop")
    boundary.add_checkpoint(checkpoint("3", "2"), before("classify_label"), "loop")
    assert not boundary.add_checkpoint(checkpoint("4", "3"), before("finalize"), "loop")
    assert not boundary.add_writes(task_writes("3", "classify_label"), [])
    raised = HeldWrites("t", "", "2", "another", "", [], [()], False, False)
    assert not boundary.add_writes(raised, [])
    assert not boundary.add_writes(task_writes("1", "assemble_context"), [])
    assert boundary.add_writes(task_writes("2", "call_llm"), [("turn", {"layout": LAYOUT})])


def test_what_waits_for_writes_is_stored_with_the_next_checkpoint_and_with_a_pause() -> None:
    for channel in ("", "__interrupt__"):
        boundary = begun()
        boundary.add_checkpoint(checkpoint("2", "1"), before("fold_checkpoint"), "loop")
        boundary.take("t")
        assert not boundary.add_checkpoint(checkpoint("3", "2"), before("assemble_context"), "loop")
        if channel:
            assert boundary.add_writes(task_writes("3", "assemble_context"), [(channel, "value")])
        else:
            assert boundary.add_checkpoint(checkpoint("4", "3"), before("call_llm"), "loop")
        assert len(boundary.take("t")[0]) == 2


def test_writes_that_came_before_their_checkpoint_are_not_waited_for() -> None:
    boundary = begun()
    assert boundary.add_writes(task_writes("2", "fold_checkpoint"), [])
    boundary.add_checkpoint(checkpoint("2", "1"), before("fold_checkpoint"), "loop")
    assert boundary.add_checkpoint(checkpoint("3", "2"), before("assemble_context"), "loop")


def test_every_node_is_known_to_cost_something_or_nothing() -> None:
    nodes = {node for node in build_turn_graph("unused").nodes if node != START}
    assert nodes == REPEATABLE_NODES | {"call_llm", "dispatch_tools", "fold_checkpoint"}


def test_what_may_go() -> None:
    assert can_go(before("assemble_context"), "loop")
    assert not can_go(before("assemble_context"), "input")
    assert not can_go(before("call_llm"), "loop")
    assert not can_go(before("assemble_context", messages=[]), "loop")
    assert not can_go(before(), "loop")
    assert not can_go({"branch:to:assemble_context": None, "turn": "left"}, "loop")


def test_another_graphs_record_is_its_own(saver: TurnSaver) -> None:
    class Kept(TypedDict):
        record: list[str]
        turn: str

    builder = StateGraph(Kept)
    builder.add_node("assemble_context", lambda _: {"record": ["a", "b"]})
    builder.add_edge(START, "assemble_context")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"turn": "left", "record": []}, thread("t"))
    assert graph.get_state(thread("t")).values == {"turn": "left", "record": ["a", "b"]}
    assert list(saver.read_record("t")) == []


def test_what_was_put_back_comes_first() -> None:
    boundary = begun()
    boundary.add_checkpoint(checkpoint("2", "1"), before("call_llm"), "loop")
    taken, _ = boundary.take()
    assert not boundary.has()
    late = task_writes("2", "call_llm")
    boundary.add_writes(late, [])
    boundary.put_back(taken)
    assert boundary.take("t")[0] == [*taken, late]


# What is in the file while a turn goes on


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_boundary_finds_the_file_as_it_must_be(path: Path, mode: str, durability: Durability) -> None:
    seen: list[tuple[str, list[str]]] = []

    def look(where: object) -> None:
        seen.append((str(where), [message.type for message in stored_messages(path)]))

    with open_saver(path) as saver:
        replies = (works("c1"), works("c2"), {"content": GOAL})
        graph = turn_graph(saver, replies, on_request=look, on_tool=look)
        if mode == "sync":
            run_turn(graph, "Go.", thread_id="t", durability=durability)
        else:
            asyncio.run(arun_turn(graph, "Go.", thread_id="t", durability=durability))
    if durability == "sync":
        assert seen == [
            ("0", ["human"]),
            ("c1", ["human", "ai"]),
            ("1", ["human", "ai", "tool"]),
            ("c2", ["human", "ai", "tool", "ai"]),
            ("2", ["human", "ai", "tool", "ai", "tool"]),
        ]
    assert [m.type for m in stored_messages(path)] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert_is_whole(path)


def test_a_result_is_in_the_file_when_the_next_reply_is_asked_for(saver: TurnSaver, path: Path) -> None:
    kept: list[set[str]] = []

    def look(_: int) -> None:
        with open_saver(path) as other:
            facts = other.read_record("t")
            kept.append({fact["tool_call_id"] for fact in facts if fact["type"] == "tool.result"})

    run_turn(turn_graph(saver, on_request=look), "Go.", thread_id="t")
    assert kept == [set(), {"c1"}, {"c1", "c2", "c3", "c4"}, {"c1", "c2", "c3", "c4", "c5"}]


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize(("read_only", "transactions"), [(True, 2), (False, 3)])
def test_a_round_of_one_call_takes_few_transactions(
    path: Path, number: int, transactions: int, *, read_only: bool
) -> None:
    def commits(replies: Any) -> int:
        count = 0

        def trace(statement: str) -> None:
            nonlocal count
            count += statement == "COMMIT"

        with open_saver(path) as saver:
            saver.conn.set_trace_callback(trace)
            begin = count
            graph = turn_graph(saver, replies, policies={"work": {"read_only": read_only}})
            graph.invoke({"messages": [("user", "Go.")]}, thread(str(len(replies))), durability="sync")
            return count - begin

    replies = [works(f"c{index}") for index in range(number)]
    assert commits([*replies, {"content": GOAL}]) - commits([{"content": GOAL}]) == transactions * number


# Others on the same thread


class Foreign(TypedDict, total=False):
    turn: Any
    seen: list[str]


@pytest.mark.parametrize("turn", ["left", {"layout": "left/1"}, None])
def test_another_graphs_checkpoints_are_stored_at_once(saver: TurnSaver, path: Path, turn: Any) -> None:
    seen: list[int] = []

    def look(state: Foreign) -> Foreign:
        seen.append(rows(path, "checkpoints"))
        return {"turn": turn}

    builder = StateGraph(Foreign)
    for node in ("assemble_context", "classify_label", "finalize"):
        builder.add_node(node, look)
    builder.add_edge(START, "assemble_context")
    builder.add_edge("assemble_context", "classify_label")
    builder.add_edge("classify_label", "finalize")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"turn": turn}, thread("t"), durability="sync")
    assert seen == [2, 3, 4]
    assert rows(path, "checkpoints") == 5


def test_a_turn_inside_a_parent_is_held_and_stored_alike(saver: TurnSaver, path: Path) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("turn", turn_graph(None))
    builder.add_node("after", lambda state: {"messages": [("ai", str(len(state["messages"])))]})
    builder.add_edge(START, "turn")
    builder.add_edge("turn", "after")
    graph: Any = builder.compile(checkpointer=saver)
    for number in range(2):
        result = graph.invoke({"messages": [("user", f"Go {number}.")]}, thread("t"), durability="sync")
        check_transcript(result["messages"][:-1])
    assert graph.get_state(thread("t")).values["messages"] == result["messages"]
    with open_saver(path) as other:
        graph.checkpointer = other
        assert graph.get_state(thread("t")).values["messages"] == result["messages"]
    assert_is_whole(path)


def test_a_tool_may_run_another_graph_inside_the_thread(saver: TurnSaver, path: Path) -> None:
    inner = build_chat(cast("Any", None))
    seen: list[list[str]] = []

    def consult(question: str) -> str:
        """Ask a colleague."""
        seen.append([message.type for message in stored_messages(path)])
        return texts(inner.invoke(ask(question)))[-1]

    replies = (calls(("consult", "c1", {"question": "why?"})), {"content": GOAL})
    graph = build_turn_graph(Scripted(replies=replies), [consult], checkpointer=saver)
    result = run_turn(graph, "Go.", thread_id="t")
    assert [message.text for message in result.messages] == ["Go.", "", "re: why?", GOAL]
    assert seen == [["human", "ai"]]
    assert stored_messages(path) == result.messages
    assert len(query(path, "SELECT DISTINCT checkpoint_ns FROM checkpoints")) == 2
    assert_is_whole(path)


def test_what_others_put_on_the_thread_takes_along_what_is_held(saver: TurnSaver, path: Path) -> None:
    held: list[bool] = []

    def put_another(info: Any) -> None:
        """Put a checkpoint where the one of the join is held."""
        config = thread("t")
        config["configurable"]["checkpoint_ns"] = f"other-{info['round']}"
        saver.put(config, empty_checkpoint(), {"source": "loop"}, {})
        held.append(saver._boundary.has("t"))

    hooks = TurnHooks(before_round=put_another)
    result = run_turn(turn_graph(saver), "Go.", thread_id="t", context=TurnContext(hooks=hooks))
    assert not any(held)
    assert result.answer == GOAL
    assert stored_messages(path) == result.messages
    assert_is_whole(path)


def test_reading_the_thread_in_the_middle_of_a_turn_changes_nothing(saver: TurnSaver, path: Path) -> None:
    read: list[int] = []
    graph: Any = None

    def look(_: object) -> int:
        list(saver.list(thread("t")))
        return len(graph.get_state(thread("t")).values.get("messages", []))

    graph = turn_graph(saver, on_request=lambda number: read.append(look(number)), on_tool=look)
    hooks = TurnHooks(on_turn_start=look, before_round=look, on_tool_result=look, on_turn_end=look)
    result = run_turn(graph, "Go.", thread_id="t", context=TurnContext(hooks=hooks))
    assert (result.answer, len(result.messages)) == (GOAL, 10)
    assert read == [1, 3, 7, 9]
    assert stored_messages(path) == result.messages
    assert_is_whole(path)


# Going back


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_checkpoints_that_come_after_what_was_written_after_them(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """As `durability="async"` allows: it puts checkpoints one after the other, in the background."""
    put, aput = TurnSaver.put, TurnSaver.aput

    def late_put(*arguments: Any) -> RunnableConfig:
        time.sleep(0.003)
        return put(*arguments)

    async def late_aput(*arguments: Any) -> RunnableConfig:
        await asyncio.sleep(0.003)
        return await aput(*arguments)

    monkeypatch.setattr(TurnSaver, "put", late_put)
    monkeypatch.setattr(TurnSaver, "aput", late_aput)
    with open_saver(path) as saver:
        graph = turn_graph(saver)
        if mode == "sync":
            result = run_turn(graph, "Go.", thread_id="t", durability="async")
        else:
            result = asyncio.run(arun_turn(graph, "Go.", thread_id="t", durability="async"))
    assert described(stored_messages(path)) == described(result.messages)
    assert_is_whole(path)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_no_row_is_left_hanging(path: Path, mode: str, durability: Durability) -> None:
    with open_saver(path) as saver:
        graph = turn_graph(saver, REPLIES)
        inputs: list[Any] = ["Go.", Command(resume="blue"), "Again.", "Never mind."]
        for given_input in inputs:
            if mode == "sync":
                result = run_turn(graph, given_input, thread_id="t", durability=durability)
            else:
                result = asyncio.run(arun_turn(graph, given_input, thread_id="t", durability=durability))
        assert_is_whole(path)
    assert stored_messages(path) == result.messages
    assert_is_whole(path)


def test_each_listed_checkpoint_can_be_gone_back_to(saver: TurnSaver, path: Path) -> None:
    graph = turn_graph(saver)
    whole = described(run_turn(graph, "Go.", thread_id="t").messages)
    history = list(graph.get_state_history(thread("t")))
    known = {state.config["configurable"]["checkpoint_id"] for state in history}
    assert len(history) >= len(THREE_ROUNDS)
    for state in history:
        if state.parent_config:
            assert state.parent_config["configurable"]["checkpoint_id"] in known
        messages = described(state.values.get("messages", []))
        assert messages == whole[: len(messages)]
        loaded = graph.get_state(state.config)
        assert (loaded.values, loaded.next) == (state.values, state.next)
    for state in history:
        if state.next:
            forked = graph.invoke(None, state.config, durability="sync")
            assert described(forked["messages"]) == whole
            assert described(stored_messages(path)) == whole
    assert_is_whole(path)


def test_a_long_conversation_reads_back_beyond_the_snapshots(saver: TurnSaver, path: Path) -> None:
    replies = (*(works(f"c{index}") for index in range(60)), {"content": GOAL})
    results = []
    for kept in (saver, InMemorySaver()):
        graph = turn_graph(kept, replies, settings={"max_rounds": 61})
        asked = {"messages": [("user", "Go.")]}
        result = graph.invoke(asked, {**thread("t"), "recursion_limit": 1000}, durability="sync")
        assert result["messages"] == graph.get_state(thread("t")).values["messages"]
        results.append(described(result["messages"]))
    assert results[0] == results[1] == described(stored_messages(path))
    assert len(results[0]) > 2 * SNAPSHOT_EVERY
    assert_is_whole(path)


# Failures


class Failing:
    """Fails to store, once, when it is told to."""

    def __init__(self) -> None:
        self.is_due: Callable[[Held], bool] = lambda _: False
        self.failed = 0

    def insert(self, cursor: sqlite3.Cursor, held: Held) -> None:
        insert(cursor, held)
        if not self.failed and self.is_due(held):
            self.failed += 1
            raise sqlite3.OperationalError("disk I/O error")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    failing = Failing()
    monkeypatch.setattr(saver_module, "insert", failing.insert)
    return failing


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("number", range(1, 24, 2))
def test_what_could_not_be_stored_is_stored_by_the_next_operation(
    saver: TurnSaver, path: Path, failing: Failing, number: int, mode: str
) -> None:
    count = 0

    def is_due(_: Held) -> bool:
        nonlocal count
        count += 1
        return count == number

    ran: list[str] = []
    graph = turn_graph(saver, on_tool=ran.append)
    failing.is_due = is_due

    def go() -> None:
        asked = {"messages": [("user", "Go.")]}
        if mode == "sync":
            graph.invoke(asked, thread("t"), durability="sync")
        else:
            asyncio.run(graph.ainvoke(asked, thread("t"), durability="sync"))

    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        go()
    if is_unfinished(graph.get_state(thread("t"))):
        graph.invoke(None, thread("t"), durability="sync")
    messages = stored_messages(path)
    assert [message.type for message in messages].count("human") == 1
    check_transcript(messages)
    assert messages[-1].content == GOAL
    results = [fact["tool_call_id"] for fact in saver.read_record("t") if fact["type"] == "tool.result"]
    assert sorted(results) == ["c1", "c2", "c3", "c4", "c5"]
    assert sorted(ran) == sorted(results)
    assert_is_whole(path)


def test_a_locked_file_is_an_error_and_what_was_held_is_stored_later(saver: TurnSaver, path: Path) -> None:
    saver.conn.execute("PRAGMA busy_timeout=10")
    ran: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:

        def lock(call_id: str) -> None:
            ran.append(call_id)
            if ran == ["c1"]:
                other.execute("BEGIN IMMEDIATE")

        graph = turn_graph(saver, on_tool=lock)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            graph.invoke({"messages": [("user", "Go.")]}, thread("t"), durability="sync")
        other.execute("ROLLBACK")
    assert run_turn(graph, None, thread_id="t").answer == GOAL
    assert sorted(ran) == ["c1", "c2", "c3", "c4", "c5"]
    assert_is_whole(path)


def put_input(saver: TurnSaver, name: str = "t") -> RunnableConfig:
    """Put a checkpoint that the saver holds."""
    first = {**empty_checkpoint(), "channel_values": {START: {}}}
    return saver.put(thread(name), cast("Any", first), {"source": "input"}, {})


class RefusedSerde(JsonPlusSerializer):
    """Gives SQLite a value that it refuses."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return ("msgpack", cast("bytes", object())) if obj == "refused" else super().dumps_typed(obj)


def test_a_refused_value_does_not_take_along_what_others_wrote(path: Path) -> None:
    with open_saver(path, serde=RefusedSerde()) as saver:
        stored = saver.put(thread("t"), empty_checkpoint(), {}, {})
        with pytest.raises(sqlite3.DataError, match="not bytes"):
            saver.put_writes(stored, [("channel", "refused")], "bad")
        saver.put_writes(stored, [("channel", "result")], "good")
        saved = saver.get_tuple(stored)
        assert saved is not None
        assert saved.pending_writes == [("good", "channel", "result")]


def test_a_value_that_is_too_long_is_refused_at_once(
    saver: TurnSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnflow.graph.saver_rows.MAX_BYTES", 1000)
    stored = saver.put(thread("t"), empty_checkpoint(), {}, {})
    with pytest.raises(sqlite3.DataError, match="in thread 't' is too long: SQLite takes 1,000"):
        saver.put_writes(stored, [("channel", "x" * 1001)], "task")


def test_a_thread_that_cannot_be_stored_is_in_nobodys_way(saver: TurnSaver) -> None:
    with pytest.raises(UnicodeEncodeError):
        saver.put(thread("\ud800"), empty_checkpoint(), {}, {})
    saver.put(thread("t"), empty_checkpoint(), {}, {})
    assert saver.thread_ids() == ["t"]
    assert len(list(saver.list(None))) == 1


@pytest.mark.parametrize("node", ["call_llm", "classify_label", "dispatch_tools", "finalize"])
def test_a_run_that_stops_before_a_node_loses_nothing(path: Path, node: str) -> None:
    asked: list[int] = []
    ran: list[str] = []
    with open_saver(path) as saver:
        graph = turn_graph(saver, on_request=asked.append, on_tool=ran.append)
        given_input: Any = {"messages": [("user", "Go.")]}
        graph.invoke(given_input, thread("t"), interrupt_before=[node], durability="sync")
    with open_saver(path) as saver:
        graph = turn_graph(saver, on_request=asked.append, on_tool=ran.append)
        assert graph.get_state(thread("t")).next[0] == node
        graph.invoke(None, thread("t"), durability="sync")
    assert stored_messages(path)[-1].content == GOAL
    assert asked == [0, 1, 2, 3]
    assert sorted(ran) == ["c1", "c2", "c3", "c4", "c5"]


def test_closing_stores_what_is_held(path: Path) -> None:
    with open_saver(path) as saver:
        put_input(saver)
        assert rows(path, "checkpoints") == 0
    assert rows(path, "checkpoints") == 1


def test_closing_fails_if_what_is_held_cannot_be_stored(path: Path, failing: Failing) -> None:
    saver = TurnSaver(path)
    put_input(saver)
    failing.is_due = lambda _: True
    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        saver.close()
    saver.close()
    assert rows(path, "checkpoints") == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda saver: saver.get_tuple(thread("t")),
        lambda saver: next(saver.list(thread("t"))),
        lambda saver: next(saver.list(None)),
        lambda saver: saver.thread_ids()[0],
        lambda saver: saver.get_delta_channel_history(config=thread("t"), channels=["messages"]),
    ],
    ids=["get_tuple", "list", "list all", "thread_ids", "delta history"],
)
def test_reads_store_first(saver: TurnSaver, path: Path, read: Callable[[TurnSaver], object]) -> None:
    put_input(saver)
    assert read(saver)
    assert rows(path, "checkpoints") == 1


def test_a_deleted_thread_is_forgotten(saver: TurnSaver, path: Path) -> None:
    put_input(saver)
    put_input(saver, "other")
    saver.delete_thread("t")
    assert saver.get_tuple(thread("t")) is None
    assert saver.get_tuple(thread("other")) is not None
    run_turn(turn_graph(saver), "Go.", thread_id="t")
    saver.delete_thread("t")
    assert rows(path, "writes") == rows(path, "turnflow_record") == 0
    assert run_turn(turn_graph(saver), "Go.", thread_id="t").answer == GOAL


def test_copies_share_what_is_held(saver: TurnSaver, path: Path) -> None:
    put_input(saver)
    copied = copy.copy(saver)
    assert copied.get_tuple(thread("t")) is not None
    assert rows(path, "checkpoints") == 1
    put_input(copied, "other")
    assert saver.get_tuple(thread("other")) is not None


# Many at once


def test_many_threads_share_a_saver(saver: TurnSaver, path: Path) -> None:
    graph = turn_graph(saver)

    def play(number: int) -> list[Any]:
        return described(run_turn(graph, f"Go {number}.", thread_id=f"t{number % 8}").messages)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(play, range(8)))
        results = list(pool.map(play, range(8, 16)))
    for number, result in enumerate(results):
        assert result == described(stored_messages(path, f"t{number}"))
        assert [message[1] for message in result if message[0] == "human"] == [
            f"Go {number}.",
            f"Go {number + 8}.",
        ]
        check_transcript(stored_messages(path, f"t{number}"))
    assert_is_whole(path)


async def test_sync_and_async_runs_share_a_saver(saver: TurnSaver, path: Path) -> None:
    graph = turn_graph(saver)
    await asyncio.gather(
        *(arun_turn(graph, "Go.", thread_id=f"async-{number}") for number in range(4)),
        *(asyncio.to_thread(run_turn, graph, "Go.", thread_id=f"sync-{number}") for number in range(4)),
    )
    for mode in ("sync", "async"):
        for number in range(4):
            assert stored_messages(path, f"{mode}-{number}")[-1].content == GOAL
    assert_is_whole(path)


# Any turn


@st.composite
def turns(draw: st.DrawFn) -> tuple[dict[str, Any], ...]:
    """The replies of a turn: rounds of calls, some that ask the user, some that are broken."""
    number = iter(range(100))
    question = {"questions": [{"prompt": "Which one?"}]}
    kinds: dict[str, Callable[[str], tuple[str, str, dict[str, Any]]]] = {
        "work": lambda call_id: ("work", call_id, {"name": call_id}),
        "unknown": lambda call_id: ("nothing", call_id, {}),
        "wrong": lambda call_id: ("work", call_id, {"nome": 1}),
        "ask": lambda call_id: ("ask_user", call_id, question),
    }
    batches = draw(st.lists(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=3), max_size=4))
    rounds = [calls(*(kinds[kind](f"c{next(number)}") for kind in batch)) for batch in batches]
    return (*rounds, {"content": GOAL})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns(), st.sampled_from(["sync", "async"]), st.sampled_from(["sync", "async", "exit"]))
def test_any_turn_reads_back_as_from_memory(
    tmp_path: Path, replies: Any, mode: str, durability: Durability
) -> None:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
    states = []

    def play(kept: Any) -> Any:
        graph = turn_graph(kept, replies)
        given: Any = "Go."
        for _ in range(8):
            if mode == "async":
                result = asyncio.run(arun_turn(graph, given, thread_id="t", durability=durability))
            else:
                result = run_turn(graph, given, thread_id="t", durability=durability)
            if result.status != "paused":
                break
            given = Command(resume={interrupt.id: "blue" for interrupt in result.interrupts})
        return graph

    def state(graph: Any) -> Any:
        values = graph.get_state(thread("t")).values
        turn = {
            key: value
            for key, value in values["turn"].items()
            if "id" not in key and key not in {"on_record", "archived", "archived_input"}
        }
        outcome = {key: value for key, value in values["outcome"].items() if key != "turn_id"}
        return described(values["messages"]), turn, outcome, values["answer"]

    states.append(state(play(InMemorySaver())))
    with open_saver(path) as saver:
        play(saver)
        assert_is_whole(path)
    with open_saver(path) as other:
        states.append(state(turn_graph(other, replies)))
    assert states[0] == states[1]
