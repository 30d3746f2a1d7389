"""Several processes on one file: opening it at once, resuming each other's runs, being killed."""

import asyncio
import operator
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from tests.graph.saver_chat import (
    SNAPSHOT_FREQUENCY,
    Note,
    ask,
    build_chat,
    conversation,
    put_checkpoints,
    texts,
    thread,
)
from turnflow.graph.saver import SaverError, TurnSaver, open_saver

ROOT = Path(__file__).parents[2]

strict_and_lax = pytest.mark.parametrize("strict", ["true", "false"])
"""LangGraph reads the switch when it is imported, so it is set for child processes only."""


class Child:
    """A function of this module running in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", replies: IO[str]) -> None:
        self.process = process
        self._replies = replies

    def hear(self) -> str:
        return self._replies.readline().strip()

    def kill(self) -> list[str]:
        """End the process as a crash would, and give the lines not yet heard."""
        self.process.kill()
        self.process.wait()
        return self._replies.read().splitlines()


@contextmanager
def running(function: str, *arguments: object, strict: str = "false") -> Iterator[Child]:
    code = f"import sys; from tests.graph import test_saver_processes as t; t.{function}(*sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": strict},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout
        try:
            yield Child(process, process.stdout)
        finally:
            process.kill()


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


# Opening


def open_at_once(folder: str, rounds: str) -> None:
    """Per round, fork eight processes and let them all open the same fresh file at one moment."""
    for number in range(int(rounds)):
        gate, opener = os.pipe()
        children = []
        for _ in range(8):
            child = os.fork()
            if child == 0:
                os.close(opener)
                os.read(gate, 1)  # returns when the last process has closed its end
                open_and_leave(f"{folder}/{number}.db")
            children.append(child)
        os.close(opener)
        os.close(gate)
        say([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


def open_and_leave(path: str) -> NoReturn:
    try:
        with open_saver(path) as saver:
            put_checkpoints(saver, f"process-{os.getpid()}", 2)
    except (SaverError, sqlite3.Error):
        os._exit(1)
    os._exit(0)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_processes_that_open_a_fresh_file_at_once_all_get_it(tmp_path: Path) -> None:
    with running("open_at_once", tmp_path, 25) as child:
        assert [child.hear() for _ in range(25)] == [str([0] * 8)] * 25
    for path in tmp_path.glob("*.db"):
        with open_saver(path) as saver:
            assert len(list(saver.list(None))) == 8 * 2


def talk(path: str, name: str, number: str) -> None:
    with open_saver(path) as saver:
        graph = build_chat(saver)
        for question in range(int(number)):
            graph.invoke(ask(str(question)), thread(name))
    say("done")


def test_processes_that_write_for_long_wait_for_each_other(path: Path) -> None:
    with ExitStack() as stack:
        names = ["a", "b", "c"]
        children = [stack.enter_context(running("talk", path, name, 30)) for name in names]
        assert [child.hear() for child in children] == ["done"] * 3
    with open_saver(path) as saver:
        graph = build_chat(saver)
        for name in names:
            assert texts(graph.get_state(thread(name)).values) == conversation([str(n) for n in range(30)])


# Interrupts


class Choice(TypedDict, total=False):
    question: str
    chosen: Note


def build_chooser(saver: TurnSaver) -> CompiledStateGraph[Choice, None, Choice, Choice]:
    def choose(state: Choice) -> Choice:
        return {"chosen": Note(interrupt(state["question"]))}

    builder = StateGraph(Choice)
    builder.add_node("choose", choose)
    builder.add_edge(START, "choose")
    return builder.compile(checkpointer=saver)


def start_choice(path: str) -> None:
    with open_saver(path) as saver:
        result: Any = build_chooser(saver).invoke({"question": "which?"}, thread("t"))
        say(result["__interrupt__"][0].value)


def answer_choice(path: str, answer: str) -> None:
    async def resume() -> None:
        async with open_saver(path) as saver:
            result: Any = await build_chooser(saver).ainvoke(Command(resume=answer), thread("t"))
            say(result["chosen"])

    asyncio.run(resume())
    with open_saver(path) as saver:
        say(build_chooser(saver).get_state(thread("t")).values["chosen"])


@strict_and_lax
def test_an_interrupt_is_answered_in_another_process(path: Path, strict: str) -> None:
    with running("start_choice", path, strict=strict) as child:
        assert child.hear() == "which?"
        assert child.process.wait() == 0
    with running("answer_choice", path, "blue", strict=strict) as child:
        assert [child.hear(), child.hear()] == [repr(Note("blue"))] * 2


# Crashes


class Work(TypedDict, total=False):
    turn: int
    done: Annotated[list[str], operator.add]


def build_worker(saver: TurnSaver, *, stuck_in: str = "") -> CompiledStateGraph[Work, None, Work, Work]:
    """Two steps a turn; stops for good in the step named `stuck_in`, such as "second 3"."""

    def step(name: str, state: Work) -> Work:
        label = f"{name} {state['turn']}"
        if label == stuck_in:
            say(label)
            time.sleep(3600)
        return {"done": [label]}

    builder = StateGraph(Work)
    builder.add_node("first", lambda state: step("first", state))
    builder.add_node("second", lambda state: step("second", state))
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    return builder.compile(checkpointer=saver)


def work(path: str, stuck_in: str) -> None:
    with open_saver(path) as saver:
        graph = build_worker(saver, stuck_in=stuck_in)
        for turn in (1, 2, 3):
            graph.invoke({"turn": turn}, thread("t"), durability="sync")


@strict_and_lax
@pytest.mark.parametrize("stuck_in", ["first 1", "second 3"])
def test_a_run_goes_on_after_its_process_was_killed(path: Path, strict: str, stuck_in: str) -> None:
    with running("work", path, stuck_in, strict=strict) as child:
        assert child.hear() == stuck_in
        child.kill()
    turns = range(1, int(stuck_in[-1]) + 1)

    with open_saver(path) as saver:
        graph = build_worker(saver)
        assert graph.get_state(thread("t")).next == (stuck_in.split(maxsplit=1)[0],)
        graph.invoke(None, thread("t"))
        done = graph.get_state(thread("t")).values["done"]
    assert done == [f"{name} {turn}" for turn in turns for name in ("first", "second")]


def write_without_end(path: str) -> None:
    with open_saver(path) as saver:
        while True:
            stored = saver.put(thread("t"), empty_checkpoint(), {}, {})
            saver.put_writes(stored, [("a", "x" * 5000), ("b", "y" * 5000)], "task")
            say(stored["configurable"]["checkpoint_id"])


def test_a_file_is_whole_after_a_kill_in_the_middle_of_writing(path: Path) -> None:
    confirmed = []
    for round_number in range(3):
        with running("write_without_end", path) as child:
            confirmed += [child.hear() for _ in range(5 + round_number)]
            confirmed += child.kill()[:-1]  # the last line may be cut off

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        halves = connection.execute("SELECT 1 FROM writes GROUP BY checkpoint_id HAVING count(*) <> 2")
        assert halves.fetchall() == []
    with open_saver(path) as saver:
        assert set(confirmed) <= {saved.checkpoint["id"] for saved in saver.list(thread("t"))}
        put_checkpoints(saver, "t", 1)


# Forks


def fork_with_an_open_saver(path: str) -> None:
    async def check(saver: TurnSaver) -> None:
        try:
            await saver.aget_tuple(thread("t"))
        except SaverError as error:
            say(error)

    with open_saver(path) as saver:
        put_checkpoints(saver, "t", 1)
        child = os.fork()
        if child == 0:
            try:
                saver.get_tuple(thread("t"))
            except SaverError as error:
                say(error)
            asyncio.run(check(saver))
            saver.close()
            os._exit(0)
        os.waitpid(child, 0)
        say(saver.get_tuple(thread("t")) is not None)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_is_told_to_open_its_own(path: Path) -> None:
    with running("fork_with_an_open_saver", path) as child:
        for _ in ("sync", "async"):
            text = child.hear()
            assert str(path) in text
            assert "open one in each process" in text
        assert child.hear() == "True"


# Strict msgpack


def test_every_other_saver_test_passes_in_strict_msgpack_mode() -> None:
    folder = Path(__file__).parent
    parts = ("", "_connection", "_conformance", "_record", "_upkeep")
    files = [folder / f"test_saver{part}.py" for part in parts]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files)],
        cwd=ROOT,
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]


def test_a_thread_past_its_snapshots_reads_back_in_strict_mode(path: Path) -> None:
    number = SNAPSHOT_FREQUENCY * 2 + 1
    with running("talk", path, "t", number, strict="true") as child:
        assert child.hear() == "done"
    with open_saver(path) as saver:
        values = build_chat(saver).get_state(thread("t")).values
    assert texts(values) == conversation([str(n) for n in range(number)])
