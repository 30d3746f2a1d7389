"""`run_turn` and `arun_turn`: one turn, whatever state its thread is in (docs/running.md)."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import RESUME
from langgraph.constants import START
from langgraph.errors import is_invalid_resume
from langgraph.pregel import Pregel
from langgraph.types import Command, Durability, Interrupt, StateSnapshot
from pydantic import ValidationError

from turnflow.graph.breaking_off import ctrl_c_cancels, settled_first
from turnflow.graph.context import TurnContext
from turnflow.graph.decision import decide
from turnflow.graph.flow import Body, adrive, drive
from turnflow.graph.inbox_access import acknowledge_held, is_all_held
from turnflow.graph.outcome import Outcome, TurnError, make_outcome
from turnflow.graph.runner import OnEvent, Ran, Runner
from turnflow.graph.shown import shown
from turnflow.graph.text import storable
from turnflow.graph.transcript import last_user_message

logger = logging.getLogger("turnflow")

_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")

TurnInputLike = str | BaseMessage | list[Any] | Command[Any]


@dataclass(frozen=True)
class TurnResult:
    """What a turn gave.

    Attributes:
        answer: The answer's text; for a pause, the questions.
        outcome: How the turn ended (docs/outcomes.md).
        messages: The transcript, the turn's messages included.
        interrupts: The open questions of a paused turn.
        thread_id: The thread it is kept under, or None.
    """

    answer: str
    outcome: Outcome
    messages: list[AnyMessage]
    interrupts: tuple[Interrupt, ...] = ()
    thread_id: str | None = None

    @property
    def status(self) -> str:
        """The outcome's status."""
        return self.outcome["status"]


def run_turn(
    graph: Pregel[Any, Any, Any, Any],
    input: TurnInputLike | None,  # noqa: A002 - LangGraph's own name for it
    *,
    thread_id: str | None = None,
    context: TurnContext | Mapping[str, Any] | None = None,
    config: RunnableConfig | None = None,
    on_event: OnEvent | None = None,
    durability: Durability = "sync",
) -> TurnResult:
    """Run one turn to its end or to a question.

    An earlier turn that a crash left unfinished is finished first, so that no input that was stored is
    lost. New input while a question is open cancels the question. Ctrl-C settles the turn as `cancelled`
    and is raised on (docs/cancelling.md).

    Args:
        graph: A graph of `build_turn_graph`.
        input: The user's message, a message, or a list of messages that ends with the user's;
            `Command(resume=answer)` answers an open question; None goes on with an unfinished turn.
        thread_id: The thread to go on with; None starts a new one where the graph has a saver.
        context: What this run uses.
        config: Further LangGraph configuration, such as callbacks.
        on_event: Called with each event (docs/events.md).
        durability: When LangGraph saves a superstep. `sync` is what keeps a finished call from running
            again after a crash.

    Raises:
        TurnError: A request failed and the turn had gathered nothing yet.
        ValueError: The input or the answer is wrong; the text says how. An open question stays open.
    """
    runner = Runner(graph, _config(graph, thread_id, config), context, on_event, durability)
    with runner, ctrl_c_cancels(runner.token):
        return drive(_turn(runner, input))


async def arun_turn(
    graph: Pregel[Any, Any, Any, Any],
    input: TurnInputLike | None,  # noqa: A002 - LangGraph's own name for it
    *,
    thread_id: str | None = None,
    context: TurnContext | Mapping[str, Any] | None = None,
    config: RunnableConfig | None = None,
    on_event: OnEvent | None = None,
    durability: Durability = "sync",
) -> TurnResult:
    """Run one turn to its end or to a question, awaiting; see `run_turn`.

    A task that is cancelled from outside settles the turn as `cancelled` before it ends.
    """
    runner = Runner(graph, _config(graph, thread_id, config), context, on_event, durability)
    with runner:
        return await settled_first(adrive(_turn(runner, input)), runner.token)


def _turn(run: Runner, given: TurnInputLike | None) -> Body[TurnResult]:
    try:
        open_pause = yield from _prepare(run, given)
        if open_pause is not None:
            return open_pause
        if run.is_saved and (yield from is_all_held(run.inbox, given, run.state)):
            values, interrupts = yield from _as_it_stands(run)
        else:
            values, interrupts = yield run.run(_as_input(given))
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        try:
            yield from _settle(run)
        except Exception:
            logger.exception("the turn of thread %s that was broken off could not be settled", run.thread_id)
        raise
    except ValidationError as error:
        if is_invalid_resume(error):
            answer = shown(given.resume) if isinstance(given, Command) else ""
            raise ValueError(f"the answer {answer} does not fit the question: {_problems(error)}") from error
        raise
    yield from acknowledge_held(run.inbox, values)
    turn: dict[str, Any] = {}
    if interrupts and run.is_saved:
        snapshot = yield run.newest()
        turn = snapshot.values["turn"]
    return _result(values, interrupts, turn, run)


def _as_it_stands(run: Runner) -> Body[Ran]:
    """What a thread holds that has all of the input already; a turn that is not over goes on."""
    snapshot = yield run.state()
    interrupts = tuple(interrupt for task in snapshot.tasks for interrupt in task.interrupts)
    if not interrupts and _has_open_turn(snapshot.values):
        ran: Ran = yield run.run(None)
        return ran
    return snapshot.values, interrupts


def _result(
    values: dict[str, Any], interrupts: tuple[Interrupt, ...], turn: dict[str, Any], run: Runner
) -> TurnResult:
    outcome = values["outcome"]
    if interrupts and outcome.get("status") != "paused":
        # A tool interrupted the graph by itself: no node could say so in the state.
        outcome = make_outcome(turn, "paused", "interrupt")
    return TurnResult(values["answer"], outcome, values["messages"], interrupts, run.thread_id)


def _prepare(run: Runner, given: TurnInputLike | None) -> Body[TurnResult | None]:
    """Look at the thread before the input goes in: it may have to be refused, or to wait for another turn.

    Gives the pause that is open, where no input would only run into it again.
    """
    if not run.is_saved:
        if given is None or isinstance(given, Command):
            raise ValueError("only a thread can be gone on with: build the graph with a checkpointer")
        return None
    snapshot = yield run.state()
    if isinstance(given, Command):
        _check_resume(given, snapshot)
        if run.checkpoint_id is not None:
            yield from _check_unanswered(run, snapshot)
    elif given is None:
        _check_open(snapshot)
        interrupts = tuple(interrupt for task in snapshot.tasks for interrupt in task.interrupts)
        if interrupts:
            return _result(snapshot.values, interrupts, snapshot.values["turn"], run)
    elif is_unfinished(snapshot):
        yield from _finish(run)
    elif _was_cancelled(snapshot):
        yield from _settle(run)
    return None


def is_unfinished(snapshot: StateSnapshot) -> bool:
    """Whether a crash left a turn unfinished.

    A turn that waits for an answer, or whose failure was reported to its caller, is not. The values alone
    would not do: they show what finished tasks have written, which counts only once their superstep is over.
    Nor would `next`, which may be empty after a crash.
    """
    if any(task.interrupts or task.error for task in snapshot.tasks):
        return False
    return bool(snapshot.tasks) or START in snapshot.next or _has_open_turn(snapshot.values)


def _was_cancelled(snapshot: StateSnapshot) -> bool:
    """Whether the graph was run by itself, and that task was cancelled."""
    return any("CancelledError" in str(task.error or "") for task in snapshot.tasks)


def _has_open_turn(values: dict[str, Any]) -> bool:
    """Whether the newest user message has no ended turn."""
    turn = values.get("turn") or {}
    user = last_user_message(values.get("messages") or [])
    return user is not None and (turn.get("input_id") != user.id or turn.get("phase") != "ended")


def _finish(run: Runner) -> Body[None]:
    """Finish the turn that a crash left behind."""
    logger.info("thread %s holds an unfinished turn; it is finished first", run.thread_id)
    try:
        yield run.run(None)
    except TurnError as error:
        logger.warning("the unfinished turn of thread %s failed: %s", run.thread_id, error)


def _settle(run: Runner) -> Body[None]:
    """End a turn whose run was broken off from outside, as if its token had been cancelled.

    The broken-off task could write nothing; what others have finished is kept, and what came of a reply.
    """
    if not run.is_saved:
        return
    snapshot = yield run.state()
    if any(task.interrupts for task in snapshot.tasks):
        return
    if snapshot.tasks or START in snapshot.next:
        yield run.run(None, cancelled=True)
        snapshot = yield run.state()
    if _has_open_turn(snapshot.values) and snapshot.values.get("turn") and not snapshot.tasks:
        # The break came between a node's update and its edge: nothing would ever follow.
        yield run.update({"decision": decide("stop", "cancelled")}, as_node="assemble_context")
        yield run.run(None, cancelled=True)


def _check_open(snapshot: StateSnapshot) -> None:
    """Refuse to go on with a thread in which nothing is open."""
    if not is_unfinished(snapshot) and not snapshot.tasks:
        raise ValueError("there is no unfinished turn in this thread; send a message")


def _check_resume(command: Command[Any], snapshot: StateSnapshot) -> None:
    """Refuse an answer to a question that is not open: LangGraph would pass over it in silence."""
    waiting = [interrupt.id for task in snapshot.tasks for interrupt in task.interrupts]
    if command.resume is None and command.update is None and not command.goto:
        raise ValueError("the command has no answer; give Command(resume=...)")
    if not waiting and _has_open_turn(snapshot.values):
        raise ValueError(
            "no question is open at this point, though its turn is not over, as the state was changed; go on "
            "with None, to be asked anew"
        )
    if not waiting:
        raise ValueError("no question is open in this thread; send a message instead of an answer")
    resume = command.resume
    if isinstance(resume, dict) and resume and all(_INTERRUPT_ID.fullmatch(str(key)) for key in resume):
        stale = [key for key in resume if key not in waiting]
        if stale:
            raise ValueError(f"question {stale[0]!r} is not open; open are: {', '.join(waiting)}")


def _check_unanswered(run: Runner, snapshot: StateSnapshot) -> Body[None]:
    """Refuse an answer at an old checkpoint that has one: LangGraph would take the old one in silence."""
    newest: StateSnapshot = yield run.newest()
    if newest.config["configurable"]["checkpoint_id"] == snapshot.config["configurable"]["checkpoint_id"]:
        return
    saved = yield run.saved(snapshot.config)
    waiting = {task.id for task in snapshot.tasks if task.interrupts}
    answered = {task_id for task_id, channel, _ in saved.pending_writes or () if channel == RESUME}
    if waiting & answered:
        raise ValueError(
            f"the question at checkpoint {run.checkpoint_id!r} was answered; go on from the checkpoint "
            "before it, to be asked anew"
        )


def _as_input(given: TurnInputLike | None) -> Any:
    if given is None or isinstance(given, Command):
        return given
    if isinstance(given, str):
        if not given.strip():
            raise ValueError('the message is empty; say something, such as "hello"')
        return {"messages": [HumanMessage(content=storable(given))]}
    if isinstance(given, BaseMessage):
        return {"messages": [given]}
    if isinstance(given, list) and given:
        return {"messages": given}
    raise ValueError(f"the input is a message, a list of messages or Command(resume=...), not {given!r:.80}")


def _config(
    graph: Pregel[Any, Any, Any, Any], thread_id: str | None, config: RunnableConfig | None
) -> RunnableConfig:
    given = (config or {}).get("configurable", {})
    thread = thread_id or given.get("thread_id") or (str(uuid.uuid4()) if graph.checkpointer else None)
    if thread is None:
        return config or {}
    return {**(config or {}), "configurable": {**given, "thread_id": str(thread)}}


def _problems(error: ValidationError) -> str:
    return "; ".join(
        ": ".join(filter(None, [".".join(map(str, problem["loc"])), problem["msg"]]))
        for problem in error.errors()
    )
