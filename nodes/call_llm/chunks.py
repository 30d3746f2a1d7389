"""What a streamed chunk of any LangChain chat model holds."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage

from turnflow.graph.content import iter_text
from turnflow.graph.outcome import Usage
from turnflow.graph.profile import PERMISSION_FIELD, REASONING_FIELDS

_REASONING_BLOCKS = ("reasoning", "thinking")


def chunk_text(chunk: BaseMessage) -> str:
    """Text of the content channel."""
    return "".join(iter_text(chunk.content))


def chunk_reasoning(chunk: BaseMessage) -> str:
    """Text of the reasoning channel: a field beside the content, or blocks within it."""
    for field in REASONING_FIELDS:
        if isinstance(text := chunk.additional_kwargs.get(field), str) and text:
            return text
    if isinstance(chunk.content, str):
        return ""
    blocks = (block for block in chunk.content if isinstance(block, dict))
    return "".join(_block_reasoning(block) for block in blocks if block.get("type") in _REASONING_BLOCKS)


def _block_reasoning(block: dict[str, Any]) -> str:
    for key in ("reasoning", "thinking", "text"):
        if isinstance(text := block.get(key), str):
            return text
    parts = [part for part in block.get("summary") or [] if isinstance(part, dict)]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def chunk_permission(chunk: BaseMessage) -> Any:
    """What an agent behind the endpoint asks a permission for, so that it waits; None if nothing."""
    return chunk.additional_kwargs.get(PERMISSION_FIELD)


def chunk_calls(chunk: BaseMessage) -> list[dict[str, Any]]:
    """Deltas of tool calls; whole calls where the model does not stream them."""
    if isinstance(chunk, AIMessageChunk):
        return [dict(delta) for delta in chunk.tool_call_chunks]
    calls = [*getattr(chunk, "tool_calls", ()), *getattr(chunk, "invalid_tool_calls", ())]
    return [
        {"index": index, "id": call["id"], "name": call["name"], "args": call["args"]}
        for index, call in enumerate(calls)
    ]


def chunk_finish_reason(chunk: BaseMessage) -> str | None:
    """Why the model stopped, as the provider names it but in lower case, or None."""
    metadata = chunk.response_metadata
    for key in ("finish_reason", "stop_reason", "done_reason"):
        if isinstance(reason := metadata.get(key), str) and reason:
            return reason.lower()
    return None


def add_usage(usage: Usage, chunk: BaseMessage) -> Usage:
    """Usage with what a chunk reports added."""
    reported = getattr(chunk, "usage_metadata", None)
    if not reported:
        return usage
    read, written = reported.get("input_token_details") or {}, reported.get("output_token_details") or {}
    return {
        **usage,
        "input": usage["input"] + _tokens(reported.get("input_tokens")),
        "output": usage["output"] + _tokens(reported.get("output_tokens")),
        "cached": usage["cached"] + _tokens(read.get("cache_read")),
        "reasoning": usage["reasoning"] + _tokens(written.get("reasoning")),
    }


_MOST_TOKENS = 10**12


def _tokens(reported: Any) -> int:
    """A number of tokens as a provider reports it; what cannot be one counts as none."""
    is_number = isinstance(reported, int) and not isinstance(reported, bool)
    return reported if is_number and 0 <= reported <= _MOST_TOKENS else 0
