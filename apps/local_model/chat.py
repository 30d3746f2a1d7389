"""The embedded model as a LangChain chat model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import openai
from langchain_core.language_models.chat_models import (
    BaseChatModel,
    agenerate_from_stream,
    generate_from_stream,
)
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field

from turnflow.apps.local_model.plan import Plan, plan_request
from turnflow.apps.local_model.reply import ReplyReader
from turnflow.apps.local_model.server import LocalModelServer, local_server
from turnflow.graph.profile import ProviderProfile

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

MODEL_NAME = "SmolLM2-135M-Instruct"
ANSWER_TOKENS = 300
SEED = 1
DRY_MULTIPLIER = 0.8
"""How hard llama.cpp's DRY sampler works against repeated phrases, into which small models fall."""
PROMPT_TOKENS = 200
"""Room for the system prompt and the examples in front of a plain chat."""
REQUEST_TIMEOUT_SECONDS = 300.0
"""Generous: on a machine that is busy with other things the model can be a hundred times slower."""


class LocalChatModel(BaseChatModel):
    """SmolLM2-135M-Instruct on this machine: a toy, to see turnflow move without a key or a network.

    Of the tools bound to it, it is offered only `calculate` with an `expression`, and only for questions
    that ask for a calculation (`arithmetic.asks_for_sum`); the call is the model's own, held to a grammar.
    Temperature is 0, and nothing of one request is kept for the next, so that answers repeat.

    The server starts with the first request. Errors are `LocalModelError` where it cannot, and the `openai`
    package's where a request fails.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    server: LocalModelServer = Field(default_factory=local_server, exclude=True)
    provider_profile: ProviderProfile = Field(
        default=ProviderProfile(json_schema=True, grammar=True), exclude=True
    )
    model_name: str = MODEL_NAME
    max_tokens: int = ANSWER_TOKENS

    @property
    def _llm_type(self) -> str:
        return "turnflow-local"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "max_tokens": self.max_tokens}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; all but `calculate(expression)` are passed over.

        Args:
            tools: Anything that LangChain can turn into a tool.
            tool_choice: `"required"`, `"any"` or `"calculate"` insists on a call, `"none"` forbids one.
            **kwargs: Passed on with every request.
        """
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the caller reports the chunks
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        plan, request = self._request(messages, stop, kwargs)
        reader = ReplyReader(self.model_name, call=plan.kind == "call")
        with (
            openai.OpenAI(
                **self._connection(self.server.base_url),
                http_client=openai.DefaultHttpxClient(verify=False, trust_env=False),
            ) as client,
            client.chat.completions.create(**request) as stream,
        ):
            for chunk in stream:
                yield from reader.read(chunk)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the caller reports the chunks
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        plan, request = self._request(messages, stop, kwargs)
        reader = ReplyReader(self.model_name, call=plan.kind == "call")
        base_url = await asyncio.to_thread(getattr, self.server, "base_url")
        # A client for each request: a kept one would belong to one event loop.
        async with (
            openai.AsyncOpenAI(
                **self._connection(base_url),
                http_client=openai.DefaultAsyncHttpxClient(verify=False, trust_env=False),
            ) as client,
            await client.chat.completions.create(**request) as stream,
        ):
            async for chunk in stream:
                for piece in reader.read(chunk):
                    yield piece

    def _connection(self, base_url: str) -> dict[str, Any]:
        return {
            "base_url": base_url,
            "api_key": self.server.api_key,
            "max_retries": 0,
            "timeout": REQUEST_TIMEOUT_SECONDS,
        }

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[Plan, dict[str, Any]]:
        """Return the plan and the request's body; further options of a call go into it as they are."""
        options = dict(options)
        body = options.pop("extra_body", None) or {}
        max_tokens = options.pop("max_tokens", None) or self.max_tokens
        plan = plan_request(
            messages,
            tools=options.pop("tools", None) or (),
            tool_choice=options.pop("tool_choice", None),
            room_tokens=self.server.context_tokens - max_tokens - PROMPT_TOKENS,
            is_held=bool({"grammar", "response_format"} & {*body, *options}),
        )
        options.pop("parallel_tool_calls", None)  # There is one tool, called once.
        # Reused prompt states shift probabilities a little: words would depend on what was asked before.
        extra = {"cache_prompt": False, **body}
        if plan.kind == "chat":
            extra["dry_multiplier"] = DRY_MULTIPLIER
        if plan.grammar is not None:
            extra["grammar"] = plan.grammar
            options.pop("response_format", None)
        return plan, {
            "model": self.model_name,
            "messages": plan.messages,
            "temperature": 0,
            "seed": SEED,
            "max_tokens": max_tokens,
            "stop": stop,
            **options,
            "stream": True,
            "stream_options": {"include_usage": True},
            "extra_body": extra,
        }


def local_model() -> LocalChatModel:
    """Return the embedded model on the program's shared server, which starts with the first request."""
    return LocalChatModel()
