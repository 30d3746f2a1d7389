"""Grammars of JSON values and of calls written as text, from the schemas of tools. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnflow.graph.gbnf import alternatives, literal, row
from turnflow.graph.profile import Dialect
from turnflow.graph.tool_schemas import functions, reduced_schema

MAX_CALLS = 8
"""Calls that one reply may hold."""

_JSON_RULES = {
    # No half of a surrogate pair: it can be neither stored nor sent.
    "char": r'[^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" code)',
    "code": "[0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex",
    "hex": "[0-9a-fA-F]",
    "string": r'"\"" char* "\""',
    # Digits are counted: a small model can go on with zeros for ever.
    "integer": '"-"? ("0" | [1-9] [0-9]{0,17})',
    "number": 'integer ("." [0-9]{1,17})? ([eE] [-+]? [0-9]{1,2})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "string | number | boolean | null | array | object",
    "array": '"[" (value (", " value)*)? "]"',
    "object": r'"{" (string ": " value (", " string ": " value)*)? "}"',
    # The text of a DeepSeek parameter.
    "raw": '[^<] | "<" [^/<｜|]',
}
_NO_NAMES = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[0-9,]*\}')
_RULE_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Rules(dict[str, str]):
    """The rules of a grammar by name."""

    def text(self) -> str:
        """The grammar, the root first, with those JSON rules that are used."""
        names, found = ["root"], dict[str, str]()
        for name in names:  # grows on the way
            if name not in found:
                found[name] = self[name] if name in self else _JSON_RULES[name]
                names += _RULE_NAME.findall(_NO_NAMES.sub(" ", found[name]))
        return "".join(f"{name} ::= {body}\n" for name, body in found.items())

    def named(self, body: str) -> str:
        """The name of a new rule."""
        name = f"part-{len(self) + 1}"
        self[name] = body
        return name

    def per_tool(
        self, tools: Sequence[Mapping[str, Any]], write: Callable[[str, Mapping[str, Any]], str]
    ) -> str:
        """One alternative a tool, written from its name and its reduced schema."""
        definitions: dict[str, Any] = {}
        schemas = [(name, reduced_schema(schema, definitions)) for name, schema in functions(tools)]
        for name, definition in definitions.items():
            self[name] = self.value(definition)
        return alternatives(write(name, schema) for name, schema in schemas)

    def value(self, schema: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one for each form of schema
        """An expression for the JSON values of a reduced schema, or for more."""
        match schema:
            case {"$ref": str(reference)}:
                return reference.removeprefix("#/$defs/")
            case {"const": value}:
                return literal(_json(value))
            case {"enum": list(values)}:
                return alternatives(literal(_json(value)) for value in values)
            case {"anyOf": list(branches)}:
                return alternatives(self.value(branch) for branch in branches)
            case {"type": "object"}:
                return self._object(schema)
            case {"type": "array"}:
                return self._array(schema)
            case {"type": "string"} if times := _times(schema, "Length"):
                return rf'("\"" char{times} "\"")'
            case {"type": str(scalar)}:
                return scalar
        return "value"

    def _object(self, schema: Mapping[str, Any]) -> str:
        if schema["additionalProperties"] is not False:
            return "object"
        required, optional = _members(
            schema, lambda key, part: row(literal(f"{_json(key)}: "), self.value(part))
        )
        optional = [self.named(member) for member in optional]
        later = [f' (", " {member})?' for member in optional]
        if required:
            members = ' ", " '.join(required) + "".join(later)
        elif optional:
            starts = (member + "".join(later[place:]) for place, member in enumerate(optional, 1))
            members = f"{alternatives(starts)}?"
        else:
            return literal("{}")
        return f'("{{" {members} "}}")'

    def _array(self, schema: Mapping[str, Any]) -> str:
        if schema.get("maxItems") == 0:
            return literal("[]")
        item = self.named(self.value(schema["items"]))
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        more = f'(", " {item}){{{max(least - 1, 0)},{"" if most is None else most - 1}}}'
        return f'("[" {item} {more} "]")' if least else f'("[" ({item} {more})? "]")'

    def add_calls(self, tools: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
        """Add rules for calls as a dialect writes them; give an expression for them."""
        if dialect == "deepseek":
            self["call"] = self.per_tool(tools, self._invocation)
            return rf'"<｜DSML｜function_calls>\n" call{{1,{MAX_CALLS}}} "</｜DSML｜function_calls>"'
        if dialect == "deepseek_tokens":
            call = self.per_tool(
                tools, lambda name, schema: row(literal(f"{name}<｜tool▁sep｜>"), self.value(schema))
            )
            self["call"] = f'"<｜tool▁call▁begin｜>" {call} "<｜tool▁call▁end｜>"'
            return f'"<｜tool▁calls▁begin｜>" call{{1,{MAX_CALLS}}} "<｜tool▁calls▁end｜>"'
        call = self.per_tool(
            tools, lambda name, schema: row(literal(f'"{name}", "arguments": '), self.value(schema))
        )
        self["call"] = row(literal('{"name": '), call, literal("}"))
        if dialect == "json":
            return "call"
        self["block"] = r'"<tool_call>\n" call "\n</tool_call>"'
        return rf'block ("\n" block){{0,{MAX_CALLS - 1}}}'

    def _invocation(self, name: str, schema: Mapping[str, Any]) -> str:
        parameters = "further*"
        if schema["additionalProperties"] is False:
            required, optional = _members(schema, self._parameter)
            parameters = " ".join([*required, *(f"({each})?" for each in optional)])
        else:
            head = r'"<｜DSML｜parameter name=\"" [^"<>\n]+ "\" string=\""'
            self["further"] = rf'{head} ("true\">" raw* | "false\">" value) "</｜DSML｜parameter>\n"'
        head, end = literal(f'<｜DSML｜invoke name="{name}">\n'), literal("</｜DSML｜invoke>\n")
        return row(head, parameters, end)

    def _parameter(self, key: str, schema: Mapping[str, Any]) -> str:
        values = schema.get("enum", [schema.get("const")])
        if schema.get("type") == "string":
            flag, value = "true", "raw*"
        elif all(isinstance(value, str) for value in values):
            flag, value = "true", alternatives(map(literal, values))
        else:
            flag, value = "false", self.value(schema)
        head = literal(f'<｜DSML｜parameter name="{key}" string="{flag}">')
        return row(head, value, literal("</｜DSML｜parameter>\n"))


def _members(
    schema: Mapping[str, Any], write: Callable[[str, Mapping[str, Any]], str]
) -> tuple[list[str], list[str]]:
    """Expressions for an object's required members and for its optional ones."""
    written = {key: write(key, part) for key, part in schema["properties"].items()}
    required = [written[key] for key in schema["required"]]
    return required, [written[key] for key in written if key not in schema["required"]]


def _times(schema: Mapping[str, Any], of: str) -> str:
    """How often something is repeated; empty if there is no bound."""
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    return f"{{{least or 0},{'' if most is None else most}}}" if least or most is not None else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
