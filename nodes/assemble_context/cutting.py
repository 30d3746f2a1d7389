"""Making single messages smaller: stubs for results that can be read again, and cuts in the middle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from turnflow.graph.content import MEDIA, iter_text
from turnflow.graph.protocol import JsonProtocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.result_shelf import result_handle
from turnflow.graph.tokens import TokenCounter, as_json
from turnflow.graph.transcript import own_fields
from turnflow.nodes.assemble_context.short_arguments import shares, short_arguments

_LEAST_TEXT = 16
"""Tokens of a text that no cut takes away: its head and its tail."""


def stub_of(result: ToolMessage, batch_id: str, template: str, tool: str) -> ToolMessage | None:
    """The result with its handle in place of its text; None where it carries more than text, or is shorter.

    Args:
        result: The result.
        batch_id: Id of the assistant message that called for it.
        template: With `{size}`, `{tool}` and `{handle}`.
        tool: Name of the tool that reads results.
    """
    if _has_media(result.content):
        return None
    text = "".join(iter_text(result.content))
    handle = own_fields(result).get("handle") or result_handle(batch_id, result.tool_call_id)
    stub = template.format(size=len(text), tool=tool, handle=handle)
    return result.model_copy(update={"content": stub}) if len(stub) < len(text) else None


@dataclass(frozen=True, slots=True)
class Size:
    """What a message takes, and what of it can be cut."""

    tokens: int
    fixed: int
    """Tokens that no cut saves: media, thoughts, and the notices of the cuts."""
    text: int
    """Tokens of the text, and of the arguments of calls, that can be cut."""
    chars: int

    def at(self, limit: int) -> int:
        """About what the message takes when it shall take no more than `limit`."""
        return self.tokens if self.tokens <= limit else min(self.tokens, max(limit, self.fixed + _LEAST_TEXT))

    def kept(self, limit: int) -> int:
        """Characters that stay under that limit: with more tokens never fewer."""
        return self.chars * max(_LEAST_TEXT, limit - self.fixed) // max(1, self.text)


class Cutter:
    """Cuts messages in the middle."""

    def __init__(self, counter: TokenCounter, template: str, form: ReplyForm) -> None:
        self._counter = counter
        self._template = template
        self._form = form

    def size(self, message: BaseMessage) -> Size:
        """How large a message is."""
        texts = [_text_of(message), *_arguments(message)]
        tokens, of_text = self._counter.message(message), sum(map(self._counter.text, texts))
        chars = sum(map(len, texts))
        notice = self._counter.text(self._template.format(cut=chars, total=chars))
        return Size(tokens, max(0, tokens - of_text) + notice * len(texts), of_text, chars)

    def cut(self, message: BaseMessage, limit: int) -> BaseMessage:
        """The message in about `limit` tokens, head and tail kept; itself where nothing is saved by it."""
        if self._counter.message(message) <= limit:
            return message
        size = self.size(message)
        kept = size.kept(limit)
        if kept + len(self._template.format(cut=size.chars, total=size.chars)) >= size.chars:
            return message
        update: dict[str, Any] = {}
        if arguments := _arguments(message):
            kept, *each = shares([size.chars - sum(map(len, arguments)), *map(len, arguments)], kept)
            calls = zip(message.tool_calls, each, strict=True)  # type: ignore[attr-defined]
            update["tool_calls"] = [
                {**call, "args": short_arguments(call["args"], share, self._template)}
                for call, share in calls
            ]
        update["content"] = self._middle_out(message.content, kept)
        own = own_fields(message)
        if isinstance(message, AIMessage) and own:
            raw = own.get("raw")
            mended = {key: value for key, value in own.items() if key not in {"raw", "thinking"}}
            # A call or a JSON decision that is cut in its middle would teach a broken form.
            keeps_form = not own.get("calls_in_text") and not isinstance(self._form.protocol, JsonProtocol)
            if isinstance(raw, str) and raw and keeps_form:
                mended["raw"] = self._middle_out(raw, kept)
            update["additional_kwargs"] = {**message.additional_kwargs, "turnflow": mended}
        return message.model_copy(update=update)

    def _middle_out(self, content: Any, kept: int) -> Any:
        """The content with so many characters of text kept, half of them at the head; media stay."""
        total = sum(len(text) for text in iter_text(content))
        if total <= kept:
            return content
        head, tail = (kept + 1) // 2, kept // 2
        notice = self._template.format(cut=total - kept, total=total)
        if isinstance(content, str):
            return content[:head] + notice + content[total - tail :]
        blocks: list[Any] = []
        at = 0
        for block in content:
            text = "".join(iter_text([block]))
            if not text:
                blocks.append(block)
                continue
            start, at = at, at + len(text)
            said = text if at <= head else text[: max(0, head - start)]
            if at > head:
                said += notice
                notice = ""
                said += text[max(0, total - tail - start) :] if at > total - tail else ""
            if said:
                blocks.append({"type": "text", "text": said})
        return blocks


def _arguments(message: BaseMessage) -> list[str]:
    """The arguments of each call, as JSON."""
    return [as_json(call["args"]) for call in message.tool_calls] if isinstance(message, AIMessage) else []


def _text_of(message: BaseMessage) -> str:
    """The text that goes back to the model."""
    if isinstance(message, AIMessage):
        raw = own_fields(message).get("raw")
        if isinstance(raw, str) and raw:
            return raw
    return "".join(iter_text(message.content))


def _has_media(content: Any) -> bool:
    return not isinstance(content, str) and any(
        isinstance(block, dict) and block.get("type") in MEDIA for block in content
    )
