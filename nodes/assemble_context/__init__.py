"""First node and join of a turn: plans what the model sees next."""

from turnflow.nodes.assemble_context.manifest import Manifest, explain
from turnflow.nodes.assemble_context.memory import as_memory
from turnflow.nodes.assemble_context.node import assemble_context
from turnflow.nodes.assemble_context.planner import PlanInput, plan_context
from turnflow.nodes.assemble_context.request import plan_request

__all__ = [
    "Manifest",
    "PlanInput",
    "as_memory",
    "assemble_context",
    "explain",
    "plan_context",
    "plan_request",
]
