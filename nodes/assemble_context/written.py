"""The transcript in the form that a request speaks: as native messages, or with calls and results as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from turnflow.graph.content import clean_content, iter_text
from turnflow.graph.protocol import JSON_ACTIONS, JsonProtocol, LabelProtocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.strict_projection import FILLERS, Fillers
from turnflow.graph.text import within_result_fence
from turnflow.graph.tool_names import safe_tool_name
from turnflow.graph.transcript import own_fields
from turnflow.nodes.assemble_context.written_calls import write_calls


@dataclass(frozen=True)
class Wording:
    """The texts around results that stand in a user's message.

    Attributes:
        results: With `{results}`.
        result: The fence of one, with `{name}` and `{content}`.
        fillers: What stands where a message is wanted and there is none.
    """

    results: str = "{results}"
    result: str = '<tool_result name="{name}">\n{content}\n</tool_result>'
    fillers: Fillers = FILLERS


WORDING = Wording()


class Draft(AIMessage):
    """A reply that was not accepted: it is shown as the model wrote it."""


def written(
    messages: Sequence[BaseMessage], form: ReplyForm, wording: Wording = WORDING
) -> list[BaseMessage]:
    """Messages as a model that speaks in this form would have written them, and been answered.

    An assistant's message that was written in this form goes back as it was, tags and label included. Any
    other is put into it, so that the model sees one way of speaking only. Where calls are text, each
    answered call stands in the assistant's text and its result, fenced, in the user's next message. After
    an intermediate reply the user says to go on.
    """
    shown: list[BaseMessage] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        results: list[ToolMessage] = []
        while index < len(messages) and isinstance(result := messages[index], ToolMessage):
            results.append(result)
            index += 1
        if not isinstance(message, AIMessage):
            if isinstance(message, HumanMessage) and _ends_with_results(shown):
                shown.append(AIMessage(content=wording.fillers.bridge))
            shown.append(message)
            continue
        said = _said(message, results, form, wording)
        if not said:
            continue
        if shown and _is_intermediate(shown[-1]):
            shown.append(HumanMessage(content=wording.fillers.go_on))
        shown += said
    return shown


def _said(
    message: AIMessage, results: Sequence[ToolMessage], form: ReplyForm, wording: Wording
) -> list[BaseMessage]:
    """The reply and its results; nothing where a thought of another protocol has no place in this one."""
    if isinstance(message, Draft):
        return [AIMessage(content=message.content)]
    if not form.native_tools:
        return _as_text(message, results, form, wording)
    reply = _with_content(message, _own_text(message, message.tool_calls, form))
    return [reply, *results] if reply.content or reply.tool_calls else []


def _as_text(
    message: AIMessage, results: Sequence[ToolMessage], form: ReplyForm, wording: Wording
) -> list[BaseMessage]:
    answered = {result.tool_call_id for result in results}
    calls = [call for call in message.tool_calls if call["id"] in answered]
    reply = _with_content(message, _own_text(message, calls, form))
    if not calls:
        return [reply] if reply.content else []
    return [reply.model_copy(update={"tool_calls": []}), _results(results, wording)]


def _own_text(message: AIMessage, calls: Sequence[ToolCall], form: ReplyForm) -> Any:
    """The content that goes back to the model; without a text of the model's own, what is stored."""
    own = own_fields(message)
    label = own.get("label")
    raw = own.get("raw")
    raw = raw if isinstance(raw, str) else ""
    text = "".join(iter_text(message.content))
    in_text = bool(own.get("calls_in_text"))
    if isinstance(form.protocol, JsonProtocol):
        is_own = label in JSON_ACTIONS and bool(calls) == bool(message.tool_calls)
        return raw if is_own and raw else _decision(text, calls, str(own.get("thinking") or ""))
    labels = form.protocol.allowed if isinstance(form.protocol, LabelProtocol) else (None,)
    writes = form.dialect if calls else None
    if label in labels and raw and (not message.tool_calls or in_text == (writes is not None)):
        return raw
    if not own and not writes and not isinstance(form.protocol, LabelProtocol):
        return message.content
    # A lone object is a call only where nothing stands beside it.
    beside = "" if writes == "json" else text.strip()
    parts = [beside, write_calls(calls, writes) if writes else ""]
    if isinstance(form.protocol, LabelProtocol):
        # A body that is not shown is kept with its label where the model wrote no call into it.
        kept = raw if label in labels and raw and not in_text else ""
        head = _labelled(beside, label, form.protocol, calls=bool(message.tool_calls))
        parts = [head if writes == "json" else kept or head, parts[1]]
    elif not any(parts):
        return message.content
    return "\n".join(part for part in parts if part)


def _labelled(text: str, label: str | None, protocol: LabelProtocol, *, calls: bool) -> str:
    """Text under its label, or the one that fits."""
    if label not in protocol.allowed:
        label = protocol.tool if calls and protocol.tool else protocol.answer_label
    return f"``{label}``\n{text}".strip()


def _decision(text: str, calls: Sequence[ToolCall], thought: str) -> str:
    """A JSON decision that says the same, or nothing where there is nothing to say in one."""
    if not calls and not text.strip():
        return ""
    if not calls:
        decision: dict[str, Any] = {"thought": "", "action": "reply", "action_input": text}
    else:
        inputs = [{"tool_name": call["name"], "parameters": call["args"]} for call in calls]
        action_input = inputs[0] if len(inputs) == 1 else inputs
        decision = {"thought": text or thought, "action": "call_tool", "action_input": action_input}
    return json.dumps(decision, ensure_ascii=False)


def _results(results: Sequence[ToolMessage], wording: Wording) -> HumanMessage:
    """The results as one user message: text fenced, other blocks behind it."""
    fenced: list[str] = []
    blocks: list[Any] = []
    for result in results:
        content = clean_content(result.content)
        text = "".join(iter_text(content)) or wording.fillers.no_output
        inside = within_result_fence(text)
        fenced.append(wording.result.format(name=safe_tool_name(result.name or "tool"), content=inside))
        if not isinstance(content, str):
            blocks += [block for block in content if block.get("type") != "text"]
    text = wording.results.format(results="\n".join(fenced))
    content = [{"type": "text", "text": text}, *blocks] if blocks else text
    return HumanMessage(content=content, additional_kwargs={"turnflow": {"results": True}})


def _ends_with_results(shown: Sequence[BaseMessage]) -> bool:
    return bool(shown) and bool(own_fields(shown[-1]).get("results"))


def _is_intermediate(message: BaseMessage) -> bool:
    """Whether this is a reply under a label, after which another reply comes without a user's message."""
    own = own_fields(message)
    return isinstance(message, AIMessage) and own.get("label") is not None and not message.tool_calls


def _with_content(message: AIMessage, content: Any) -> AIMessage:
    """The message with this content, and no other text that would be sent in its place."""
    kept = {**message.additional_kwargs, "turnflow": None}
    own = own_fields(message)
    if own.get("label") is not None:
        kept["turnflow"] = {"label": own["label"]}
    return message.model_copy(update={"content": content, "additional_kwargs": kept})
