"""Runs turns at the terminal: questions asked in place, Ctrl-C cancels."""

from __future__ import annotations

import signal
import uuid
from types import FrameType
from typing import Any

from langgraph.types import Command
from rich.console import Console

from turnflow import CancelToken, TurnContext, TurnResult, run_turn
from turnflow.apps.command_line.asking import ask
from turnflow.apps.command_line.screen import TurnScreen


def new_thread() -> str:
    """A fresh thread id."""
    return str(uuid.uuid4())


def run_to_the_end(
    graph: Any, given: Any, *, thread_id: str, screen: TurnScreen, asks: Console | None
) -> TurnResult:
    """Run a turn; where there is a console to ask on, its questions are asked until it ends."""
    result = _run_cancellable(graph, given, thread_id, screen)
    while result.interrupts and asks is not None:
        answer: Command[Any] = Command(resume=ask(asks, result.interrupts[0].value))
        result = _run_cancellable(graph, answer, thread_id, screen)
    return result


def _run_cancellable(graph: Any, given: Any, thread_id: str, screen: TurnScreen) -> TurnResult:
    """Run a turn; the first Ctrl-C cancels it in good order, a second one breaks it off."""
    token = CancelToken()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        if token.cancelled:
            raise KeyboardInterrupt
        token.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        with screen:
            return run_turn(
                graph, given, thread_id=thread_id, context=TurnContext(cancel=token), on_event=screen.show
            )
    finally:
        signal.signal(signal.SIGINT, before)
