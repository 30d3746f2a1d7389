"""The system prompt: the behaviour, how to reply, the tools that are offered as text, the caller's words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turnflow.graph.protocol import JsonProtocol, LabelProtocol
from turnflow.graph.repairs import choices
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.tool_names import ASK_USER
from turnflow.nodes.assemble_context.written_calls import call_example
from turnflow.prompts import Prompts


def system_prompt(
    behaviour: str,
    form: ReplyForm,
    tools: Sequence[Mapping[str, Any]],
    *,
    instructions: str,
    may_ask: bool,
    prompts: Prompts,
) -> str:
    """The system prompt of a request.

    Args:
        behaviour: The behaviour's text.
        form: How the model and the turn speak to each other.
        tools: Definitions of the tools, in OpenAI's format.
        instructions: The caller's own.
        may_ask: Whether the user can be asked.
        prompts: The texts of the run's language.
    """
    parts = [behaviour, _protocol(form, tools, may_ask=may_ask, prompts=prompts)]
    if not form.native_tools and form.can_call:
        parts.append(_tools(form, tools, prompts))
    return "\n\n".join(part for part in [*parts, instructions.strip()] if part)


def _protocol(form: ReplyForm, tools: Sequence[Mapping[str, Any]], *, may_ask: bool, prompts: Prompts) -> str:
    protocol = form.protocol
    if isinstance(protocol, LabelProtocol):
        names = [str(tool["function"]["name"]) for tool in tools]
        labels = "\n".join(
            prompts.text("protocol", "label", label=label, meaning=_meaning(label, protocol, prompts))
            for label in choices(form, names)
        )
        return prompts.text("protocol", "labels", labels=labels)
    if isinstance(protocol, JsonProtocol):
        names = [str(tool["function"]["name"]) for tool in tools] + ([ASK_USER] if may_ask else [])
        actions = "\n".join(prompts.text("protocol", f"json_{action}") for action in choices(form, names))
        return prompts.text("protocol", "json", actions=actions)
    return ""


def _meaning(label: str, protocol: LabelProtocol, prompts: Prompts) -> str:
    if label in protocol.meanings:
        return protocol.meanings[label]
    if label == protocol.tool:
        key = "tool"
    elif label in protocol.terminal:
        key = "terminal_final" if label in protocol.final else "terminal"
    else:
        key = "intermediate_final" if label in protocol.final else "intermediate"
    return prompts.text("label", key)


def _tools(form: ReplyForm, tools: Sequence[Mapping[str, Any]], prompts: Prompts) -> str:
    if not tools:
        return prompts.text("protocol", "no_tools")
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    listed = prompts.text("protocol", "tools", tools=lines)
    if form.dialect is None:
        return listed
    example = call_example(form.dialect, "…", "…", "…")
    key = "call_alone" if form.dialect == "json" else "call"
    return f"{listed}\n\n{prompts.text('protocol', key, example=example)}"
