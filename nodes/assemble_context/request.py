"""The next request: what is gathered, and the plan of it."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage

from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.memory import recent_turns, sums_up
from turnflow.graph.tool_names import READ_RESULT
from turnflow.graph.transcript import turn_messages
from turnflow.nodes.assemble_context.gathering import gather
from turnflow.nodes.assemble_context.view import plan_view


def plan_request(state: Any, run: NodeRun) -> Body[dict[str, Any]]:
    """The channels `gathered` and `view`, and `turn` where the plan changes it."""
    gathered = yield from gather(state, run)
    turn = state["turn"]
    memory = run.resources.memory
    recent = None if sums_up(memory) else recent_turns(memory)
    view = plan_view(state, gathered, recent, run.resources)
    if _is_tight(view["manifest"], run) and _can_fetch(state, view, run):
        # Old results can give way to a line that says how to read them again, where the tool is there.
        turn = {**turn, "has_handles": True}
        view = plan_view({**state, "turn": turn}, gathered, recent, run.resources)
    return {"gathered": gathered, "view": view, "turn": turn}


def _is_tight(manifest: dict[str, Any], run: NodeRun) -> bool:
    return not manifest["fits"] or manifest["fill"] > (run.resources.settings.fold_at or 1.0)


def _can_fetch(state: Any, view: dict[str, Any], run: NodeRun) -> bool:
    """Whether `read_result` could be offered, is not yet, and would have something to read."""
    turn = state["turn"]
    if turn.get("has_handles") or turn["phase"] == "finish" or not view["offered"]:
        return False
    own = turn_messages(state["messages"], turn["input_id"])
    return run.resources.registry.has_built_in(READ_RESULT) and any(isinstance(m, ToolMessage) for m in own)
