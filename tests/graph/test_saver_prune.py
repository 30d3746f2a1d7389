"""What goes from the file when a turn begins: never what is kept, or read from, or somebody else's."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from tests.graph.effects_stage import EFFECT
from tests.graph.saver_chat import ask, build_chat, conversation, rows, texts, thread
from tests.graph.saver_turns import WINDOW, build_turns, said
from tests.graph.test_saver_boundary import assert_is_whole, query
from turnflow.graph import saver_prune
from turnflow.graph.effects_journal import STARTED, EffectFound
from turnflow.graph.saver import TurnSaver, open_saver

FUZZ = settings(
    max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


def talk(graph: Any, first: int, number: int, name: str = "t", durability: str = "sync") -> None:
    for count in range(first, first + number):
        graph.invoke(said(str(count)), thread(name), durability=durability)


def steps(saver: SqliteSaver, name: str = "t") -> list[tuple[str, int]]:
    """Source and step of each checkpoint of a thread, oldest first."""
    found = [saved.metadata for saved in saver.list(thread(name))]
    return [(str(one["source"]), int(one["step"])) for one in reversed(found)]


def stored_turns(path: Path) -> list[tuple[str, int]]:
    return query(path, "SELECT turn_id, is_whole FROM turnflow_turns ORDER BY step")


# What is kept


def test_of_old_turns_the_ends_are_kept_and_of_older_ones_nothing(path: Path) -> None:
    with open_saver(path, keep_turns=4, full_turns=2) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 8)
        history = list(graph.get_state_history(thread("t")))[::-1]
        kept = [state.values["turn"]["id"] for state in history if not state.next]
        # The oldest input is read from the end of the turn before it.
        assert kept == ["turn-3", "turn-4", "turn-5", "turn-6", "turn-7"]
        sources = [state.metadata["source"] for state in history]
        assert sources[:5] == ["loop", "input", "loop", "input", "loop"]
        assert sources.count("input") == 4
        with open_saver(path, keep_turns=None) as other:
            talk(build_turns(other), 0, 2, "whole")
            assert len(steps(saver)) == 5 + len(steps(other, "whole"))
        assert stored_turns(path)[:4] == [("turn-4", 0), ("turn-5", 0), ("turn-6", 1), ("turn-7", 1)]
        assert [m.id for m in history[2].values["messages"] if m.type == "human"] == ["2", "3", "4"]
    assert_is_whole(path)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("trims", [True, False])
def test_a_long_conversation_takes_the_same_room(path: Path, durability: str, *, trims: bool) -> None:
    with open_saver(path, keep_turns=5, full_turns=1) as saver:
        graph = build_turns(saver, trims=trims)
        talk(graph, 0, 10, durability=durability)
        early = rows(path, "checkpoints"), rows(path, "writes")
        talk(graph, 10, 14, durability=durability)
        late = rows(path, "checkpoints"), rows(path, "writes")
        state = graph.get_state(thread("t")).values["messages"]
    slack = 0 if trims and durability != "async" else 30  # where the last snapshot stands differs
    assert late[0] <= early[0] + slack
    assert late[1] <= early[1] + 2 * slack
    assert len([m for m in state if m.type == "human"]) == (WINDOW if trims else 24)
    assert len(stored_turns(path)) == 5


def test_the_work_of_a_turn_does_not_grow(path: Path) -> None:
    with open_saver(path) as saver:
        graph = build_turns(saver)
        statements: list[str] = []
        saver.conn.set_trace_callback(statements.append)
        counts = []
        for number in range(45):
            statements.clear()
            talk(graph, number, 1)
            counts.append(len(statements))
    assert len(set(counts[25:])) == 1


def test_everything_is_kept_on_request(path: Path) -> None:
    with open_saver(path, keep_turns=None) as saver:
        talk(build_turns(saver), 0, 25)
        before = steps(saver)
    assert len(before) > 25 * 5
    assert_is_whole(path)
    with open_saver(path, keep_turns=3) as saver:
        talk(build_turns(saver), 25, 1)
        assert len(stored_turns(path)) == 3, "and goes when a saver says so"


@pytest.mark.parametrize(("keep", "full"), [(0, 1), (-1, 2), (3, 0)])
def test_numbers_below_one_are_refused(path: Path, keep: int, full: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TurnSaver(path, keep_turns=keep, full_turns=full)
    assert not path.exists()


def test_more_whole_turns_than_kept_ones(path: Path) -> None:
    with open_saver(path, keep_turns=1, full_turns=3) as saver:
        talk(build_turns(saver), 0, 6)
        assert stored_turns(path) == [("turn-3", 1), ("turn-4", 1), ("turn-5", 1)]


def test_a_file_from_before_is_pruned_once_its_turns_are_known(path: Path) -> None:
    with open_saver(path, keep_turns=None) as saver:
        talk(build_turns(saver), 0, 5)
        saver.conn.execute("DELETE FROM turnflow_turns")
    with open_saver(path, keep_turns=3, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 5, 3)
        assert [turn for turn, _ in stored_turns(path)] == ["turn-5", "turn-6", "turn-7"]
        assert len(steps(saver)) > 5 * 8
        talk(graph, 8, 1)
        assert {state.values["turn"]["id"] for state in graph.get_state_history(thread("t"))} <= {
            f"turn-{number}" for number in (5, 6, 7, 8)
        }


def test_threads_are_apart(path: Path) -> None:
    with open_saver(path, keep_turns=2, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 2, "quiet")
        before = steps(saver, "quiet")
        talk(graph, 0, 8)
        assert steps(saver, "quiet") == before


def test_another_graph_is_never_pruned(path: Path) -> None:
    questions = [str(number) for number in range(30)]
    with open_saver(path, keep_turns=1, full_turns=1) as saver:
        graph = build_chat(saver)
        for question in questions:
            graph.invoke(ask(question), thread("t"))
        assert texts(graph.get_state(thread("t")).values) == conversation(questions)
        assert len(steps(saver)) == 3 * len(questions)


# The law: what is there reads as it did

TURN = st.sampled_from(["sync", "exit", "async"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), TURN),
        st.tuples(st.just("turn"), TURN),
        st.tuples(st.just("ask"), TURN),
        st.tuples(st.just("answer"), TURN),
        st.tuples(st.just("edit"), st.integers(0, 60)),
        st.tuples(st.just("branch"), st.integers(0, 60)),
        st.tuples(st.just("replay"), st.integers(0, 60)),
    ),
    min_size=4,
    max_size=16,
)


def shown(state: Any) -> Any:
    """What a checkpoint says, without what belongs to its surroundings."""
    messages = [(m.id, m.type, m.content) for m in state.values.get("messages", [])]
    return messages, state.values.get("turn"), state.next


@FUZZ
@given(OPERATIONS, st.booleans(), st.integers(1, 3), st.integers(1, 2))
def test_what_is_kept_reads_as_it_did(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[Any],
    trims: bool,  # noqa: FBT001 (drawn)
    keep: int,
    full: int,
) -> None:
    path = tmp_path_factory.mktemp("law") / "turns.db"
    seen: dict[str, Any] = {}
    with open_saver(path, keep_turns=keep, full_turns=full) as saver:
        graph = build_turns(saver, trims=trims)
        for number, (operation, argument) in enumerate(operations):
            play(graph, operation, argument, number)
            history = list(graph.get_state_history(thread("t")))
            for state in history:
                known = seen.setdefault(state.config["configurable"]["checkpoint_id"], shown(state))
                assert shown(state) == known
            latest = graph.get_state(thread("t"))
            if history:
                assert shown(latest) == shown(history[0])
    assert_is_whole(path)


def play(graph: Any, operation: str, argument: Any, number: int) -> None:
    config = thread("t")
    if operation in {"edit", "branch", "replay"}:
        history = list(graph.get_state_history(config))
        if not history:
            return
        state = history[argument % len(history)]
        if operation == "edit":
            if state.values.get("messages"):
                update = {"messages": [replace_text(state.values["messages"][-1], f"edit {number}")]}
                graph.update_state(state.config, update, as_node="finalize")
        elif operation == "branch":
            graph.invoke(said(str(number)), state.config, durability="sync")
        elif state.next:
            graph.invoke(None, state.config, durability="sync")
        return
    if operation == "answer":
        if graph.get_state(config).interrupts:
            graph.invoke(Command(resume="blue"), config, durability=argument)
        return
    text = f"{operation} {number}" if operation == "ask" else str(number)
    graph.invoke(said(text), config, durability=argument)


def replace_text(message: AnyMessage, text: str) -> AnyMessage:
    return message.model_copy(update={"content": text})


# Time travel


def test_a_conversation_goes_on_from_the_end_of_an_old_turn(path: Path) -> None:
    with open_saver(path, keep_turns=6, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 6)
        ends = [state for state in graph.get_state_history(thread("t")) if not state.next]
        past = ends[3].config
        result = graph.invoke(said("again"), past, durability="sync")
        assert [m.id for m in result["messages"] if m.type == "human"] == ["1", "2", "again"]
        talk(graph, 6, 4)
        state = graph.get_state(past)
        assert [m.id for m in state.values["messages"] if m.type == "human"] == ["0", "1", "2"]


def test_an_old_question_can_still_be_answered(path: Path) -> None:
    with open_saver(path, keep_turns=6, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 1)
        graph.invoke(said("ask"), thread("t"), durability="sync")
        paused = graph.get_state(thread("t"))
        assert paused.interrupts
        talk(graph, 1, 4)
        assert len(stored_turns(path)) == 6
        assert graph.get_state(paused.config).interrupts == paused.interrupts
        result = graph.invoke(Command(resume="blue"), paused.config, durability="sync")
        assert "did blue" in [m.text for m in result["messages"]]


# Embedded graphs


class Parent(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    branches: int


def build_parent(saver: Any, *, remembers: bool | None, branches: int = 0) -> Any:
    child = build_turns(remembers, rounds=1)

    def before(state: Parent) -> Parent:
        return {"branches": branches}

    def route(state: Parent) -> Any:
        if not branches:
            return "chat"
        text = state["messages"][-1].text
        return [Send("chat", said(f"{text}-{number}")) for number in range(branches)]

    builder = StateGraph(Parent)
    builder.add_node("before", before)
    builder.add_node("chat", child)
    builder.add_edge(START, "before")
    builder.add_conditional_edges("before", route, ["chat"])
    return builder.compile(checkpointer=saver)


def namespaces(path: Path) -> dict[str, int]:
    return dict(query(path, "SELECT checkpoint_ns, count(*) FROM checkpoints GROUP BY checkpoint_ns"))


def test_namespaces_of_old_turns_are_pruned_like_turns(path: Path) -> None:
    with open_saver(path, keep_turns=4, full_turns=2) as saver:
        parent = build_parent(saver, remembers=None)
        talk(parent, 0, 9)
        found = namespaces(path)
        assert found.pop("") == 9 * 4
        assert len(found) == 4
        assert sorted(found.values())[:2] == [2, 2]
        assert min(sorted(found.values())[2:]) > 4
        assert len(parent.get_state(thread("t")).values["messages"]) > 9
    assert_is_whole(path)


def test_a_child_that_remembers_is_pruned_in_its_namespace(path: Path) -> None:
    with open_saver(path, keep_turns=3, full_turns=1) as saver:
        parent = build_parent(saver, remembers=True)
        talk(parent, 0, 8)
        found = namespaces(path)
        assert found[""] == 8 * 4
        assert list(found) == ["", "chat"]
        assert [turn for turn, _ in stored_turns(path)] == ["turn-5", "turn-6", "turn-7"]
        before = found["chat"]
        talk(parent, 8, 6)
        assert namespaces(path)["chat"] <= before + 12
        inner = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": "chat"}})
        assert inner is not None
        assert inner.checkpoint["channel_values"]["turn"]["id"] == "turn-13"


def test_turns_that_run_side_by_side_count_as_one(path: Path) -> None:
    with open_saver(path, keep_turns=2, full_turns=1) as saver:
        parent = build_parent(saver, remembers=None, branches=5)
        talk(parent, 0, 1)
        found = namespaces(path)
        assert len(found) == 6
        assert min(found.values()) > 3, "no branch is pruned by another one of its step"
        talk(parent, 1, 4)
        found = namespaces(path)
        assert found.pop("") == 5 * 4
        assert len(found) == 2 * 5
        assert sorted(found.values())[:5] == [2] * 5


# Failures


def test_what_fails_is_logged_and_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(cursor: Any, *place: Any) -> None:
        remove(cursor, *place)
        raise RuntimeError("in the middle")

    remove = saver_prune.remove_checkpoints
    with open_saver(path, keep_turns=2, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 2)
        before = len(steps(saver))
        monkeypatch.setattr(saver_prune, "remove_checkpoints", fail)
        with caplog.at_level(logging.WARNING, logger="turnflow"):
            talk(graph, 2, 1)
        assert "old checkpoints of thread 't' stay" in caplog.text
        assert len(steps(saver)) > before
        assert [turn for turn, _ in stored_turns(path)] == ["turn-0", "turn-1"], "taken back as a whole"
        monkeypatch.undo()
        talk(graph, 3, 2)
        assert [turn for turn, _ in stored_turns(path)][-2:] == ["turn-3", "turn-4"]
        assert len(graph.get_state(thread("t")).values["messages"]) == WINDOW * 6
    assert_is_whole(path)


def test_a_turn_that_begins_before_the_newest_one_prunes_nothing(path: Path) -> None:
    with open_saver(path, keep_turns=1, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 1)
        saver.conn.execute("UPDATE turnflow_turns SET step = 'z', first = 'z'")
        before = steps(saver)
        talk(graph, 1, 1)
        assert steps(saver)[: len(before)] == before


# The effects journal


def test_calls_that_are_over_go_with_their_turns_and_others_stay(path: Path) -> None:
    with open_saver(path, keep_turns=2, full_turns=1) as saver:
        graph = build_turns(saver)
        for number in range(4):
            graph.invoke(said(f"ask {number}"), thread("t"), durability="sync")
            paused = graph.get_state(thread("t")).config["configurable"]["checkpoint_id"]
            for call in ("over", "open"):
                effect = replace(
                    EFFECT,
                    batch_id=f"batch-{number}",
                    call_id=call,
                    checkpoint_id=paused,
                    task_id=f"task-{call}-{number}",
                )
                saver.start_effect(effect)
            saver.put_writes(thread_at(paused), [("other", 1)], f"task-over-{number}")
            graph.invoke(Command(resume="blue"), thread("t"), durability="sync")
        # Of the last two turns a call that is over is known, though of the older one its result is gone.
        assert saver.find_effects("t", "", "batch-3") == {"over": EffectFound("done", None), "open": STARTED}
        assert saver.find_effects("t", "", "batch-2") == {"over": EffectFound("done", None), "open": STARTED}
        # Of older ones none can be run again, as there is nothing to go on from.
        assert saver.find_effects("t", "", "batch-0") == {"open": STARTED}


def thread_at(checkpoint_id: str) -> Any:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}


def test_metadata_that_are_no_object_are_no_reason_to_fail(path: Path) -> None:
    with open_saver(path, keep_turns=1, full_turns=1) as saver:
        graph = build_turns(saver)
        talk(graph, 0, 1)
        for odd in (json.dumps([1]), None, b'{"source": 3, "parents": "x"}'):
            older = "checkpoint_id < (SELECT max(checkpoint_id) FROM checkpoints)"
            saver.conn.execute(f"UPDATE checkpoints SET metadata = ? WHERE {older}", (odd,))  # noqa: S608
            graph.invoke(said(repr(odd)), thread("t"), durability="sync")
        assert len(stored_turns(path)) == 1
