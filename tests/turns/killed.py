"""Turns that are killed at each of their points: `python -m tests.turns.killed FOLDER MODE`.

One process is warmed up and forks a child for each point: the moments before and after each call of the
saver, each transaction, each row, each request to the model and each tool. The child counts its way there
and kills itself. Each leaves `FOLDER/<number>.sqlite` and `FOLDER/<number>.log`, a line of JSON per event.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.types import Command

from turnflow import ToolPolicy, arun_turn, build_turn_graph, run_turn
from turnflow.graph import saver as saver_module
from turnflow.graph.saver import TurnSaver
from turnflow.graph.saver_rows import insert
from turnflow.graph.state import RECORD

QUESTION = "Which one?"
ANSWER = "the blue one"
GOAL = "All done."
THREAD = "t"

SAVER_CALLS = ("put", "put_writes", "get_tuple", "aput", "aput_writes", "aget_tuple", "_store")


def calls(*tool_calls: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """A reply that calls tools, each given as name, id and arguments."""
    return {"content": "", "tool_calls": [{"name": n, "id": i, "args": a} for n, i, a in tool_calls]}


def works(*call_ids: str) -> dict[str, Any]:
    """A reply that calls `work` once for each id."""
    return calls(*(("work", call_id, {"name": call_id}) for call_id in call_ids))


ASKING = calls(("ask_user", "q", {"questions": [{"prompt": QUESTION}]}), ("work", "c5", {"name": "c5"}))
REPLIES = (works("c1"), works("c2", "c3", "c4"), ASKING, {"content": GOAL})
RESULTS = ("c1", "c2", "c3", "c4", "c5", "q")


class Scripted(BaseChatModel):
    """Gives the reply that comes next in the turn, whichever process asks."""

    replies: Any
    """What each reply is made of, in the order of the turn."""
    asides: Any = None
    """What other replies are made of, each a whole turn, by how the user's message ends that it answers."""
    on_request: Any = None
    """Called with the number of the reply, before it is given."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        given, asked = 0, ""
        for message in reversed(messages):
            if isinstance(message, HumanMessage):
                asked = str(message.content)
                break
            given += isinstance(message, AIMessage)
        if self.on_request:
            self.on_request(given)
        asides = (reply for end, reply in (self.asides or {}).items() if asked.endswith(end))
        reply = next(asides, None) or self.replies[given]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**reply))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


class Log:
    """A file with a line of JSON for each thing that happened; one write per line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, *event: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def read(self) -> list[list[Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]


class Player:
    """The graph of the turn, built once; its tool and its model write to the log of the moment."""

    def __init__(self) -> None:
        def work(name: str) -> str:
            """Do some work."""
            self.log.add("tool", name)
            self.reach(f"in tool {name}")
            return f"did {name}"

        def asked(number: int) -> None:
            self.log.add("model", number)
            self.reach(f"in request {number}")

        self.log = Log(Path(os.devnull))
        self.reach: Callable[[str], None] = lambda _: None
        model = Scripted(replies=REPLIES, on_request=asked)
        # It is run again if it was broken off: what it did counts only once the saver has it.
        policies = {"work": ToolPolicy(read_only=True)}
        self._graph = build_turn_graph(model, [work], policies=policies, checkpointer=True)

    def graph(self, saver: TurnSaver, log: Log) -> Any:
        """The graph on a saver, for as long as no other is asked for."""
        self.log = log
        return self._graph.copy({"checkpointer": saver})


class Fuse:
    """Counts the points that this process comes to, and kills it at one of them."""

    calls: tuple[str, ...] = SAVER_CALLS
    """The saver's methods with a point before and after each call."""

    def __init__(self, log: Log, number: int) -> None:
        self.log = log
        self._number = number
        self._lock = threading.Lock()
        self.count = 0

    def reach(self, label: str) -> None:
        with self._lock:
            self.count += 1
            if self.count == self._number:
                self.log.add("killed", label)
                os.kill(os.getpid(), signal.SIGKILL)

    def wire(self) -> None:
        """Have each call of the saver come by here. There is no way back: this is for a forked child."""
        for name in self.calls:
            setattr(TurnSaver, name, self._wrapped(name, getattr(TurnSaver, name)))
        setattr(saver_module, "insert", self._in_transaction(insert))  # noqa: B010 (no name to assign to)

    def before(self, name: str, arguments: Sequence[Any]) -> None:
        """Come by before a call of the saver, given its arguments."""
        self.reach(f"before {name}")

    def after(self, name: str, arguments: Sequence[Any]) -> None:
        """Come by after a call of the saver, given its arguments."""
        if "put_writes" in name:
            self._note_writes(arguments[2])
        self.reach(f"after {name}")

    def _in_transaction(self, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            function(*arguments)
            self.reach("after insert")

        return call

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            self.before(name, arguments)
            result = function(*arguments, **named)
            self.after(name, arguments)
            return result

        @functools.wraps(function)
        async def acall(*arguments: Any, **named: Any) -> Any:
            self.before(name, arguments)
            result = await function(*arguments, **named)
            self.after(name, arguments)
            return result

        return acall if asyncio.iscoroutinefunction(function) else call

    def _note_writes(self, writes: Sequence[tuple[str, Any]]) -> None:
        for channel, value in writes:
            if channel == "__resume__":
                self.log.add("kept answer")
            for fact in value if channel == RECORD else ():
                if fact["type"] == "tool.result":
                    self.log.add("kept result", fact["tool_call_id"], fact["status"])


def fork(job: Callable[[], None]) -> int:
    """Do a job in a child of this process; gives the child's id. The caller has no other threads."""
    child = os.fork()
    if child:
        return child
    try:
        job()
    except BaseException:  # noqa: BLE001 - nothing may leave the child but its exit code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def fork_all(jobs: Iterable[Callable[[], None]]) -> None:
    """Do each job in a child of its own, as many at once as there are processors."""
    running: set[int] = set()
    for job in jobs:
        if len(running) >= (os.cpu_count() or 1):
            running.discard(os.wait()[0])
        running.add(fork(job))
    for child in running:
        os.waitpid(child, 0)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for as long as the block runs; in memory where that can be had.

    What a killed process has written is in the file system either way, and a disk takes ten times as long.
    """
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is made with a name of its own
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


class Sweep:
    """Plays the turn in children of this process."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder
        self._mode = mode
        self._player = Player()
        gc.collect()
        gc.freeze()  # or the first collection in each child would copy all pages

    def run(self) -> None:
        """Play the turn once as a whole, as number 0, then once for each of its points."""
        fork_all([functools.partial(self._play, 0)])
        points = Log(self._folder / "0.log").read()[-1][1]
        fork_all(functools.partial(self._play, number) for number in range(1, points + 1))

    def _play(self, number: int) -> None:
        """Run the turn up to its point; without one, log how many there are."""
        log = Log(self._folder / f"{number}.log")
        fuse = Fuse(log, number)
        fuse.wire()
        self._player.reach = fuse.reach
        inputs: tuple[Any, ...] = ("Go.", Command(resume=ANSWER))
        for given in inputs:
            with saver_module.open_saver(self._folder / f"{number}.sqlite") as saver:
                graph = self._player.graph(saver, log)
                if self._mode == "async":
                    asyncio.run(arun_turn(graph, given, thread_id=THREAD))
                else:
                    run_turn(graph, given, thread_id=THREAD)
                fuse.reach("before close")
            fuse.reach("after close")
        log.add("points", fuse.count)


if __name__ == "__main__":
    Sweep(Path(sys.argv[1]), sys.argv[2]).run()
