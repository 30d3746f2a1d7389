"""Effects at most once: what a node waits for before a call with effects runs (docs/effects.md)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from turnflow.graph.effects_journal import NEW, Effect, EffectFound
from turnflow.graph.effects_markers import find_marked, start_marked, withdraw_marked
from turnflow.graph.flow import Body, NodeRun, TwoWays, adrive, drive
from turnflow.graph.langgraph_access import durability_of, saver_of
from turnflow.graph.saver_effects import EffectStore

__all__ = ["Effect", "EffectFound", "FindEffects", "StartEffect", "WithdrawEffect", "keeps_journal"]

logger = logging.getLogger("turnflow")

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds to wait for LangGraph to hand over the checkpoint that a call comes after."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05

_unsaved: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Embedded graphs whose checkpoints did not come, by the saver and the names of the nodes that they are in:
with `checkpointer=False` they have none; nothing in a task's configuration tells, and each call would
wait."""


class StartEffect:
    """Enters a call as started, durably, unless it was before; gives an `EffectFound`.

    The caller runs the tool only if its state is `new`.

    Args:
        run: The run of the node whose task is about to run the tool.
        batch_id: Id of the assistant message that made the call.
        call_id: Id of the call.
        name: The tool's name.
        key: Stands for the tool and its arguments.
        again: Whether the call may be run twice: one that was started and is not done is `new` again.
    """

    def __init__(
        self, run: NodeRun, *, batch_id: str, call_id: str, name: str, key: str, again: bool = False
    ) -> None:
        self._run = run
        self._effect = _effect(run, batch_id, call_id, key=key, name=name)
        self._again = again

    def call(self) -> EffectFound:
        """Do it, blocking."""
        return drive(self._start())

    async def acall(self) -> EffectFound:
        """Do it, awaiting."""
        return await adrive(self._start())

    def _start(self) -> Body[EffectFound]:
        if self._effect is None:
            return NEW
        is_exit = durability_of(self._run.config) == "exit"
        if is_exit:
            _warn_once(
                'durability="exit" with a tool that has effects: if the process dies, the turn is lost, but '
                "not what the tool did; use another durability, or declare the tool read_only"
            )
        names = _names(self._effect.namespace)
        unsaved = _unsaved.setdefault(saver_of(self._run.config), set())
        can_wait = not is_exit and names not in unsaved
        deadline = time.monotonic() + PATIENCE
        pause = _FIRST_PAUSE
        while True:
            waits = can_wait and time.monotonic() < deadline
            found: EffectFound | None = yield from self._ask(self._effect, needs_checkpoint=waits)
            if found is not None:
                break
            yield _sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        if can_wait and not waits:
            logger.warning(
                "the checkpoint before a call of %s was not stored within %s seconds; it runs all the same "
                "(a turn graph that is embedded with checkpointer=False has none; use None)",
                self._effect.name,
                PATIENCE,
            )
            if names:
                unsaved.add(names)
        return found

    def _ask(self, effect: Effect, *, needs_checkpoint: bool) -> Body[EffectFound | None]:
        saver = saver_of(self._run.config)
        options = {"again": self._again, "needs_checkpoint": needs_checkpoint}
        if isinstance(saver, EffectStore):
            found: EffectFound | None = yield TwoWays(
                lambda: saver.start_effect(effect, **options), lambda: saver.astart_effect(effect, **options)
            )
            return found
        started = start_marked(saver, self._run.config, effect, **options)
        return (yield from _unless_it_cannot(started, saver, NEW))


class FindEffects:
    """Looks up what the journal holds of a batch; gives a dict of `EffectFound` by call id.

    Calls that never started, or were withdrawn, are not in it.

    Args:
        run: The run of any node of the turn graph.
        batch_id: Id of the assistant message that made the calls.
    """

    def __init__(self, run: NodeRun, batch_id: str) -> None:
        self._run = run
        self._batch_id = batch_id

    def call(self) -> dict[str, EffectFound]:
        """Do it, blocking."""
        return drive(self._find())

    async def acall(self) -> dict[str, EffectFound]:
        """Do it, awaiting."""
        return await adrive(self._find())

    def _find(self) -> Body[dict[str, EffectFound]]:
        namespace, saver, thread_id = _namespace(self._run), saver_of(self._run.config), self._run.thread_id
        if namespace is None or saver is None or thread_id is None:
            return {}
        if isinstance(saver, EffectStore):
            asked = (thread_id, namespace, self._batch_id)
            found: dict[str, EffectFound] = yield TwoWays(
                lambda: saver.find_effects(*asked), lambda: saver.afind_effects(*asked)
            )
            return found
        marked = find_marked(saver, self._run.config, namespace, self._batch_id)
        return (yield from _unless_it_cannot(marked, saver, {}))


class WithdrawEffect:
    """Takes back a start, as the tool has interrupted the graph itself and will run again from its top.

    Our own saver does that when it stores the interrupt, so there is nothing to do for it.

    Args:
        run: The run of the node whose task ran the tool.
        batch_id: Id of the assistant message that made the call.
        call_id: Id of the call.
    """

    def __init__(self, run: NodeRun, *, batch_id: str, call_id: str) -> None:
        self._run = run
        self._effect = _effect(run, batch_id, call_id)

    def call(self) -> None:
        """Do it, blocking."""
        drive(self._withdraw())

    async def acall(self) -> None:
        """Do it, awaiting."""
        await adrive(self._withdraw())

    def _withdraw(self) -> Body[None]:
        saver = saver_of(self._run.config)
        if self._effect is not None and not isinstance(saver, EffectStore):
            withdrawn = withdraw_marked(saver, self._run.config, self._effect)
            yield from _unless_it_cannot(withdrawn, saver, None)


def keeps_journal(run: NodeRun) -> bool:
    """Whether a call that is not in the journal never began: only our own saver is as sure as that."""
    return isinstance(saver_of(run.config), EffectStore)


def _effect(run: NodeRun, batch_id: str, call_id: str, *, key: str = "", name: str = "") -> Effect | None:
    """The call as this run's task would make it; None where nothing is saved."""
    info, namespace, thread_id = run.runtime.execution_info, _namespace(run), run.thread_id
    if info is None or namespace is None or thread_id is None or saver_of(run.config) is None:
        return None
    return Effect(
        thread_id=thread_id,
        namespace=namespace,
        batch_id=batch_id,
        call_id=call_id,
        key=key,
        name=name,
        task_id=info.task_id,
        checkpoint_id=info.checkpoint_id,
    )


def _namespace(run: NodeRun) -> str | None:
    """The checkpoint namespace of the turn graph: that of the task, without the task's own part."""
    info = run.runtime.execution_info
    return None if info is None else info.checkpoint_ns.rpartition("|")[0]


def _names(namespace: str) -> str:
    """A namespace without the ids of its tasks: the same in each turn."""
    return "|".join(part.partition(":")[0] for part in namespace.split("|"))


def _unless_it_cannot(body: Body[T], saver: object, otherwise: T) -> Body[T]:
    """What a body gives; something else on a saver that has no methods for this kind of run."""
    try:
        return (yield from body)
    except NotImplementedError:
        _warn_once(
            f"{type(saver).__name__} cannot keep the effects journal in this kind of run, sync or async: "
            "what a tool did before a crash is not known afterwards"
        )
        return otherwise


def _sleep(seconds: float) -> TwoWays:
    return TwoWays(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def _warn_once(text: str) -> None:
    """Log a warning, the first time that this process has to say it; tasks of a wave say it at once."""
    with _lock:
        is_new = text not in _warned
        _warned.add(text)
    if is_new:
        logger.warning("%s", text)


_lock = threading.Lock()
_warned: set[str] = set()
