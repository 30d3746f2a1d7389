"""What a saver may keep back: checkpoints that can be made again for nothing (docs/storage.md).

No database in here: the boundary is told of each checkpoint and of each task's writes, and says which of
them must be stored before the run goes on. The others wait in memory until then.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.constants import START

from turnflow.graph.state import TRANSCRIPT, is_turn

Row = tuple[Any, ...]

QUIET_NODES = frozenset({"classify_label", "repair"})
"""Nodes of the turn graph that run nobody's code: they are over in an instant."""

REPEATABLE_NODES = QUIET_NODES | {"assemble_context", "finalize"}
"""Nodes of the turn graph whose work may be done again after a crash: no model is asked, no tool is run."""

_MODEL = "call_llm"
"""A reply is stored with the decision it leads to, before anything but quiet nodes runs."""

_REMEMBERED = 4096
"""Left-out checkpoints that are remembered: more than can be waiting for late writes."""

_TASKS = "__pregel_tasks"
_BRANCH = "branch:to:"
_PULL = "~__pregel_pull, "


@dataclass(frozen=True, slots=True)
class HeldCheckpoint:
    """A checkpoint on its way into the file.

    Attributes:
        thread_id: Its thread.
        namespace: The subgraph it is one of.
        id: Its id.
        parent: The id of the checkpoint before it, if there is one.
        row: Type, value and metadata, as they are stored.
        can_go: Whether it may be left out once the next one is stored.
        turn_id: The turn that it belongs to, as far as its values say so; '' if they do not.
    """

    thread_id: str
    namespace: str
    id: str
    parent: str | None
    row: Row
    can_go: bool
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class HeldWrites:
    """What one task wrote, on its way into the file.

    Attributes:
        thread_id: Its thread.
        namespace: The subgraph it is a task of.
        checkpoint_id: The checkpoint that the task comes after.
        task_id: The task.
        task_path: The task's path, as LangGraph writes it.
        rows: Index, channel, type and value of each write, as they are stored.
        facts: Index, type and value of each fact for the record, as they are stored.
        replaces: Whether the rows replace earlier ones of the same task and index.
        pins: Whether its checkpoint has to stay: the transcript is made from these writes.
    """

    thread_id: str
    namespace: str
    checkpoint_id: str
    task_id: str
    task_path: str
    rows: Sequence[Row]
    facts: Sequence[Row]
    replaces: bool
    pins: bool


Held = HeldCheckpoint | HeldWrites


@dataclass(slots=True)
class _Tasks:
    """The tasks that come after a checkpoint."""

    count: int
    arrived: set[str] = field(default_factory=set)
    """Those whose writes were taken in."""

    @property
    def is_open(self) -> bool:
        """Whether writes are still to come."""
        return len(self.arrived) < self.count


@dataclass(slots=True)
class _Run:
    """A run of a graph, as far as it went through this saver."""

    tip: str
    """Its newest checkpoint."""
    costly: int
    """How many tasks come after it that are not for nothing."""
    is_turn: bool
    """Whether the graph is a turn graph, so that the names of its nodes mean what they say."""
    done: set[str] = field(default_factory=set)
    """Those of the tasks whose writes are stored."""
    is_precious: bool = False
    """Whether something is held that cannot be made again for nothing, such as a model's reply."""
    before: set[str] = field(default_factory=set)
    """Its older checkpoints. What their tasks wrote may arrive late."""
    tasks: _Tasks = field(default_factory=lambda: _Tasks(0))
    """Those after its newest checkpoint."""
    late: dict[str, _Tasks] = field(default_factory=dict)
    """Older checkpoints whose tasks have not all been heard of, since something was stored last."""
    is_awaiting: bool = False
    """Whether a checkpoint must be stored as soon as nothing is late: its facts come with those writes."""

    def arrive(self, held: HeldWrites) -> None:
        """Note that the writes of a task are in. What a node that raised leaves has no path of a task."""
        tasks = self.tasks if held.checkpoint_id == self.tip else self.late.get(held.checkpoint_id)
        if tasks is None or not held.task_path:
            return
        tasks.arrived.add(held.task_id)
        if not tasks.is_open:
            self.late.pop(held.checkpoint_id, None)


class Boundary:
    """What is held for the threads of one file. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, list[Held]] = {}
        self._runs: dict[str, dict[str, _Run]] = {}
        self._early: dict[str, dict[str, set[str]]] = {}
        """By thread and checkpoint, tasks that wrote before it came, as `durability="async"` allows."""
        self._left_out: dict[str, None] = {}
        """Checkpoints that were left out last, the oldest first. Writes of their tasks may still arrive."""

    def add_checkpoint(self, held: HeldCheckpoint, values: Mapping[str, Any], source: str | None) -> bool:
        """Take in a checkpoint.

        LangGraph hands over a checkpoint and what the tasks before it wrote from different threads. A
        checkpoint that must be stored waits for writes that are late, so that the facts of a task are
        stored with the state that they led to; but no longer than until the next one.

        Args:
            held: The checkpoint.
            values: Its channel values.
            source: What made it: `input`, `loop`, `update` or `fork`.

        Returns:
            Whether it, and with it all that is held for its thread, must be stored before the run goes on.
        """
        following = _following(values)
        with self._lock:
            self._held.setdefault(held.thread_id, []).append(held)
            runs = self._runs.setdefault(held.thread_id, {})
            run = runs.pop(held.namespace, None)
            if source == "input":
                self._forget_early(held)
            if source == "input" and START in following:
                # The first step follows at once. It hands the input on and runs nobody's code.
                runs[held.namespace] = _Run(held.id, costly=0, is_turn=False, is_precious=True)
                return False
            if source != "loop" or not following:
                if not runs:
                    del self._runs[held.thread_id]
                return True
            costly = sum(name not in REPEATABLE_NODES for name in following)
            new = runs[held.namespace] = _Run(held.id, costly, is_turn(values.get("turn")))
            new.tasks = _Tasks(len(following), {*self._early.get(held.thread_id, {}).get(held.id, ())})
            if run is None or run.tip != held.parent:
                return True
            new.before = run.before | {run.tip}
            new.is_precious = run.is_precious or len(run.done) < run.costly
            if not new.is_turn:
                return True
            new.late = {**run.late, **({run.tip: run.tasks} if run.tasks.is_open else {})}
            is_due = new.is_precious and not QUIET_NODES.issuperset(following)
            new.is_awaiting = is_due and bool(new.late) and not run.is_awaiting
            return run.is_awaiting or (is_due and not new.is_awaiting)

    def add_writes(self, held: HeldWrites, writes: Sequence[tuple[str, Any]]) -> bool:
        """Take in what a task wrote.

        Args:
            held: The writes.
            writes: Channel and value of each.

        Returns:
            Whether they, and with them all that is held for their thread, must be stored before the run goes
            on.
        """
        with self._lock:
            runs = self._runs.get(held.thread_id, {})
            run = runs.get(held.namespace)
            if held.checkpoint_id in self._left_out:
                held = replace(held, rows=())
            self._held.setdefault(held.thread_id, []).append(held)
            if run is None or held.checkpoint_id not in {run.tip, *run.before}:
                early = self._early.setdefault(held.thread_id, {})
                early.setdefault(held.checkpoint_id, set()).add(held.task_id)
                return True
            if any(channel in WRITES_IDX_MAP for channel, _ in writes):
                del runs[held.namespace]  # an error, a pause or an answer: the run may end here
                if not runs:
                    del self._runs[held.thread_id]
                return True
            run.arrive(held)
            completes = run.is_awaiting and not run.late
            if completes or held.checkpoint_id != run.tip:
                return completes
            node = held.task_path.removeprefix(_PULL) if held.task_path.startswith(_PULL) else None
            if node == START:
                return False
            if node in REPEATABLE_NODES | {_MODEL} and (run.is_turn or is_turn(dict(writes).get("turn"))):
                return False
            run.done.add(held.task_id)
            return True

    def has(self, thread_id: str | None = None) -> bool:
        """Whether anything is held, for a thread or (None) at all."""
        with self._lock:
            return bool(self._held) if thread_id is None else thread_id in self._held

    def take(self, thread_id: str | None = None) -> tuple[list[Held], list[Held]]:
        """Give out what is held, in the order in which it came, for the caller to store.

        Args:
            thread_id: The thread; None for all.

        Returns:
            All that was held, and what of it must be stored: without the checkpoints that newer ones have
            replaced. The next one then follows the one before. Facts for the record are kept in any case.
        """
        with self._lock:
            threads = [*self._held] if thread_id is None else [thread_id]
            for thread in threads:
                for run in self._runs.get(thread, {}).values():
                    run.is_precious = run.is_awaiting = False
                    run.late = {}
            taken = [held for thread in threads for held in self._held.pop(thread, ())]
            early = {thread: self._early.get(thread, ()) for thread in threads}
            parents = _replaced(taken, early)
            self._arrived(taken)
            self._left_out.update(dict.fromkeys(parents))
            for oldest in [*islice(self._left_out, max(0, len(self._left_out) - _REMEMBERED))]:
                del self._left_out[oldest]
        return taken, [kept for held in taken if (kept := _without(held, parents)) is not None]

    def put_back(self, taken: Sequence[Held]) -> None:
        """Hold again what was taken but could not be stored; nothing is known of its runs any more."""
        with self._lock:
            for held in taken:
                self._runs.pop(held.thread_id, None)
                if isinstance(held, HeldCheckpoint):
                    # What came before it may be stored already, so it stays.
                    self._early.setdefault(held.thread_id, {}).setdefault(held.id, set())
                    self._left_out.pop(held.id, None)
            for thread_id in {held.thread_id for held in taken}:
                kept = [held for held in taken if held.thread_id == thread_id]
                self._held[thread_id] = [*kept, *self._held.pop(thread_id, ())]

    def forget(self, thread_id: str) -> None:
        """Drop a thread that is deleted, with all that is held for it."""
        with self._lock:
            for known in (self._held, self._runs, self._early):
                known.pop(thread_id, None)

    def _forget_early(self, held: HeldCheckpoint) -> None:
        """Forget early writes of runs before this one. Its own may be there already; ids grow with time."""
        known = self._early.pop(held.thread_id, {})
        early = {checkpoint_id: tasks for checkpoint_id, tasks in known.items() if checkpoint_id > held.id}
        if early:
            self._early[held.thread_id] = early

    def _arrived(self, taken: Sequence[Held]) -> None:
        """Checkpoints whose early writes need not be remembered any more."""
        for held in taken:
            early = self._early.get(held.thread_id)
            if early and isinstance(held, HeldCheckpoint):
                early.pop(held.id, None)
                if not early:
                    del self._early[held.thread_id]


def _following(values: Mapping[str, Any]) -> list[str]:
    """The nodes whose tasks come after a checkpoint, a node once for each of its tasks."""
    branches = [name.removeprefix(_BRANCH) for name in values if name.startswith(_BRANCH)]
    sent = [task.node for task in values.get(_TASKS) or ()]
    return [*branches, *sent, *([START] if START in values else [])]


def _replaced(taken: Sequence[Held], early: Mapping[str, Collection[str]]) -> dict[str, str | None]:
    """The checkpoints that may be left out, and what their next ones follow instead."""
    pinned = {held.checkpoint_id for held in taken if isinstance(held, HeldWrites) and held.pins}
    checkpoints = [held for held in taken if isinstance(held, HeldCheckpoint)]
    followed = {held.parent for held in checkpoints}
    parents: dict[str, str | None] = {}
    for held in checkpoints:
        if held.can_go and held.id in followed and held.id not in {*pinned, *early[held.thread_id]}:
            parents[held.id] = parents.get(held.parent or "", held.parent)
    return parents


def _without(held: Held, parents: Mapping[str, str | None]) -> Held | None:
    if isinstance(held, HeldCheckpoint):
        if held.id in parents:
            return None
        return replace(held, parent=parents[held.parent]) if held.parent and held.parent in parents else held
    if held.checkpoint_id in parents:
        return replace(held, rows=()) if held.facts else None
    return held


def can_go(values: Mapping[str, Any], source: str | None) -> bool:
    """Whether a checkpoint with these values may be left out once the next one is stored.

    One that an input made, that comes before a model call or a tool call, or that holds the transcript whole
    stays: people go back to the former, and newer checkpoints are read from the latter.
    """
    if source != "loop" or TRANSCRIPT in values or not is_turn(values.get("turn")):
        return False
    following = _following(values)
    return bool(following) and all(name in REPEATABLE_NODES for name in following)
