"""Runs turns at the terminal: questions and approvals asked in place, Ctrl-C cancels."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Sequence
from types import FrameType
from typing import Any

from langgraph.types import Command, Interrupt, StateSnapshot
from rich.console import Console

from turnflow import CancelToken, TurnContext, TurnResult, run_turn
from turnflow.apps.command_line.asking import ask, read_answers
from turnflow.apps.command_line.offered import check_offered
from turnflow.apps.command_line.plain import plain
from turnflow.apps.command_line.screen import TurnScreen
from turnflow.apps.command_line.setup import Agent


class BrokenOffError(KeyboardInterrupt):
    """A second Ctrl-C, while a turn was being cancelled."""


def new_thread() -> str:
    """A fresh thread id."""
    return str(uuid.uuid4())


def run_to_the_end(
    agent: Agent, given: Any, *, thread_id: str, screen: TurnScreen, asks: Console | None
) -> TurnResult:
    """Run a turn; where there is a console to ask on, what it asks is asked until it ends.

    With None for what is given, what is open in the thread is asked.
    """
    result = _run_cancellable(agent.graph, given, thread_id, screen)
    while result.interrupts and asks is not None:
        question = result.interrupts[0]
        answer = ask(asks, question.value)
        try:
            check_offered(agent.tools, _state(agent, thread_id).values["batch"], question.value, answer)
            result = _run_cancellable(agent.graph, Command(resume={question.id: answer}), thread_id, screen)
        except ValueError as error:
            asks.print(f"  {plain(str(error))}", style="red", markup=False, soft_wrap=True)
            # What is still open is asked again; where nothing is, this says so.
            result = _run_cancellable(agent.graph, None, thread_id, screen)
    return result


def is_waiting(agent: Agent, thread_id: str) -> bool:
    """Whether something is asked in a thread."""
    return bool(_open(_state(agent, thread_id)))


def resume_with(agent: Agent, thread_id: str, answers: Sequence[str]) -> Command[Any]:
    """The command that answers what is open in a thread.

    Raises:
        ValueError: The answers do not fit what is asked, or call for a tool that is not there; the text says
            which.
    """
    snapshot = _state(agent, thread_id)
    waiting = _open(snapshot)
    if not waiting:
        return Command(resume={"answers": list(answers)})  # refused, as nothing is open
    answer = read_answers(waiting[0].value, answers)
    check_offered(agent.tools, snapshot.values["batch"], waiting[0].value, answer)
    return Command(resume={waiting[0].id: answer})


def _state(agent: Agent, thread_id: str) -> StateSnapshot:
    snapshot: StateSnapshot = agent.graph.get_state({"configurable": {"thread_id": thread_id}})
    return snapshot


def _open(snapshot: StateSnapshot) -> list[Interrupt]:
    return [interrupt for task in snapshot.tasks for interrupt in task.interrupts]


def _run_cancellable(graph: Any, given: Any, thread_id: str, screen: TurnScreen) -> TurnResult:
    """Run a turn; the first Ctrl-C cancels it in good order, a second one breaks it off.

    Raises:
        BrokenOffError: It was broken off; it is settled as far as that was possible.
    """
    token = CancelToken()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        if token.cancelled:
            raise BrokenOffError
        token.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        with screen:
            return run_turn(
                graph, given, thread_id=thread_id, context=TurnContext(cancel=token), on_event=screen.show
            )
    finally:
        signal.signal(signal.SIGINT, before)
