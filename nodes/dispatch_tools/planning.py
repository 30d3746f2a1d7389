"""Plans the calls of a reply, the permission policies being asked on the way."""

from __future__ import annotations

from typing import Any

from turnflow.graph.batch import PlannedBatch
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.langgraph_access import can_pause
from turnflow.graph.permissions import AskPermissions
from turnflow.graph.state import TurnState
from turnflow.nodes.dispatch_tools.batch import permission_requests, plan_batch, read_batch


def plan_calls(step: dict[str, Any], state: TurnState, run: NodeRun) -> Body[PlannedBatch]:
    """What becomes of each call of a reply."""
    resources, turn = run.resources, state["turn"]
    registry = resources.tools_in(turn)
    read = read_batch(
        step, turn, registry, resources.settings, resources.prompts, asked=turn.get("asked", ())
    )
    grants = (state.get("session") or {}).get("grants", {})
    requests = permission_requests(read, grants, resources.context)
    said = yield AskPermissions(resources.permissions, list(requests.values()), resources.cancel)
    permissions = dict(zip(requests, said, strict=True))
    return plan_batch(read, permissions, resources.prompts, can_pause=can_pause(run.config))
