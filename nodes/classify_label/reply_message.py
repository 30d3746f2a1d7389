"""The assistant message that is stored for a reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolCall

from turnflow.graph.content import iter_text
from turnflow.graph.protocol import UNKNOWN


def reply_message(
    step: dict[str, Any],
    *,
    content: str,
    label: str | None,
    so_far: AIMessage | None,
    calls: Sequence[ToolCall],
    partial: bool,
    is_kept: bool = False,
) -> AIMessage | None:
    """The message of a reply, or None where there is nothing to keep.

    `content` is the text that was shown. `additional_kwargs["turnflow"]` holds `raw` (the text as the model
    wrote it), `thinking`, `label` and, where the text was cut off, `partial`, and where the calls stand in
    the text, `calls_in_text`; a reasoning field that came is kept under its name.

    Args:
        step: The reply, read.
        content: Its text for the user.
        label: Its label, or the action of a JSON decision.
        so_far: The same message as an earlier, cut-off part left it.
        calls: Its tool calls.
        partial: Whether the text was cut off.
        is_kept: Whether it is kept without text and calls too, for the model to see.
    """
    before = so_far.additional_kwargs["turnflow"] if so_far else {"raw": "", "thinking": ""}
    content = text_so_far(so_far) + content
    if not content.strip():
        content = ""
        if not calls and not is_kept:
            return None
    own: dict[str, Any] = {
        "raw": before["raw"] + step["raw"],
        "thinking": before["thinking"] + step["thinking"],
        "label": None if label == UNKNOWN else label,
    }
    if partial:
        own["partial"] = True
    if calls and step["calls_in_text"]:
        own["calls_in_text"] = True
    kept: dict[str, Any] = {"turnflow": own}
    reasoning = (so_far.additional_kwargs.get("reasoning_content", "") if so_far else "") + step["reasoning"]
    if reasoning:
        kept["reasoning_content"] = reasoning
    return AIMessage(
        content=content,
        id=step["message_id"],
        tool_calls=list(calls),
        additional_kwargs=kept,
        response_metadata={"finish_reason": step["finish_reason"]} if step["finish_reason"] else {},
    )


def text_so_far(so_far: AIMessage | None) -> str:
    """The content that an earlier part of the reply left."""
    return "".join(iter_text(so_far.content)) if so_far else ""
