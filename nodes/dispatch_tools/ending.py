"""How a call ended, and how events, hooks and the transcript are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import ToolMessage

from turnflow.graph.batch import BatchCall
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.transcript import result_message
from turnflow.nodes.dispatch_tools.results import Rendered

EndStatus = Literal["ok", "error", "timeout", "cancelled", "indeterminate", "asked", "rejected", "refused"]

_SAID = ("checkpoint", "terminate", "load", "unload", "instructions", "variables")


@dataclass(frozen=True)
class Ended:
    """The end of a call.

    Attributes:
        status: What the event `tool.result` says.
        rendered: What the model reads.
    """

    status: EndStatus
    rendered: Rendered


def tell_end(
    call: BatchCall, ended: Ended, turn: dict[str, Any], run: NodeRun, **fields: Any
) -> Body[tuple[ToolMessage, dict[str, Any]]]:
    """Tell that a call has ended; gives its tool message, and its report for the batch.

    Args:
        call: The call.
        ended: Its end.
        turn: The turn.
        run: The node's run.
        fields: Further fields of the event.
    """
    rendered = ended.rendered
    message = result_message(turn["id"], call["id"], call["name"], rendered.content, ok=rendered.ok)
    message.artifact = rendered.artifact
    if handle := rendered.report.get("handle"):
        message.additional_kwargs["turnflow"] = {"handle": handle}
    told = {
        "tool_call_id": call["id"],
        "name": call["name"],
        "status": ended.status,
        "content": rendered.content,
    }
    run.emitter(turn).emit("tool.result", recorded=_beside(rendered), **fields, **told)
    said: list[str] = []
    if ended.status not in {"refused", "rejected"}:
        said = yield from run.hook("on_tool_result", turn, **told)
    report = {"directives": said, **rendered.report}
    # What says nothing is left out; "" takes instructions away.
    return message, {key: value for key, value in report.items() if value or value == ""}


def _beside(rendered: Rendered) -> dict[str, Any]:
    """What the record holds of what a tool said beside its content, and is nowhere else on it."""
    said = {name: rendered.report.get(name) for name in _SAID}
    said = {name: value for name, value in said.items() if value or value == ""}
    return {"said": said} if said else {}
