"""Runs a turn that Ctrl-C cancels."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from turnflow import CancelToken, TurnContext, TurnResult, run_turn
from turnflow.apps.command_line.screen import TurnScreen


def run_cancellable(graph: Any, given: Any, *, thread_id: str | None, screen: TurnScreen) -> TurnResult:
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
