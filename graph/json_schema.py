"""Checks that a tool's schema is one that arguments can be validated against, in little time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError

from turnflow.graph.patterns import is_pattern
from turnflow.graph.shown import cut, shown

MAX_SCHEMA_PARTS = 10_000
"""Objects, lists and values of a schema, its references written out."""
MAX_SCHEMA_CHARS = 200_000
"""Characters of a schema's JSON, its references written out."""
_MAX_DEPTH = 100
"""Objects and lists inside each other."""
_MAX_SAID = 500

_FORMATS = FormatChecker(())
_FORMATS.checks("regex")(is_pattern)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse what is no JSON Schema (draft 2020-12) of an object, or a very long one.

    Raises:
        ValueError: Says what is wrong with the schema.
    """
    try:
        size = len(json.dumps(schema, ensure_ascii=False))
    except TypeError as error:
        raise ValueError(f"its schema is not JSON: {error}") from error
    if size > MAX_SCHEMA_CHARS:
        raise ValueError(
            f"its schema has {size} characters of JSON, of at most {MAX_SCHEMA_CHARS}, and goes out with "
            "each request; shorten its descriptions and lists of values"
        )
    try:
        Draft202012Validator.check_schema(schema, format_checker=_FORMATS)
    except SchemaError as error:
        raise ValueError(
            f"its schema is not valid JSON Schema at {cut(error.json_path, _MAX_SAID)}: "
            f"{cut(error.message, _MAX_SAID)}"
        ) from error
    except RecursionError as error:
        raise ValueError("its schema is nested too deeply; make it flatter") from error
    if schema.get("type", "object") != "object":
        raise ValueError(
            f"its schema describes a {cut(str(schema['type']))}; the arguments of a tool are an object"
        )


def check_extent(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that is very large or deep once its references are written out.

    A reference inside of what it refers to is not written out again, so recursion ends.

    Raises:
        ValueError: Says what is wrong with the schema and what mends it.
    """
    _Extent(schema).add(schema)


@dataclass
class _Extent:
    """How much has been written out of a schema."""

    schema: Mapping[str, Any]
    parts: int = 0
    inside: set[str] = field(default_factory=set)
    """The references that are being written out."""

    def add(self, value: Any, depth: int = 0, *, is_written_out: bool = True) -> None:
        """Count a part of the schema with all that is in it.

        Args:
            value: The part.
            depth: Objects and lists around it.
            is_written_out: Whether references in it are written out.
        """
        self.parts += 1
        if self.parts > MAX_SCHEMA_PARTS:
            raise ValueError(
                f"its schema has more than {MAX_SCHEMA_PARTS} parts, counted with its references written "
                "out; make it smaller: give it fewer properties, or say less of what repeats itself"
            )
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"its schema is nested more than {_MAX_DEPTH} levels deep, with its references written out; "
                "make it flatter"
            )
        if isinstance(value, dict):
            for key, part in value.items():
                self.add(part, depth + 1, is_written_out=is_written_out and key != "$defs")
            if is_written_out and "$ref" in value:
                self._add_referred(value["$ref"], depth)
        elif isinstance(value, list | tuple):
            for part in value:
                self.add(part, depth + 1, is_written_out=is_written_out)

    def _add_referred(self, reference: Any, depth: int) -> None:
        try:
            part = referred(self.schema, reference)
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"its schema refers to {shown(reference)}, which is not in it") from error
        if reference not in self.inside:
            self.inside.add(reference)
            self.add(part, depth)
            self.inside.remove(reference)


def referred(schema: Any, reference: str) -> Any:
    """The part of a schema that a JSON pointer in it (`#/$defs/x`) refers to.

    Raises:
        LookupError: It refers to nothing in the schema.
        ValueError: Likewise.
        TypeError: Likewise; or it is no text.
        AttributeError: Likewise.
    """
    start, *places = unquote(reference).split("/")
    if start != "#":
        raise LookupError(f"{reference!r} does not begin with '#/'")
    part = schema
    for place in places:
        key = place.replace("~1", "/").replace("~0", "~")
        part = part[int(key)] if isinstance(part, list) else part[key]
    return part
