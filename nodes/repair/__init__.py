"""Turns a violation into a directive for the next request."""

from turnflow.nodes.repair.node import repair

__all__ = ["repair"]
