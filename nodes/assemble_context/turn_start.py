"""The start of a turn: its id, its counters, and the end of one that it leaves behind."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from turnflow.graph.content import clean_content
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.outcome import NO_USAGE, make_outcome
from turnflow.graph.state import LAYOUT, TurnState
from turnflow.graph.transcript import last_user_message, turn_messages


def starts_turn(messages: Sequence[AnyMessage], turn: dict[str, Any]) -> bool:
    """Whether `turn` is over, or is not the one that answers the newest user message."""
    if not turn or turn["phase"] == "ended":
        return True
    user = last_user_message(messages)
    return user is not None and user.id != turn["input_id"]


def new_turn(
    messages: Sequence[AnyMessage], old: dict[str, Any], *, thread_id: str | None, max_rounds: int
) -> dict[str, Any]:
    """The `turn` channel of a new turn.

    Raises:
        ValueError: The input brings no new user message.
    """
    user = input_message(messages, old)
    # A parent may send the same user message again, behind what others made of it.
    behind = len(turn_messages(messages, user.id))
    return {
        "layout": LAYOUT,
        "id": f"turn-{user.id}-{behind}" if behind else f"turn-{user.id}",
        "session_id": thread_id or str(uuid.uuid4()),
        "input_id": user.id,
        "message_id": "",
        "round": 0,
        "phase": "explore",
        "max_rounds": max_rounds,
        "continuations": 0,
        "continuing": False,
        "nudged": False,
        "output_factor": 1,
        "asks": 0,
        "tool_calls": 0,
        "unavailable": [],
        "directives": [],
        "degradations": [],
        "finish_cause": "",
        "usage": dict(NO_USAGE),
        "sources": [],
    }


def input_message(messages: Sequence[AnyMessage], old: dict[str, Any]) -> HumanMessage:
    """The user message that starts a turn."""
    user = last_user_message(messages)
    if user is None:
        raise ValueError(
            'no user message to answer: the input\'s `messages` must end with one, such as ("user", "hi")'
        )
    if not clean_content(user.content):
        raise ValueError("the user message is empty; it needs some text, an image or another block")
    if user.id == old.get("input_id"):
        raise ValueError(
            f"no new user message to answer: {user.id!r} was answered already. End `messages` with a "
            "new user message (another id), or resume with Command(resume=...)"
        )
    return user


def end_abandoned(state: TurnState, run: NodeRun) -> Body[None]:
    """Put the end of a turn on record that nobody waits for any more: new input came before it was over.

    One that was paused ends as `paused`, with its questions as the answer; any other as `cancelled`.
    """
    old = state.get("turn") or {}
    if not old or old["phase"] == "ended":
        return
    outcome, answer = state.get("outcome") or {}, state.get("answer", "")
    if outcome.get("status") != "paused":
        outcome, answer = dict(make_outcome(old, "cancelled", "superseded")), ""
    run.emitter(old).record("turn.ended", outcome=outcome, answer=answer)
    yield from run.hook("on_turn_end", old, outcome=outcome, answer=answer)
