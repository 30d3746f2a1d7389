"""Turns the server's chunks into LangChain's: a call written as text becomes a tool call."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from turnflow.apps.local_model.arithmetic import CALL_PREFIX, CALL_SUFFIX
from turnflow.apps.local_model.plan import CALCULATE, EXPRESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk


class ReplyReader:
    """Reads one reply; feed it the chunks in order.

    Args:
        model_name: What the reply's metadata names as the model.
        call: Whether the reply is a call of the calculator, as its grammar makes it.
    """

    def __init__(self, model_name: str, *, call: bool) -> None:
        self._model_name = model_name
        self._call = _CallText() if call else None

    def read(self, chunk: ChatCompletionChunk) -> Iterator[ChatGenerationChunk]:
        """Yield what a chunk adds to the message: text or a piece of a call, the end, the usage."""
        for choice in chunk.choices:
            if choice.delta.content:
                yield from self._text(choice.delta.content)
            if choice.finish_reason is not None:
                yield self._end(choice.finish_reason)
        if chunk.usage is not None:
            yield _generation(AIMessageChunk(content="", usage_metadata=_usage(chunk.usage)))

    def _text(self, text: str) -> Iterator[ChatGenerationChunk]:
        if self._call is None:
            yield _generation(AIMessageChunk(content=text))
            return
        pieces = self._call.feed(text)
        if pieces:
            yield _generation(AIMessageChunk(content="", tool_call_chunks=pieces))

    def _end(self, reason: str) -> ChatGenerationChunk:
        message = AIMessageChunk(content="")
        if self._call is not None and self._call.complete:
            message = AIMessageChunk(content="", tool_call_chunks=[_piece(CLOSE_ARGUMENTS)])
            reason = "tool_calls"
        return _generation(message, finish_reason=reason, model_name=self._model_name)


OPEN_ARGUMENTS = f'{{"{EXPRESSION}": "'
CLOSE_ARGUMENTS = '"}'


class _CallText:
    """Follows `calculate("17 * 23")` as it is written, and gives the arguments' JSON piece by piece."""

    def __init__(self) -> None:
        self._written = ""
        self._given = 0

    @property
    def complete(self) -> bool:
        return len(self._written) > len(CALL_PREFIX) and self._written.endswith(CALL_SUFFIX)

    def feed(self, text: str) -> list[ToolCallChunk]:
        first = not self._written
        self._written += text
        expression = self._written[len(CALL_PREFIX) :].split(CALL_SUFFIX[0])[0]
        new, self._given = expression[self._given :], len(expression)
        escaped = json.dumps(new)[1:-1]
        if first:
            call_id = f"call_{uuid.uuid4().hex}"
            return [tool_call_chunk(name=CALCULATE, args=OPEN_ARGUMENTS + escaped, id=call_id, index=0)]
        return [_piece(escaped)] if escaped else []


def _piece(arguments: str) -> ToolCallChunk:
    return tool_call_chunk(args=arguments, index=0)


def _generation(message: AIMessageChunk, **info: str) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=message, generation_info=info or None)


def _usage(usage: CompletionUsage) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
    )
