"""Results for calls that are left open, so that the transcript is valid again: what is known of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from turnflow.graph.effects import EffectFound, FindEffects, keeps_journal
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.tool_names import ASK_USER
from turnflow.graph.transcript import open_calls, result_message


@dataclass(frozen=True)
class Closing:
    """Why calls are left open.

    Attributes:
        never_began: Key of the result of a call that did not begin.
        unsure: That of a call of which nothing is known.
        question: That of a question to the user.
    """

    never_began: str
    unsure: str
    question: str


SUPERSEDED = Closing("not_started", "superseded", "unanswered")
"""New input came before the turn was over."""

CANCELLED = Closing("not_run_cancelled", "cancelled", "not_run_cancelled")
"""The turn was cancelled."""


@dataclass(frozen=True)
class Closed:
    """What closes the open calls of a transcript.

    Attributes:
        messages: A result for each of them.
        reports: What those that ran said beside their results, each with the `name` of its tool.
    """

    messages: list[ToolMessage]
    reports: list[dict[str, Any]]


def close_open_calls(
    messages: Sequence[AnyMessage],
    turn: dict[str, Any],
    closing: Closing,
    run: NodeRun,
    *,
    never_began: Collection[str],
) -> Body[Closed]:
    """A result for each open call, on record under the turn that left it open.

    LangGraph drops what the tasks of a superstep have written when new input comes before the superstep is
    over. The journal of effects knows better: a call that ran gets its result, one that had begun is
    reported as such (docs/effects.md).

    Args:
        messages: The transcript.
        turn: The turn that left them open; empty where none is known.
        closing: Why.
        run: The node's run.
        never_began: Ids of calls of which it is known that they did not begin.
    """
    prompts, turn_id, emitter = run.resources.prompts, turn.get("id", "before"), run.emitter(turn)
    closed = Closed([], [])
    journal: dict[str | None, Mapping[str, EffectFound]] = {}
    for message_id, call in open_calls(messages):
        if message_id not in journal:
            journal[message_id] = yield FindEffects(run, batch_id=message_id or "")
        found = journal[message_id].get(call["id"] or "")
        if found and found.result is not None:
            closed.messages.append(found.result)
            closed.reports.append({**found.report, "name": call["name"]})
            continue
        if found:
            key = {"done": "lost", "started": "indeterminate"}.get(found.state, closing.unsure)
        elif call["name"] == ASK_USER:
            key = closing.question
        else:
            is_sure = (message_id or "").startswith(turn_id) and keeps_journal(run)
            key = closing.never_began if is_sure or call["id"] in never_began else closing.unsure
        text = prompts.text("result", key)
        closed.messages.append(result_message(turn_id, call["id"] or "", call["name"], text))
        status = "indeterminate" if key in {"lost", "indeterminate"} else "cancelled"
        emitter.record("tool.result", tool_call_id=call["id"], name=call["name"], status=status)
    return closed
