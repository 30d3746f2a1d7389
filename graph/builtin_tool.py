"""Tools that come along and that the graph runs itself."""

from __future__ import annotations

from langchain_core.tools import StructuredTool


class BuiltinTool(StructuredTool):
    """A tool as it is offered to the model; a node of the graph does its work, nobody calls it.

    One of the caller's own with the same name takes its place.
    """
