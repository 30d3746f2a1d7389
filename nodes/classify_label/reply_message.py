"""The assistant message that is stored for a reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolCall

from turnflow.graph.content import iter_text


def reply_message(
    step: dict[str, Any], *, so_far: AIMessage | None, calls: Sequence[ToolCall], partial: bool
) -> AIMessage | None:
    """The message of a reply, or None where there is nothing to keep.

    `content` is the text that was shown. `additional_kwargs["turnflow"]` holds `raw` (the text as the model
    wrote it), `thinking`, `label` and, where the text was cut off, `partial`; a reasoning field that came
    is kept under its name.

    Args:
        step: The reply, read.
        so_far: The same message as an earlier, cut-off part left it.
        calls: Its tool calls.
        partial: Whether the text was cut off.
    """
    before = so_far.additional_kwargs["turnflow"] if so_far else {"raw": "", "thinking": ""}
    content = ("".join(iter_text(so_far.content)) if so_far else "") + step["text"]
    if not content.strip():
        content = ""
        if not calls:
            return None
    own: dict[str, Any] = {
        "raw": before["raw"] + step["raw"],
        "thinking": before["thinking"] + step["thinking"],
        "label": None,
    }
    if partial:
        own["partial"] = True
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
