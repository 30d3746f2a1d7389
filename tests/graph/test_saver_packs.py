"""Facts of old turns become packs, and are read as if they were rows: whatever runs again, or dies."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sqlite3
import sys
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.types import Command

from tests.graph.saver_chat import rows, thread
from tests.graph.saver_turns import build_turns, said
from tests.graph.test_archive import fill
from tests.graph.test_effects_saver import Xor
from tests.graph.test_saver_boundary import query
from tests.graph.test_saver_prune_kills import KEPT, SLACK, Statements, copy_of
from tests.turns.killed import Scripted, calls, fork, scratch_folder
from turnflow import build_turn_graph, run_turn
from turnflow.graph import saver_packs, saver_prune
from turnflow.graph.archive import Scope
from turnflow.graph.saver import TurnSaver, open_saver
from turnflow.graph.saver_packs import TurnFacts, pack_facts
from turnflow.graph.saver_template import TEMPLATE
from turnflow.graph.saver_values import packed
from turnflow.graph.state import RECORD

FUZZ = settings(
    max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

Facts = list[dict[str, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "packs.db"


def work(name: str) -> str:
    """Do some work."""
    return f"{name} is done. " * 20


def build(saver: TurnSaver, *, asks: bool = False) -> Any:
    """A whole turn graph: two rounds a turn. In the first `work` is called, and the user asked on request."""
    question = [("ask_user", "q", {"questions": [{"prompt": "Which one?"}]})] if asks else []
    replies = [calls(("work", "c1", {"name": "a"}), *question), {"content": "All of it is done."}]
    return build_turn_graph(Scripted(replies=replies), [work], checkpointer=saver)


def talk(saver: TurnSaver, first: int, number: int) -> Any:
    graph = build(saver)
    for count in range(first, first + number):
        run_turn(graph, f"Question number {count}, about the harbour.", thread_id="t")
    return graph


def facts_of(saver: TurnSaver, name: str = "t", after: int = 0) -> Facts:
    return list(saver.read_record(name, after=after))


def turns_of(facts: Facts) -> list[str]:
    """The turns that facts belong to, each once."""
    return list(dict.fromkeys(fact["turn_id"] for fact in facts))


def assert_in_order(facts: Facts) -> None:
    numbers = [fact["seq"] for fact in facts]
    assert numbers == sorted(set(numbers))


# What is packed


def test_facts_of_old_turns_become_packs_and_are_read_as_before(path: Path) -> None:
    with open_saver(path, keep_turns=None) as saver:
        talk(saver, 0, 5)
        before = facts_of(saver)
    assert rows(path, "turnflow_packs") == 0
    with open_saver(path, keep_turns=4, full_turns=2) as saver:
        talk(saver, 5, 1)
        after = facts_of(saver)
        assert after[: len(before)] == before
        assert_in_order(after)
        assert rows(path, "turnflow_packs") == 4
        assert len(turns_of(after)) == 6
        left = query(path, "SELECT min(seq) FROM turnflow_record")[0][0]
        assert turns_of([fact for fact in after if fact["seq"] >= left]) == turns_of(after)[4:]
        for fact in after:
            assert facts_of(saver, after=fact["seq"]) == after[after.index(fact) + 1 :]


async def test_async_readers_read_packs_too(path: Path) -> None:
    async with open_saver(path, full_turns=1) as saver:
        graph = build(saver)
        for count in range(3):
            await graph.ainvoke(said(str(count)), thread("t"))
        facts = [fact async for fact in saver.aread_record("t")]
        assert facts == facts_of(saver)
        assert len(turns_of(facts)) == 3
    assert rows(path, "turnflow_packs") == 2


def test_what_the_archive_holds_costs_nearly_nothing_again(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        talk(saver, 0, 4)
        facts = facts_of(saver)
    packs = query(path, "SELECT turn_key, type, length(value) FROM turnflow_packs ORDER BY first")
    assert [key.partition("~")[0] for key, _, _ in packs] == turns_of(facts)[:3]
    assert {kind for _, kind, _ in packs} == {"packed:zlib1"}
    said_in_turn = [len(json.dumps(fact)) for fact in facts if fact["turn_id"] == turns_of(facts)[1]]
    assert packs[1][2] < sum(said_in_turn) / 5


def test_the_template_is_the_one_that_packs_were_made_with() -> None:
    digest = hashlib.blake2b(TEMPLATE, digest_size=8).hexdigest()
    assert (len(TEMPLATE), digest) == (2914, "8dcf38f3cee8dedd"), (
        "another template needs another type of packs"
    )


def test_a_saver_that_keeps_everything_packs_nothing(path: Path) -> None:
    with open_saver(path, keep_turns=None) as saver:
        talk(saver, 0, 4)
    assert rows(path, "turnflow_packs") == 0


def test_the_newest_fact_stays_a_row_so_that_numbers_only_rise(path: Path) -> None:
    with open_saver(path, keep_turns=1, full_turns=1) as saver:
        graph = build_turns(saver)
        graph.invoke(said("0"), thread("t"))
        saver.put_writes(graph.get_state(thread("t")).config, [(RECORD, [{"type": "a"}, {"type": "b"}])], "x")
        for number in (1, 2, 3):
            graph.invoke(said(str(number)), thread("t"))
        assert rows(path, "turnflow_packs") == rows(path, "turnflow_record") == 1
        saver.put_writes(graph.get_state(thread("t")).config, [(RECORD, [{"type": "c"}])], "y")
        assert facts_of(saver) == [{"type": name, "seq": seq} for seq, name in enumerate("abc", start=1)]


def test_a_long_record_from_before_is_packed_little_by_little(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        put_old_facts(saver, 2_500)
        before = facts_of(saver)
        counts = []
        for number in range(4):
            talk(saver, number, 1)
            counts.append(len([fact for fact in before if fact["seq"] in loose(path)]))
            assert facts_of(saver)[:2_500] == before
        assert counts == [2_500, 1_500, 500, 0]
    sizes = [json.loads(runs) for (runs,) in query(path, "SELECT numbers FROM turnflow_packs ORDER BY first")]
    assert max(length for runs in sizes for _, length in runs) == saver_packs.MOST_FACTS


def put_old_facts(saver: TurnSaver, number: int, **more: Any) -> None:
    """Facts as a version without packs has left them."""
    facts = [packed(saver.serde, {"type": "fact", "number": count, **more}) for count in range(number)]
    with saver.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO turnflow_record (thread_id, checkpoint_ns, task_id, idx, type, value) "
            "VALUES ('t', '', 'old', ?, ?, ?)",
            [(index, *fact) for index, fact in enumerate(facts)],
        )


def loose(path: Path) -> set[int]:
    return {row[0] for row in query(path, "SELECT seq FROM turnflow_record")}


def test_large_facts_make_several_packs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver_packs, "MOST_BYTES", 100_000)
    with open_saver(path, full_turns=1) as saver:
        put_old_facts(saver, 9, text="word " * 10_000)
        before = facts_of(saver)
        talk(saver, 0, 2)
        assert rows(path, "turnflow_packs") >= 4
        assert facts_of(saver)[:9] == before


def test_packs_that_are_encrypted_hold_no_readable_word(path: Path) -> None:
    with open_saver(path, serde=EncryptedSerializer(Xor()), full_turns=1) as saver:
        talk(saver, 0, 3)
        facts = facts_of(saver)
        assert len(turns_of(facts)) == 3
        assert any("harbour" in str(fact.get("messages")) for fact in facts)
    assert query(path, "SELECT DISTINCT type, turn_key FROM turnflow_packs") == [("packed", "")]
    assert b"harbour" not in path.read_bytes()


# What may be put again


def test_a_branch_from_the_end_of_a_packed_turn(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        graph = talk(saver, 0, 4)
        before = facts_of(saver)
        ends = [state for state in graph.get_state_history(thread("t")) if not state.next]
        assert len(ends) == 4
        graph.invoke(said("And then?"), ends[2].config, durability="sync")
        after = facts_of(saver)
        assert after[: len(before)] == before
        assert_in_order(after)
        assert [fact["type"] for fact in after[len(before) :]].count("turn.ended") == 1
        talk(saver, 4, 2)
        assert facts_of(saver)[: len(after)] == after


def test_a_packed_turn_that_runs_again_from_its_input_leaves_new_facts(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        graph = talk(saver, 0, 4)
        before = facts_of(saver)
        history = list(graph.get_state_history(thread("t")))
        inputs = [state for state in history if state.metadata["source"] == "input"]
        assert len(inputs) == 4
        graph.invoke(None, inputs[2].config, durability="sync")
        after = facts_of(saver)
        assert after[: len(before)] == before
        assert_in_order(after)
        again = [fact["type"] for fact in after[len(before) :]]
        assert [again.count(name) for name in ("turn.started", "turn.ended", "tool.result")] == [1, 1, 1]
        talk(saver, 4, 2)
        assert facts_of(saver)[: len(after)] == after


def test_facts_of_tasks_that_may_run_again_stay_rows(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        graph = build(saver, asks=True)
        run_turn(graph, "Paint it.", thread_id="t")
        paused = graph.get_state(thread("t"))
        assert paused.interrupts
        talk(saver, 0, 3)
        before = facts_of(saver)
        done = next(fact for fact in before if fact["type"] == "tool.result")
        assert done["seq"] in loose(path)
        rows = query(path, "SELECT task_id, idx, seq FROM turnflow_record ORDER BY idx")
        task_id = next(task for task, _, seq in rows if seq == done["seq"])
        assert (task_id,) in query(path, "SELECT task_id FROM writes")
        by_seq = {fact["seq"]: fact for fact in before}
        of_task = [by_seq[seq] for task, _, seq in rows if task == task_id]
        assert done in of_task
        # A process that was told nothing of all this hands over once more what it had done.
        with open_saver(path) as other:
            facts = [{key: fact[key] for key in fact if key != "seq"} for fact in of_task]
            other.put_writes(paused.config, [(RECORD, facts)], task_id)
            other.get_tuple(thread("t"))
        assert facts_of(saver) == before
        graph.invoke(Command(resume="blue"), paused.config, durability="sync")
        after = facts_of(saver)
        assert after[: len(before)] == before
        assert [fact["type"] for fact in after[len(before) :]].count("resumed") == 1
        assert [fact["type"] for fact in after[len(before) :]].count("turn.ended") == 1


def test_they_are_packed_once_their_checkpoint_is_gone(path: Path) -> None:
    with open_saver(path, keep_turns=3, full_turns=1) as saver:
        run_turn(build(saver, asks=True), "Paint it.", thread_id="t")
        talk(saver, 0, 2)
        facts = facts_of(saver)
        first = facts[0]["turn_id"]
        assert {fact["seq"] for fact in facts if fact["turn_id"] == first} & loose(path)
        talk(saver, 2, 3)
        assert facts_of(saver)[: len(facts)] == facts
        assert not {fact["seq"] for fact in facts if fact["turn_id"] == first} & loose(path)


def test_what_another_process_adds_to_a_packed_turn(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver, open_saver(path, full_turns=1) as other:
        graph = talk(saver, 0, 3)
        before = facts_of(saver)
        end = [state for state in graph.get_state_history(thread("t")) if not state.next][-1]
        late = {"type": "late", "turn_id": before[0]["turn_id"], "round": 1, "time": 1.0}
        other.put_writes(end.config, [(RECORD, [late])], "late")
        added = facts_of(saver)
        assert added == facts_of(other) == [*before, {**late, "seq": before[-1]["seq"] + 1}]
        talk(other, 3, 3)
        assert facts_of(saver)[: len(added)] == added
        assert before[-1]["seq"] + 1 not in loose(path)


# Readers


def test_a_reader_that_pauses_misses_nothing_and_reads_nothing_twice(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        for number in range(12):
            talk(saver, number, 1)
            put_facts_at_end(saver, 40)
        facts = facts_of(saver)
        reader = saver.read_record("t")
        read = [next(reader) for _ in range(len(facts) - 50)]
        talk(saver, 12, 1)
        assert [*read, *reader][: len(facts)] == facts


def put_facts_at_end(saver: TurnSaver, number: int) -> None:
    saved = saver.get_tuple(thread("t"))
    assert saved is not None
    facts = [{"type": "fact", "turn_id": "", "number": count} for count in range(number)]
    saver.put_writes(saved.config, [(RECORD, facts)], str(uuid.uuid4()))


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["", "a:1", "b"]), st.integers(1, 130)),
        st.tuples(
            st.just("pack"), st.sampled_from(["", "a:1", "b"]), st.one_of(st.none(), st.integers(0, 900))
        ),
    ),
    min_size=3,
    max_size=24,
)


@FUZZ
@given(OPERATIONS, st.integers(-1, 1_200))
def test_whatever_is_packed_the_record_reads_the_same(operations: list[Any], after: int) -> None:
    with open_saver(":memory:") as saver:
        expected: Facts = []
        for number, (operation, namespace, argument) in enumerate(operations):
            with saver.cursor() as cursor:
                if operation == "pack":
                    pack_facts(cursor, saver.serde, TurnFacts("t", namespace, "", argument, "a later turn"))
                    continue
                for count in range(argument):
                    name = "other" if count % 3 == 2 else "t"
                    fact = {"type": "fact", "number": count, "text": f"{number} " * 40}
                    if count == 7:
                        fact["next"] = "a later turn"
                    row = (name, namespace, f"task-{number}", count, *packed(saver.serde, fact))
                    cursor.execute(
                        "INSERT INTO turnflow_record (thread_id, checkpoint_ns, task_id, idx, type, value) "
                        "VALUES (?, ?, ?, ?, ?, ?)",
                        row,
                    )
                    if name == "t":
                        expected.append({**fact, "seq": cursor.lastrowid})
        assert_in_order(expected)
        assert facts_of(saver) == expected
        assert facts_of(saver, after=after) == [fact for fact in expected if fact["seq"] > after]
        if expected:
            saver.copy_thread("t", "copy")
            copied = facts_of(saver, "copy")
            assert_in_order(copied)
            assert [{**fact, "seq": 0} for fact in copied] == [{**fact, "seq": 0} for fact in expected]
            assert facts_of(saver) == expected


# Whole threads


def test_a_copy_goes_on_by_itself(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        talk(saver, 0, 4)
        facts = [{**fact, "seq": 0} for fact in facts_of(saver)]
        saver.copy_thread("t", "copy")
        saver.delete_thread("t")
        assert facts_of(saver) == []
        copied = facts_of(saver, "copy")
        assert [{**fact, "seq": 0} for fact in copied] == facts
        graph = build(saver)
        for count in range(3):
            run_turn(graph, str(count), thread_id="copy")
        after = facts_of(saver, "copy")
        assert after[: len(copied)] == copied
        assert_in_order(after)
        packed_turns = query(path, "SELECT DISTINCT turn_key FROM turnflow_packs")
        assert len(packed_turns) == rows(path, "turnflow_packs") == 6
        saver.delete_thread("copy")
    assert rows(path, "turnflow_packs") == rows(path, "turnflow_record") == 0


def test_a_copy_of_a_copy_does_not_use_up_the_numbers(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        talk(saver, 0, 2)
        total = len(facts_of(saver))
        for number in range(6):
            saver.copy_thread("t", f"copy {number}")
            put_facts_at_end(saver, 1)
        assert query(path, "SELECT max(seq) FROM turnflow_record")[0][0] < 10 * total


def test_a_record_whose_turn_somebody_removed_says_so(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        talk(saver, 0, 2)
        saver.conn.execute("DELETE FROM turnflow_archive")
        with pytest.raises(sqlite3.DataError, match="not in the archive"):
            facts_of(saver)


def test_a_pack_that_was_cut_off_is_named_with_its_thread(path: Path) -> None:
    with open_saver(path, full_turns=1) as saver:
        talk(saver, 0, 2)
        saver.conn.execute("UPDATE turnflow_packs SET value = substr(value, 1, 50)")
        with pytest.raises(sqlite3.DataError, match="the record of thread 't' is damaged: "):
            facts_of(saver)


# Failures


def test_what_fails_is_logged_and_the_facts_stay(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(cursor: sqlite3.Cursor, *more: Any) -> None:
        pack_facts(cursor, *more)
        raise RuntimeError("in the middle")

    with open_saver(path, keep_turns=2, full_turns=1) as saver:
        talk(saver, 0, 2)
        before, checkpoints, packs = facts_of(saver), rows(path, "checkpoints"), rows(path, "turnflow_packs")
        monkeypatch.setattr(saver_prune, "pack_facts", fail)
        with caplog.at_level(logging.WARNING, logger="turnflow"):
            talk(saver, 2, 1)
        assert "facts of thread 't' stay as they are" in caplog.text
        assert rows(path, "turnflow_packs") == packs
        assert rows(path, "checkpoints") <= checkpoints + 2, "the checkpoints go all the same"
        assert facts_of(saver)[: len(before)] == before
        monkeypatch.undo()
        talk(saver, 3, 1)
        assert rows(path, "turnflow_packs") > packs
        assert facts_of(saver)[: len(before)] == before


def recorded_turns(saver: TurnSaver, first: int, number: int) -> None:
    """Turns with facts and in the archive, each before the next one begins."""
    graph: Any = build_turns(saver, rounds=1)
    for count in range(first, first + number):
        graph.invoke(said(str(count)), thread("t"), durability="sync")
        fill(saver, [f"turn-{count}"], "", count)
        facts = [
            {"type": "fact", "turn_id": f"turn-{count}", "text": "word " * 300, "n": n} for n in range(5)
        ]
        saver.put_writes(graph.get_state(thread("t")).config, [(RECORD, facts)], f"facts-{count}")


def last_turn(path: Path, number: int) -> int:
    with open_saver(path, **KEPT) as saver:
        statements = Statements(saver, number)
        recorded_turns(saver, 4, 1)
        return statements.count


def end_in(path: Path, number: int) -> None:
    last_turn(path, number)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_process_that_dies_while_it_packs_loses_and_doubles_nothing() -> None:
    with scratch_folder() as folder:
        with open_saver(folder / "whole.db", **KEPT) as saver:
            recorded_turns(saver, 0, 4)
            before = facts_of(saver)
        copy_of(folder / "whole.db", folder / "counted.db")
        points = last_turn(folder / "counted.db", 0)
        assert (
            rows(folder / "counted.db", "turnflow_packs") == rows(folder / "whole.db", "turnflow_packs") + 1
        )
        for number in range(1, points + 1):
            path = folder / f"{number}.db"
            copy_of(folder / "whole.db", path)
            child = fork(partial(end_in, path, number))
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert ended == -signal.SIGKILL or (ended == 0 and number > points - SLACK)
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            with open_saver(path, **KEPT) as saver:
                facts = facts_of(saver)
                assert facts[: len(before)] == before
                assert len(facts) in {len(before), len(before) + 5}
                recorded_turns(saver, 5, 2)
                after = facts_of(saver)
                assert after[: len(facts)] == facts
                assert len(after) == len(facts) + 10
                assert saver.known_turns(Scope("t", ""), [row[0] for row in keys_of_packs(saver)])


def keys_of_packs(saver: TurnSaver) -> list[Any]:
    return saver.conn.execute("SELECT turn_key FROM turnflow_packs").fetchall()
