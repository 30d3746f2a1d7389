"""Checks that a tool's schema is one that arguments can be validated against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError


def check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse what is no JSON Schema (draft 2020-12) of an object.

    Raises:
        ValueError: Says what is wrong with the schema.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(
            f"its schema is not valid JSON Schema at {error.json_path}: {error.message}"
        ) from error
    if schema.get("type", "object") != "object":
        raise ValueError(f"its schema describes a {schema['type']}; the arguments of a tool are an object")
