"""Replies that broke a rule: how often, and the directive for the next request (docs/protocols.md). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from typing_extensions import TypedDict

from turnflow.graph.protocol import JSON_ACTIONS, LabelProtocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.tool_names import ASK_USER
from turnflow.prompts import Prompts

NUDGES = frozenset({"empty_reply", "thinking_only"})
"""Keys of replies that said nothing under native calls."""

MAX_DRAFT = 500
"""Characters of a rejected reply that the model sees again."""

FORCED_AFTER = 3
"""The same violation so many times in a row ends the turn by force."""


class Repair(TypedDict, total=False):
    """The `repair` entry of the `turn` channel: the violation of the last reply, if it was not accepted."""

    key: str
    label: str
    times: int
    """In a row."""
    second: str
    """The second label."""
    problem: str
    """What is wrong with a JSON decision."""
    draft: str
    text: str
    """The caller's own directive."""
    pending: bool
    """Whether draft and directive go into the next request."""


def times_in_a_row(turn: Mapping[str, Any], key: str) -> int:
    """How often the violation came now, without another reply in between."""
    last = turn.get("repair") or {}
    return int(last["times"]) + 1 if last.get("key") == key else 1


def choices(form: ReplyForm, tools: Collection[str]) -> list[str]:
    """The labels, or the actions, that a reply may have, given the names of the tools that there are."""
    protocol = form.protocol
    if isinstance(protocol, LabelProtocol):
        meant = {*protocol.terminal, *protocol.intermediate}
        if tools and form.can_call:
            meant.add(str(protocol.tool))
        return [label for label in protocol.allowed if label in meant]
    offered = {"reply": True, "call_tool": bool(set(tools) - {ASK_USER}), "clarify": ASK_USER in tools}
    return [action for action in JSON_ACTIONS if offered[action]]


def repair_directive(
    turn: Mapping[str, Any], form: ReplyForm, tools: Collection[str], prompts: Prompts
) -> list[dict[str, str]]:
    """Key and text of the directive, if the last reply was not accepted; stricter at the second time."""
    repair = turn.get("repair") or {}
    if not repair.get("pending"):
        return []
    text = repair.get("text") or repair_text(repair, form, tools, prompts)
    return [{"key": repair["key"], "text": text}]


def repair_text(repair: Mapping[str, Any], form: ReplyForm, tools: Collection[str], prompts: Prompts) -> str:
    """The standard text for a violation."""
    key = repair["key"]
    if key in NUDGES:
        return prompts.text("directive", key)
    protocol = form.protocol
    name = _text_key(key, form, prompts) + ("_again" if repair["times"] > 1 else "")
    return prompts.text(
        "repair",
        name,
        key=key,
        label=repair.get("label") or "",
        second=repair.get("second") or "",
        problem=repair.get("problem") or key,
        labels=", ".join(choices(form, tools)),
        tool=(protocol.tool if isinstance(protocol, LabelProtocol) else None) or "",
        answer=protocol.answer_label if isinstance(protocol, LabelProtocol) else "reply",
    )


def _text_key(key: str, form: ReplyForm, prompts: Prompts) -> str:
    """The text of a violation's kind; a caller's own key has none."""
    if key.startswith("schema:"):
        return "schema"
    if key.endswith("_with_tools"):
        has_tools = isinstance(form.protocol, LabelProtocol) and form.protocol.tool is not None
        return "label_with_tools" if has_tools else "no_tool_label"
    return key if prompts.has("repair", f"{key}_again") else "other"
