"""Schemas of tools in the few keywords that every endpoint knows, to hold a reply to them. Pure.

What is dropped only widens a schema, and arguments are checked against the tool's own in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

SCALARS = ("string", "integer", "number", "boolean", "null")
_ANY: Mapping[str, Any] = {"type": [*SCALARS, "array", "object"]}
"""Any value. Some endpoints take an empty schema for that of an object."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MAX_BOUND = 1000
"""Lengths of strings and arrays that are passed on: some endpoints refuse long ones."""


def functions(tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each tool's name and schema, of definitions in the OpenAI format."""
    for tool in tools:
        function = tool["function"]
        yield function["name"], function.get("parameters") or {"type": "object", "properties": {}}


def closed_object(properties: Mapping[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    """The schema of an object with these properties and no others; all are required if nothing is said."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def reduced_schema(schema: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Give a tool's schema in few keywords; what it refers to goes into `definitions`, by new names.

    Objects with declared properties take no others, unless the schema says that they do.
    """
    return _Reduction(schema, definitions).reduce({"type": "object", **schema})


class _Reduction:
    """Reduces one tool's schema."""

    def __init__(self, root: Mapping[str, Any], definitions: dict[str, Any]) -> None:
        self._root = root
        self._definitions = definitions
        self._known: dict[str, str] = {}  # references and the names of their definitions

    def reduce(self, schema: Any, inside: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Reduce a part; `inside` are the references that led here without a bracket in between."""
        if not isinstance(schema, Mapping):
            return dict(_ANY)
        reduced = self._reduce(schema, inside)
        if isinstance(schema.get("description"), str) and "$ref" not in reduced:
            reduced["description"] = schema["description"]
        return reduced

    def _reduce(  # noqa: C901, PLR0911 - one return for each form of schema
        self, schema: Mapping[str, Any], inside: frozenset[str]
    ) -> dict[str, Any]:
        if "properties" in schema:
            return self._object(schema)
        if "$ref" in schema:
            return self._reference(schema["$ref"], inside)
        if "const" in schema:
            return {"const": schema["const"]}
        if schema.get("enum"):
            return {"enum": list(schema["enum"])}
        if branches := schema.get("anyOf") or schema.get("oneOf"):
            return {"anyOf": [self.reduce(branch, inside) for branch in branches]}
        if len(schema.get("allOf") or ()) == 1:
            return self.reduce(schema["allOf"][0], inside)
        types = schema.get("type")
        if isinstance(types, list):
            return {"anyOf": [self._reduce({**schema, "type": each}, inside) for each in types]}
        if types == "object":
            return self._object(schema)
        if types == "array":
            return self._array(schema)
        if types not in SCALARS:
            return dict(_ANY)
        return {"type": types, **_lengths(schema, "Length"), **_bounds(schema)}

    def _object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = {key: self.reduce(part) for key, part in (schema.get("properties") or {}).items()}
        further = schema.get("additionalProperties", not properties and schema.get("properties") is None)
        required = [key for key in properties if key in (schema.get("required") or ())]
        reduced = closed_object(properties, required)
        if schema.get("patternProperties"):
            reduced["additionalProperties"] = True
        elif further is not False:
            reduced["additionalProperties"] = True if further is True else self.reduce(further)
        return reduced

    def _array(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        is_tuple = schema.get("prefixItems") or not isinstance(schema.get("items"), Mapping)
        items = dict(_ANY) if is_tuple else self.reduce(schema["items"])
        return {"type": "array", "items": items, **_lengths(schema, "Items")}

    def _reference(self, reference: str, inside: frozenset[str]) -> dict[str, Any]:
        target = self._target(reference)
        if target is None or reference in inside:
            return dict(_ANY)
        if reference not in self._known:
            name = self._known[reference] = f"ref-{len(self._definitions) + 1}"
            self._definitions[name] = {}  # takes its place in the order
            self._definitions[name] = self.reduce(target, inside | {reference})
        return {"$ref": f"#/$defs/{self._known[reference]}"}

    def _target(self, reference: str) -> Any:
        """What a JSON pointer into the tool's schema points to, or None."""
        if reference != "#" and not reference.startswith("#/"):
            return None
        part: Any = self._root
        for key in reference.split("/")[1:]:
            key = unquote(key).replace("~1", "/").replace("~0", "~")  # noqa: PLW2901 - the same key, read
            if isinstance(part, list):
                part = part[int(key)] if key.isdecimal() and int(key) < len(part) else None
            else:
                part = part.get(key) if isinstance(part, Mapping) else None
        return part


def _lengths(schema: Mapping[str, Any], of: str) -> dict[str, int]:
    """The bounds of a string or an array that are worth passing on, least first."""
    least, most = (schema.get(f"{end}{of}") for end in ("min", "max"))
    found = {}
    if isinstance(least, int) and 0 < least <= _MAX_BOUND:
        found[f"min{of}"] = least
    if isinstance(most, int) and (least or 0) <= most <= _MAX_BOUND:
        found[f"max{of}"] = most
    return found


def _bounds(schema: Mapping[str, Any]) -> dict[str, float]:
    return {key: schema[key] for key in _BOUNDS if isinstance(schema.get(key), int | float)}
