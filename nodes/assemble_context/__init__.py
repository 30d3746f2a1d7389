"""First node and join of a turn: plans what the model sees next."""

from turnflow.nodes.assemble_context.node import assemble_context
from turnflow.nodes.assemble_context.planner import Manifest, PlanInput, plan_context
from turnflow.nodes.assemble_context.view import plan_view

__all__ = ["Manifest", "PlanInput", "assemble_context", "plan_context", "plan_view"]
