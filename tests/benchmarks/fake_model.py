"""A chat model that answers at once: the rest of a turn's time is the framework's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolCall
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from tests.benchmarks.cases import ANSWER

TOOL = "double"


class InstantChat(BaseChatModel):
    """Calls the tool in the first `rounds` replies of a turn, `calls` times each, then answers.

    A streamed reply is one chunk. Binding tools costs nothing.
    """

    rounds: int
    calls: int

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        calls = self._calls(messages)
        message = AIMessage(content="" if calls else ANSWER, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=self._reply(messages))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=self._reply(messages))

    def _reply(self, messages: list[BaseMessage]) -> AIMessageChunk:
        calls = [
            ToolCallChunk(
                type="tool_call_chunk", id=call["id"], name=TOOL, args=json.dumps(call["args"]), index=n
            )
            for n, call in enumerate(self._calls(messages))
        ]
        return AIMessageChunk(content="" if calls else ANSWER, tool_call_chunks=calls)

    def _calls(self, messages: list[BaseMessage]) -> list[ToolCall]:
        done = _rounds_so_far(messages)
        if done >= self.rounds:
            return []
        return [
            ToolCall(type="tool_call", id=f"c{done}-{n}", name=TOOL, args={"number": 100 * done + n})
            for n in range(self.calls)
        ]


def _rounds_so_far(messages: list[BaseMessage]) -> int:
    """How many replies of this turn called tools."""
    rounds = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        rounds += isinstance(message, AIMessage)
    return rounds
