"""The effects journal in the saver's file: what is stored with what, who is first, what a failure leaves."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.constants import START

from tests.graph.effects_stage import EFFECT
from tests.graph.saver_chat import Note, rows, thread
from turnflow.graph import saver as saver_module
from turnflow.graph.effects_journal import NEW, STARTED, Effect, EffectFound
from turnflow.graph.saver import TurnSaver, open_saver
from turnflow.graph.saver_boundary import Held, HeldWrites
from turnflow.graph.saver_rows import insert

ROOT = Path(__file__).parents[2]

RESULT = ToolMessage("sent", tool_call_id="call", id="result")
WRITES: list[tuple[str, Any]] = [("messages", [RESULT]), ("batch", {"done": True})]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "effects.db"


@pytest.fixture
def saver(path: Path) -> Iterator[TurnSaver]:
    with open_saver(path) as opened:
        yield opened


def put(saver: TurnSaver, name: str = "t") -> tuple[RunnableConfig, Effect]:
    """Store a checkpoint and make a call that comes after it."""
    config = saver.put(thread(name), empty_checkpoint(), {}, {})
    return config, replace(EFFECT, thread_id=name, checkpoint_id=config["configurable"]["checkpoint_id"])


def put_held(saver: TurnSaver) -> Effect:
    """Put a checkpoint that the saver holds, and make a call that comes after it."""
    first = {**empty_checkpoint(), "channel_values": {START: {}}}
    config = saver.put(thread("t"), cast("Any", first), {"source": "input"}, {})
    return replace(EFFECT, checkpoint_id=config["configurable"]["checkpoint_id"])


def found(saver: TurnSaver, effect: Effect = EFFECT) -> EffectFound | None:
    return saver.find_effects(effect.thread_id, effect.namespace, effect.batch_id).get(effect.call_id)


def states(path: Path) -> list[tuple[str, str]]:
    """Call id and state of each row, as another process sees them."""
    with closing(sqlite3.connect(path)) as other:
        return other.execute("SELECT call_id, state FROM turnflow_effects ORDER BY call_id").fetchall()


# Who is first


def test_of_many_that_start_a_call_at_once_one_is_first(saver: TurnSaver, path: Path) -> None:
    _, effect = put(saver)
    with open_saver(path) as other, ThreadPoolExecutor(8) as pool:
        for number in range(20):
            call = replace(effect, call_id=str(number))
            started = pool.map(lambda one, call=call: one.start_effect(call), [saver, other] * 4)
            assert sorted(one.state for one in started if one) == ["new", *["started"] * 7]


def start_many(path: str, checkpoint_id: str) -> None:
    """Start a hundred calls as soon as a line comes in; says which of them were new."""
    with open_saver(path) as saver:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        effect = replace(EFFECT, checkpoint_id=checkpoint_id)
        calls = [str(number) for number in range(100)]
        new = [call for call in calls if saver.start_effect(replace(effect, call_id=call)) == NEW]
    sys.stdout.write(json.dumps(new))


def test_of_two_processes_that_start_a_call_at_once_one_is_first(saver: TurnSaver, path: Path) -> None:
    _, effect = put(saver)
    code = "import sys; from tests.graph.test_effects_saver import start_many as run; run(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(path), effect.checkpoint_id]
    with ExitStack() as stack:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        children = [stack.enter_context(subprocess.Popen(command, cwd=ROOT, **pipes)) for _ in range(2)]
        for child in children:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin
            child.stdin.write("go\n")
            child.stdin.flush()
        one, two = (set(json.loads(child.communicate()[0])) for child in children)
    assert not one & two
    assert one | two == {str(number) for number in range(100)}


@pytest.mark.parametrize(
    "other",
    [
        replace(EFFECT, thread_id="other"),
        replace(EFFECT, namespace="turn:1"),
        replace(EFFECT, batch_id="other"),
        replace(EFFECT, call_id="other"),
    ],
    ids=["thread", "namespace", "batch", "call"],
)
def test_a_call_is_known_by_thread_namespace_batch_and_id(saver: TurnSaver, other: Effect) -> None:
    assert saver.start_effect(EFFECT, needs_checkpoint=False) == NEW
    assert saver.start_effect(other, needs_checkpoint=False) == NEW
    assert saver.start_effect(replace(EFFECT, task_id="2"), needs_checkpoint=False) == STARTED
    assert found(saver) == found(saver, other) == STARTED


def test_another_key_is_another_call(saver: TurnSaver, path: Path) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    saver.put_writes(config, WRITES, "task")
    other = replace(effect, key="another", task_id="another")
    assert saver.start_effect(other) == NEW
    assert sorted(states(path)) == [("call", "done"), ("call", "started")]
    assert saver.start_effect(other) == STARTED
    assert found(saver) == STARTED
    # And the one before is known as well as ever.
    assert saver.start_effect(effect) == EffectFound("done", RESULT)


# What is stored with what


def test_a_start_takes_along_what_waits_for_the_thread(saver: TurnSaver, path: Path) -> None:
    effect = put_held(saver)
    assert rows(path, "checkpoints") == 0
    statements: list[str] = []
    saver.conn.set_trace_callback(statements.append)
    assert saver.start_effect(effect) == NEW
    assert rows(path, "checkpoints") == rows(path, "turnflow_effects") == 1
    assert statements.count("COMMIT") == 1


def test_the_end_is_stored_with_what_the_task_wrote(saver: TurnSaver, path: Path) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    assert states(path) == [("call", "started")]
    statements: list[str] = []
    saver.conn.set_trace_callback(statements.append)
    saver.put_writes(config, WRITES, "task")
    assert statements.count("COMMIT") == 1
    assert states(path) == [("call", "done")]
    assert saver.start_effect(effect) == EffectFound("done", RESULT)
    assert saver.start_effect(effect, again=True) == EffectFound("done", RESULT)
    with open_saver(path) as other:
        assert found(other) == EffectFound("done", RESULT)


def test_other_tasks_cost_nothing_more(saver: TurnSaver) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    statements: list[str] = []
    saver.conn.set_trace_callback(statements.append)
    saver.put_writes(config, WRITES, "other")
    assert [one for one in statements if "turnflow_effects" in one] == []
    assert found(saver) == STARTED


def test_a_result_that_is_no_longer_there_is_none(saver: TurnSaver) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    saver.put_writes(config, WRITES, "task")
    with saver.cursor() as cursor:
        cursor.execute("DELETE FROM writes")
    assert found(saver) == saver.start_effect(effect) == EffectFound("done", None)


@pytest.mark.parametrize("wrote", [[ToolMessage("x", tool_call_id="other")], "text", []])
def test_only_the_calls_own_message_is_its_result(saver: TurnSaver, wrote: Any) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    saver.put_writes(config, [("messages", wrote), ("other", RESULT)], "task")
    assert found(saver) == EffectFound("done", None)
    assert saver.find_effects("t", "", "another message") == {}


def test_an_interrupt_takes_the_start_back(saver: TurnSaver, path: Path) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    saver.put_writes(config, [("__interrupt__", []), ("__resume__", ["first"])], "task")
    assert found(saver) == EffectFound("waiting")
    assert saver.start_effect(effect) == NEW
    saver.put_writes(config, [*WRITES, ("__resume__", ["first", "second"])], "task")
    assert found(saver) == EffectFound("done", RESULT)


@pytest.mark.parametrize(
    "writes",
    [[("__error__", "boom")], [("messages", [RESULT]), ("__error__", "boom")]],
    ids=["error", "error after writes"],
)
def test_an_error_leaves_the_start(saver: TurnSaver, path: Path, writes: list[tuple[str, Any]]) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    saver.put_writes(config, writes, "task")
    assert states(path) == [("call", "started")]
    assert saver.start_effect(effect) == STARTED


def test_an_answer_alone_is_no_end(saver: TurnSaver) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    saver.put_writes(config, [("__resume__", "answer")], "task")
    saver.put_writes(config, WRITES, "task")
    assert found(saver) == EffectFound("done", RESULT)


def test_a_task_that_was_told_of_a_start_does_not_end_it(saver: TurnSaver, path: Path) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    assert saver.start_effect(effect) == STARTED
    saver.put_writes(config, WRITES, "task")
    assert states(path) == [("call", "started")]


def test_a_call_that_may_run_again_ends_with_its_second_run(saver: TurnSaver, path: Path) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    second = replace(effect, task_id="second")
    assert saver.start_effect(second, again=True) == NEW
    saver.put_writes(config, [("messages", [ToolMessage("late", tool_call_id="call")])], "task")
    assert states(path) == [("call", "started")]
    saver.put_writes(config, WRITES, "second")
    assert found(saver) == EffectFound("done", RESULT)


def test_a_checkpoint_that_is_needed_and_not_there(saver: TurnSaver, path: Path) -> None:
    assert saver.start_effect(EFFECT) is None
    assert states(path) == []
    assert saver.start_effect(EFFECT, needs_checkpoint=False) == NEW
    assert saver.start_effect(EFFECT) == STARTED


async def test_async_twins_do_the_same(saver: TurnSaver, path: Path) -> None:
    config, effect = put(saver)
    assert await saver.astart_effect(EFFECT) is None
    assert await saver.astart_effect(effect) == NEW
    assert await saver.astart_effect(effect) == STARTED
    assert await saver.astart_effect(effect, again=True) == NEW
    assert await saver.afind_effects("t", "", "message") == {"call": STARTED}
    await saver.aput_writes(config, WRITES, "task")
    assert await saver.afind_effects("t", "", "message") == {"call": EffectFound("done", RESULT)}
    assert await saver.astart_effect(effect) == EffectFound("done", RESULT)


# Failures


def fail_after(saver: TurnSaver, operation: Callable[[], object]) -> None:
    with saver.cursor():
        operation()
        raise KeyError


class Failing:
    """Fails to store what a task wrote, once, after its rows went in."""

    failed = 0

    def insert(self, cursor: sqlite3.Cursor, held: Held) -> None:
        insert(cursor, held)
        if isinstance(held, HeldWrites) and held.task_id == "bad" and not self.failed:
            self.failed += 1
            raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize(
    ("writes", "end"),
    [(WRITES, [("call", "done")]), ([("__interrupt__", [])], [("call", "waiting")])],
    ids=["done", "withdrawn"],
)
def test_an_end_that_could_not_be_stored_is_stored_later_with_its_writes(
    saver: TurnSaver,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writes: list[tuple[str, Any]],
    end: list[tuple[str, str]],
) -> None:
    config, effect = put(saver)
    saver.start_effect(effect)
    with pytest.raises(KeyError):
        fail_after(saver, lambda: saver.put_writes(config, writes, "task"))
    assert states(path) == [("call", "started")]
    assert rows(path, "writes") == 0
    monkeypatch.setattr(saver_module, "insert", Failing().insert)
    with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
        saver.put_writes(config, [("other", 1)], "bad")
    assert states(path) == [("call", "started")]
    assert rows(path, "writes") == 0
    saver.get_tuple(config)
    assert states(path) == end
    assert rows(path, "writes") == len(writes) + 1


def test_a_start_that_could_not_be_stored_leaves_nothing(saver: TurnSaver, path: Path) -> None:
    effect = put_held(saver)
    with pytest.raises(KeyError):
        fail_after(saver, lambda: saver.start_effect(effect))
    assert (rows(path, "checkpoints"), states(path)) == (0, [])
    assert saver._connection.effects == {}
    assert saver.start_effect(effect) == NEW
    assert (rows(path, "checkpoints"), states(path)) == (1, [("call", "started")])


def test_a_start_in_a_locked_file_is_an_error_and_no_start(saver: TurnSaver, path: Path) -> None:
    effect = put_held(saver)
    saver.conn.execute("PRAGMA busy_timeout=10")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            saver.start_effect(effect)
        other.execute("ROLLBACK")
    assert saver.start_effect(effect) == NEW


# Threads that go, copies, other serializers


async def test_a_deleted_thread_takes_its_rows_along(saver: TurnSaver, path: Path) -> None:
    for name in ("t", "other", "third"):
        config, effect = put(saver, name)
        saver.start_effect(replace(effect, task_id=f"task-{name}"))
        saver.keep_result(name, "handle", "whole")
    saver.delete_thread("t")
    await saver.adelete_thread("third")
    assert rows(path, "turnflow_effects") == rows(path, "turnflow_results") == 1
    assert list(saver._connection.effects) == ["task-other"]
    assert found(saver) is None
    assert saver.find_result("t", "handle") is None
    assert saver.find_result("other", "handle") == "whole"
    saver.put_writes(config, WRITES, "task-third")
    assert rows(path, "turnflow_effects") == 1


def test_copies_of_the_saver_share_the_journal(path: Path) -> None:
    with open_saver(path, serde=JsonPlusSerializer(allowed_msgpack_modules=None)) as saver:
        config, effect = put(saver)
        copied = saver.with_allowlist([(Note.__module__, Note.__name__)])
        assert isinstance(copied, TurnSaver)
        assert copied is not saver
        assert copied.start_effect(effect) == NEW
        saver.put_writes(config, WRITES, "task")
        assert found(copied) == found(saver) == EffectFound("done", RESULT)
        copied.keep_result("t", "handle", "whole")
        assert saver.find_result("t", "handle") == "whole"


class Xor:
    """A cipher that hides nothing from anyone but a test."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "xor", bytes(byte ^ 0x55 for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "xor"
        return bytes(byte ^ 0x55 for byte in ciphertext)


def test_an_encrypting_serializer_hides_results(path: Path) -> None:
    with open_saver(path, serde=EncryptedSerializer(Xor())) as saver:
        config, effect = put(saver)
        saver.start_effect(effect)
        secret = ToolMessage("the secret word", tool_call_id="call", id="result")
        saver.put_writes(config, [("messages", [secret])], "task")
        saver.keep_result("t", "handle", "the secret word, at length")
        assert found(saver) == EffectFound("done", secret)
        assert saver.find_result("t", "handle") == "the secret word, at length"
    assert b"secret word" not in path.read_bytes()
