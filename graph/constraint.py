"""What goes with a request so that the reply keeps to its protocol: a JSON Schema or a grammar. Pure.

Grammars are in llama.cpp's GBNF.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnflow.graph.gbnf import alternatives, literal, row
from turnflow.graph.gbnf_body import add_body
from turnflow.graph.gbnf_rules import MAX_CALLS, Rules
from turnflow.graph.profile import Dialect, ProviderProfile
from turnflow.graph.protocol import JsonProtocol, LabelProtocol, Protocol
from turnflow.graph.tool_schemas import closed_object, functions, reduced_schema

MAX_REPEATS = 1999
"""Repetitions that llama.cpp takes in a grammar, at most."""


def request_constraint(
    protocol: Protocol,
    profile: ProviderProfile,
    tools: Sequence[Mapping[str, Any]],
    *,
    dialect: Dialect | None,
    may_call: bool,
    may_ask: bool,
    native_tools_offered: bool,
) -> dict[str, Any]:
    """Give further parameters of the request's body that hold the reply to its protocol; `{}` for none.

    A constraint holds from the first character on. So there is none where the reply begins inside a thought,
    and none beside native tools, which the model could then not call.

    Args:
        protocol: What the reply has to keep to.
        profile: What the endpoint can do.
        tools: Definitions in the OpenAI format.
        dialect: How calls under a label are written as text, or None.
        may_call: Whether the reply may be anything but the answer.
        may_ask: Whether it may ask the user.
        native_tools_offered: Whether the same request has `tools`.
    """
    if protocol is None or native_tools_offered or profile.starts_thinking:
        return {}
    if isinstance(protocol, LabelProtocol):
        if not profile.grammar:
            return {}
        labels = None if may_call else (protocol.answer_label,)
        return {"grammar": label_grammar(protocol, tools, dialect=dialect, labels=labels)}
    if profile.json_schema:
        schema = json_schema(protocol, tools, may_call=may_call, may_ask=may_ask)
        # Not strict: OpenAI's strict subset has neither alternatives at the root nor lengths of strings.
        form = {"name": "decision", "schema": schema, "strict": False}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if profile.grammar:
        return {"grammar": json_grammar(protocol, tools, may_call=may_call, may_ask=may_ask)}
    return {}


def json_schema(
    protocol: JsonProtocol, tools: Sequence[Mapping[str, Any]], *, may_call: bool, may_ask: bool
) -> dict[str, Any]:
    """Give the JSON Schema of a decision. Without `may_call` it is a reply.

    Args:
        protocol: Bounds the thought.
        tools: Definitions in the OpenAI format.
        may_call: Whether the decision may be anything but a reply.
        may_ask: Whether it may ask the user.
    """
    definitions: dict[str, Any] = {}
    text = {"type": "string", "minLength": 1}
    inputs: dict[str, Any] = {"reply": text}
    if may_call and tools:
        call = {
            "anyOf": [
                closed_object(
                    {"tool_name": {"const": name}, "parameters": reduced_schema(parameters, definitions)}
                )
                for name, parameters in functions(tools)
            ]
        }
        calls = {"type": "array", "items": call, "minItems": 1, "maxItems": MAX_CALLS}
        inputs["call_tool"] = {"anyOf": [*call["anyOf"], calls]}
    if may_call and may_ask:
        inputs["clarify"] = text
    thought = {"type": "string", "maxLength": protocol.max_thought_chars}
    decisions = [
        closed_object({"thought": thought, "action": {"const": action}, "action_input": form})
        for action, form in inputs.items()
    ]
    schema = {"type": "object", "anyOf": decisions}
    return {**schema, "$defs": definitions} if definitions else schema


def json_grammar(
    protocol: JsonProtocol, tools: Sequence[Mapping[str, Any]], *, may_call: bool, may_ask: bool
) -> str:
    """Give the grammar of a decision on one line, its keys in the order of `json_schema`.

    Args:
        protocol: Bounds the thought, up to `MAX_REPEATS` characters.
        tools: Definitions in the OpenAI format.
        may_call: Whether the decision may be anything but a reply.
        may_ask: Whether it may ask the user.
    """
    rules = Rules()
    inputs = {"reply": "text"}
    if may_call and tools:
        call = rules.per_tool(
            tools, lambda name, schema: row(literal(f'"{name}", "parameters": '), rules.value(schema))
        )
        rules["call"] = row(literal('{"tool_name": '), call, literal("}"))
        rules["calls"] = f'"[" call (", " call){{0,{MAX_CALLS - 1}}} "]"'
        inputs["call_tool"] = "(call | calls)"
    if may_call and may_ask:
        inputs["clarify"] = "text"
    rules["text"] = r'"\"" first char* "\""'
    # Neither blank nor the escape of a blank: a reply of blanks says nothing.
    rules["first"] = r'[^"\\ \x00-\x1F\x7F] | "\\" ["\\/]'
    thought = f"char{{0,{min(protocol.max_thought_chars, MAX_REPEATS)}}}"
    decision = alternatives(
        row(literal(f'"{action}", "action_input": '), form) for action, form in inputs.items()
    )
    rules["root"] = row(literal('{"thought": "'), thought, literal('", "action": '), decision, literal("}"))
    return rules.text()


def label_grammar(
    protocol: LabelProtocol,
    tools: Sequence[Mapping[str, Any]],
    *,
    dialect: Dialect | None,
    labels: Sequence[str] | None = None,
) -> str:
    """Give the grammar of one label in double backticks, a line break and a body that is not blank.

    No body can hold a second label. The body of the tool label is calls of the dialect; no other body holds
    its markup.

    Args:
        protocol: The labels.
        tools: Definitions in the OpenAI format. Without any, the tool label is left out.
        dialect: How calls are written, or None if nothing is read from text.
        labels: Those of the protocol's labels that may come, or None for all.
    """
    rules = Rules()
    heads: list[str] = []
    for label in protocol.allowed:
        calls = label == protocol.tool
        if (labels is not None and label not in labels) or (calls and not tools):
            continue
        body = rules.add_calls(tools, dialect) if calls and dialect else "body"
        heads.append(row(literal(f"``{label}``\n"), body))
    rules["root"] = " | ".join(heads)
    add_body(rules, protocol.allowed, dialect)
    return rules.text()
