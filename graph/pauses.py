"""Scheduling a pause: said by the node that schedules it, so that resuming repeats nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnflow.graph.batch import Batch, awaiting_approval, next_wave
from turnflow.graph.flow import Body, NodeRun, Update
from turnflow.graph.outcome import make_outcome
from turnflow.graph.shown import shown_json
from turnflow.prompts import Prompts

_MAX_ARGUMENTS = 500
"""Characters of a call's arguments that the answer of a pause shows; the interrupt has them whole."""


@dataclass(frozen=True)
class Pause:
    """What a batch waits for.

    Attributes:
        reason: The stop reason, `question` or `approval`.
        fields: What the event and the hook tell.
        text: The turn's answer while it is paused.
    """

    reason: str
    fields: dict[str, Any]
    text: str


def next_pause(batch: Batch, prompts: Prompts) -> Pause | None:
    """What the next wave of a batch asks a person, or None."""
    if asked := awaiting_approval(batch):
        actions = [{"tool_call_id": c["id"], "name": c["name"], "args": c["args"]} for c in asked]
        lines = "\n".join(_action(action, prompts) for action in actions)
        return Pause(
            "approval", {"action_requests": actions}, prompts.text("pause", "approval", actions=lines)
        )
    call = next((call for call in next_wave(batch) if call["asks"]), None)
    if call is None:
        return None
    questions = call["args"]["questions"]
    text = "\n".join(question["prompt"] for question in questions)
    return Pause("question", {"tool_call_id": call["id"], "questions": questions}, text)


def announce_pause(turn: dict[str, Any], pause: Pause, run: NodeRun) -> Body[Update]:
    """Say that the turn pauses; gives the state update that shows it."""
    run.emitter(turn).emit("paused", **pause.fields)
    yield from run.hook("on_pause", turn, **pause.fields)
    return {"answer": pause.text, "outcome": make_outcome(turn, "paused", pause.reason)}


def _action(action: dict[str, Any], prompts: Prompts) -> str:
    arguments = shown_json(action["args"], _MAX_ARGUMENTS)
    return prompts.text("pause", "action", name=action["name"], arguments=arguments)
