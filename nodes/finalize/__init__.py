"""Settles the answer and the outcome."""

from turnflow.nodes.finalize.node import finalize

__all__ = ["finalize"]
