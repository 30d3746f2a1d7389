"""Schemas that would cost much, in each request or to check by, are refused when a tool is registered."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel

from turnflow.graph.json_schema import MAX_SCHEMA_CHARS, MAX_SCHEMA_PARTS, check_extent, referred
from turnflow.graph.tool_definition import MAX_DESCRIPTION_CHARS
from turnflow.graph.tool_registry import ToolRegistry

SECONDS = 10.0
"""Much more than registering takes, much less than writing out any of these schemas would."""


def tool(schema: Any, description: str = "Do it.") -> BaseTool:
    """A tool as an MCP server describes it."""

    async def run(**arguments: Any) -> str:
        return str(arguments)

    return StructuredTool(name="t", description=description, args_schema=schema, coroutine=run)


def registered(schema: Any) -> dict[str, Any]:
    """The parameters as they are sent."""
    (found,) = ToolRegistry([tool(schema)])
    return found.parameters


def doubled(levels: int, definitions: str = "$defs") -> dict[str, Any]:
    """A schema in which each level refers to the next one twice."""
    parts: dict[str, Any] = {
        f"level{n}": {"allOf": [{"$ref": f"#/{definitions}/level{n + 1}"}] * 2} for n in range(levels)
    }
    parts[f"level{levels}"] = {"type": "integer"}
    return {
        "type": "object",
        "properties": {"a": {"$ref": f"#/{definitions}/level0"}},
        definitions: parts,
    }


def mutual(count: int) -> dict[str, Any]:
    """A schema of parts each of which refers to all."""
    to_all = {f"p{n}": {"$ref": f"#/$defs/part{n}"} for n in range(count)}
    parts = {f"part{n}": {"type": "object", "properties": to_all} for n in range(count)}
    return {"type": "object", "properties": to_all, "$defs": parts}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def endless() -> dict[str, Any]:
    """A schema that holds itself."""
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


def shared(levels: int) -> dict[str, Any]:
    """A schema in which each level holds the next one twice."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "allOf": [schema, schema]}
    return schema


def wide(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(count)}}


PARTS = f"more than {MAX_SCHEMA_PARTS} parts, counted with its references written out; make it smaller"
DEEP = "nested more than 100 levels deep"


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (doubled(15), PARTS),
        (doubled(30, "definitions"), PARTS),
        (mutual(9), PARTS),
        ({"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(200)}}, PARTS),
        (shared(40), PARTS),
        (wide(5000), PARTS),
        (endless(), DEEP),
        (nested(51), DEEP),
        (nested(5000), DEEP),
        (
            {"type": "object", "properties": {"a": {"enum": ["x" * 1000] * 250}}},
            f"has 251051 characters of JSON, of at most {MAX_SCHEMA_CHARS}",
        ),
        ({"type": "object", "properties": {"a": {"description": "x" * 5_000_000}}}, "has 5000060 characters"),
        ({"type": "object", "properties": {"a": {"default": {1}}}}, "is not JSON"),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "refers to '#/\\$defs/missing'"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "refers to 'http://127.0.0.1:9/x'"),
        ({"properties": {"$ref": {"type": "string"}}}, "refers to {"),
        ({"properties": {"a": {"$ref": "#/$defs/b~1c"}}, "$defs": {"b/c": {}}}, "cannot be written out"),
        ({"properties": {"a": {"pattern": "("}}}, "'\\(' is not a 'regex'"),
        ({"type": "x" * 100_000}, "is not valid JSON Schema"),
    ],
)
def test_what_costs_much_is_refused_with_its_size_and_the_mend(schema: Any, complaint: str) -> None:
    started = time.thread_time()
    with pytest.raises(ValueError, match=complaint) as refused:
        ToolRegistry([tool(schema)])
    assert time.thread_time() - started < SECONDS
    assert str(refused.value).startswith("tool 't': its schema ")
    assert len(str(refused.value)) < 1500


@pytest.mark.parametrize("schema", [doubled(9), mutual(3), nested(49), shared(8), wide(3000)])
def test_what_is_merely_large_is_not(schema: Any) -> None:
    started = time.thread_time()
    assert registered(schema)["type"] == "object"
    assert time.thread_time() - started < SECONDS


class Tree(BaseModel):
    value: int
    left: Tree | None = None
    right: Tree | None = None
    others: list[Tree] = []


def test_recursion_ends() -> None:
    def grow(tree: Tree) -> str:
        """Grow a tree."""
        return repr(tree)

    (found,) = ToolRegistry([grow])
    branches = found.parameters["properties"]["tree"]["properties"]
    assert set(branches) == {"value", "left", "right", "others"}
    rest = {"type": "object", "properties": {"next": {"$ref": "#"}, "text": {"type": "string"}}}
    assert registered(rest)["properties"]["next"]["properties"]["text"] == {"type": "string"}


def test_parts_that_refer_to_all_are_counted_in_little_time() -> None:
    started = time.thread_time()
    with pytest.raises(ValueError, match=DEEP):
        check_extent(mutual(2000))
    assert time.thread_time() - started < SECONDS


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!x)a", "(?i)[\0-\U0010ffff]" * 50, "(" * 2000])
def test_a_pattern_costs_nothing_to_register(pattern: str) -> None:
    started = time.thread_time()
    properties = {f"p{n}": {"pattern": pattern} for n in range(60)}
    assert registered({"type": "object", "properties": properties})["properties"] == properties
    assert time.thread_time() - started < SECONDS


def test_a_description_has_a_bound() -> None:
    ToolRegistry([tool({"type": "object"}, "x" * MAX_DESCRIPTION_CHARS)])
    complaint = f"tool 't': its description has 20001 characters, of at most {MAX_DESCRIPTION_CHARS}, "
    with pytest.raises(ValueError, match=f"{complaint}.*`tool.description`"):
        ToolRegistry([tool({"type": "object"}, "x" * (MAX_DESCRIPTION_CHARS + 1))])
    with pytest.raises(ValueError, match="tool 't': it has no description"):
        ToolRegistry([tool({"type": "object"}, " ")])


def test_a_tool_that_was_refused_can_be_shortened_as_the_error_says() -> None:
    long = tool({"type": "object"}, "x" * 5_000_000)
    with pytest.raises(ValueError, match="description has 5000000 characters"):
        ToolRegistry([long])
    long.description = long.description[:1000]
    (found,) = ToolRegistry([long])
    assert found.definition["function"]["description"] == "x" * 1000


@pytest.mark.parametrize(
    ("reference", "part"),
    [
        ("#", {"a/b": [{"c~d": 1}], "e f": 2}),
        ("#/a~1b/0/c~0d", 1),
        ("#/e%20f", 2),
    ],
)
def test_a_pointer_is_followed(reference: str, part: Any) -> None:
    assert referred({"a/b": [{"c~d": 1}], "e f": 2}, reference) == part


@pytest.mark.parametrize("reference", ["", "a", "#a", "#/x", "#/a/1", "#/a/b", "#/a/0/0", "http://x/#/a"])
def test_a_pointer_to_nothing_is_an_error(reference: str) -> None:
    with pytest.raises((LookupError, ValueError, TypeError)):
        referred({"a": [1]}, reference)
