"""Plans a reply's calls before any runs: names, arguments, limits, waves (docs/tools.md). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolCall

from turnflow.graph.batch import BatchCall, PlannedBatch
from turnflow.graph.resources import TurnResources
from turnflow.graph.tool_names import safe_tool_name
from turnflow.graph.tool_registry import RegisteredTool, ToolRegistry
from turnflow.graph.transcript import result_message
from turnflow.nodes.dispatch_tools.arguments import read_arguments
from turnflow.nodes.dispatch_tools.ask_user import AskUserTool
from turnflow.nodes.dispatch_tools.problems import describe_problems
from turnflow.prompts import Prompts

UNPARSED = "__unparsed__"
"""Argument under which the transcript keeps text that could not be read: the model sees what it wrote."""

_MAX_UNPARSED = 2000
_MAX_NAME = 100


@dataclass
class _Read:
    """One call, read: what stands in the transcript, and what runs or why it does not."""

    id: str
    name: str
    shown_args: dict[str, Any]
    tool: RegisteredTool | None = None
    args: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""

    @property
    def asks(self) -> bool:
        """Whether the call asks the user."""
        return self.tool is not None and isinstance(self.tool.tool, AskUserTool)


def plan_batch(step: dict[str, Any], turn: dict[str, Any], resources: TurnResources) -> PlannedBatch:
    """What becomes of each call of a reply: it runs in some wave, or is answered with the reason why not."""
    calls = [_read(call, resources.tools_in(turn), resources.prompts) for call in step["calls"]]
    runnable = [call for call in calls if not call.refusal]
    changes = _limit(runnable, turn, resources)
    runnable = [call for call in runnable if not call.refusal]
    asks = sum(call.asks for call in runnable)
    return PlannedBatch(
        calls=[ToolCall(type="tool_call", id=c.id, name=c.name, args=c.shown_args) for c in calls],
        batch={
            "id": step["message_id"],
            "calls": {call["id"]: call for call in _waves(runnable)},
            "joined": False,
            "folded": False,
        },
        refusals=[result_message(turn["id"], c.id, c.name, c.refusal) for c in calls if c.refusal],
        turn={"tool_calls": turn["tool_calls"] + len(runnable), "asks": turn["asks"] + asks, **changes},
    )


def _read(call: dict[str, Any], registry: ToolRegistry, prompts: Prompts) -> _Read:
    tool = registry.find(call["name"])
    name = tool.name if tool else safe_tool_name(call["name"])
    read = read_arguments(
        call["arguments"], tool.parameters if tool else {}, host_only=tool.host_only if tool else ()
    )
    shown = read.given if read.given is not None else {UNPARSED: call["arguments"][:_MAX_UNPARSED]}
    result = _Read(call["id"], name, shown, tool, read.arguments or {})
    if not call["complete"]:
        result.refusal = prompts.text("result", "cut_off")
    elif tool is None:
        key = "unknown_tool" if registry.names else "no_tools"
        result.refusal = prompts.text(
            "result", key, name=call["name"][:_MAX_NAME], nearest=", ".join(registry.nearest(call["name"]))
        )
    elif read.given is None:
        result.refusal = prompts.text("result", "unparseable", reason=read.unparseable)
    elif read.problems:
        result.refusal = prompts.text("result", "invalid", problems=describe_problems(read.problems))
    return result


def _limit(calls: list[_Read], turn: dict[str, Any], resources: TurnResources) -> dict[str, Any]:
    """Refuse what is over a limit; gives the fields of the turn that change with it."""
    settings, prompts = resources.settings, resources.prompts
    asked: str | None = None
    for call in calls:
        if not call.asks:
            continue
        if asked is not None:
            call.refusal = prompts.text("result", "second_question", primary=asked)
        elif turn["asks"] >= settings.max_asks:
            call.refusal = prompts.text("result", "ask_limit", limit=settings.max_asks)
        else:
            asked = call.id
    left = [call for call in calls if not call.refusal]
    for call in left[settings.max_calls_per_batch :]:
        call.refusal = prompts.text("result", "batch_limit", limit=settings.max_calls_per_batch)
    left = left[: settings.max_calls_per_batch]
    if turn["tool_calls"] + len(left) <= settings.max_tool_calls:
        return {}
    for call in left:
        call.refusal = prompts.text("result", "turn_limit", limit=settings.max_tool_calls)
    return {"phase": "finish", "finish_cause": "call_limit"}


def _waves(calls: list[_Read]) -> list[BatchCall]:
    """Calls with their waves: side by side where safe, else alone in the model's order; a question last.

    What interrupts the graph stands alone in its superstep, so that everything else is saved before it.
    """
    planned: list[BatchCall] = []
    wave, is_shared = 0, True
    for call in sorted(calls, key=lambda call: call.asks):
        alone = call.asks or call.tool is None or not call.tool.policy.parallel_safe
        if planned and (alone or not is_shared):
            wave += 1
        is_shared = not alone
        planned.append(
            {
                "id": call.id,
                "name": call.name,
                "args": call.args,
                "wave": wave,
                "asks": call.asks,
                "done": False,
            }
        )
    order = {call.id: place for place, call in enumerate(calls)}
    return sorted(planned, key=lambda call: order[call["id"]])
