"""The strict projection, under the name by which the planner knows it."""

from turnflow.graph.strict_projection import FILLERS, SEPARATOR, Fillers, project

__all__ = ["FILLERS", "SEPARATOR", "Fillers", "project"]
