"""A tool as the request's `tools` list holds it, checked and of bounded size."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from turnflow.graph.json_schema import check_extent, check_schema

MAX_DESCRIPTION_CHARS = 20_000
"""Characters of a tool's description."""


def definition_of(tool: BaseTool) -> dict[str, Any]:
    """The tool as `{"type": "function", "function": {"name", "description", "parameters"}}`.

    Raises:
        ValueError: There is no description, or it or the schema cannot be used; says what mends it.
    """
    description = tool.description or ""
    if not description.strip():
        raise ValueError("it has no description; the model chooses by it")
    if len(description) > MAX_DESCRIPTION_CHARS:
        raise ValueError(
            f"its description has {len(description)} characters, of at most {MAX_DESCRIPTION_CHARS}, and "
            "goes out with each request; set `tool.description` to a shorter one before you give the tool"
        )
    check_extent(_schema_of(tool))
    try:
        definition = convert_to_openai_tool(tool)
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"its schema cannot be written out: {error!r}") from error
    check_schema(definition["function"].get("parameters") or {})
    return definition


def _schema_of(tool: BaseTool) -> dict[str, Any]:
    """The schema of the arguments, with its references."""
    schema: Any = tool.tool_call_schema
    if isinstance(schema, dict):
        return schema
    written = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    return dict(written)
