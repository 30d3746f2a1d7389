"""Memory strategies: what of the conversation before the last turns goes into a request (docs/memory.md)."""

from turnflow.nodes.assemble_context.memory.hybrid import HybridMemory
from turnflow.nodes.assemble_context.memory.naming import as_memory
from turnflow.nodes.assemble_context.memory.summary import SummaryMemory
from turnflow.nodes.assemble_context.memory.vector import VectorMemory
from turnflow.nodes.assemble_context.memory.window import WindowMemory

__all__ = [
    "HybridMemory",
    "SummaryMemory",
    "VectorMemory",
    "WindowMemory",
    "as_memory",
]
