"""`OpenAICompatibleChat`: any endpoint that speaks the OpenAI chat protocol (docs/providers.md)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, subtract_usage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from openai.types.chat import ParsedChatCompletion
from pydantic import ConfigDict, Field, model_validator

from turnflow.graph.base_url import check_base_url
from turnflow.graph.profile import REASONING_FIELDS, ProviderProfile
from turnflow.graph.profiles import OPENAI_HOST, OPENAI_URL
from turnflow.nodes.call_llm.call_assembly import CallAssembler
from turnflow.nodes.call_llm.clean_chunks import beside_content, clean_chunk
from turnflow.nodes.call_llm.errors.classify import PrematureEndError
from turnflow.nodes.call_llm.plain_client import AsyncPlainClient, PlainClient, plain_body
from turnflow.nodes.call_llm.streamless import EmptyStreamError
from turnflow.nodes.call_llm.whole_reply import whole_reply, with_calls

SILENCE_SECONDS = 120.0
"""How long an endpoint may keep silent, before or within a reply, unless `timeout` says otherwise."""

_KEYS = {"api_key", "openai_api_key", "client", "root_client", "async_client", "root_async_client"}
"""Arguments that bring a key, or a client that has one."""


class OpenAICompatibleChat(ChatOpenAI):
    """A thin `ChatOpenAI` for any compatible endpoint.

    `model`, `base_url` and `api_key` come from the arguments, else from `TURNFLOW_MODEL`, `OPENAI_BASE_URL`
    and `OPENAI_API_KEY`; an endpoint of one's own needs no key. What it adds: reasoning fields are read,
    and sent back as the profile says; usage is asked for in the stream; tool-call deltas come out in one
    clean form whatever the gateway makes of them; a stream that ends without a finish reason is an error; an
    endpoint that keeps silent for two minutes is given up; one that does not stream, as the profile may say,
    is asked for whole replies.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # a key may stand in it

    provider_profile: ProviderProfile = Field(default_factory=ProviderProfile, exclude=True)
    has_default_timeout: bool = Field(default=False, exclude=True)
    """Whether nobody said how long the endpoint may keep silent; a turn then has its own limits."""

    @model_validator(mode="before")
    @classmethod
    def _from_environment(cls, values: dict[str, Any]) -> dict[str, Any]:
        values = dict(values)
        if not {"model", "model_name"} & values.keys():
            values["model"] = os.environ.get("TURNFLOW_MODEL")
        if not (values.get("model") or values.get("model_name") or "").strip():
            raise ValueError("no model is named: pass model=, or set TURNFLOW_MODEL")
        values.setdefault("stream_usage", True)
        values.setdefault("max_retries", 0)
        if "LANGCHAIN_OPENAI_STREAM_CHUNK_TIMEOUT_S" not in os.environ:
            values.setdefault("stream_chunk_timeout", None)
        if not {"timeout", "request_timeout"} & values.keys():
            values["timeout"] = SILENCE_SECONDS
            values["has_default_timeout"] = True
        given = values.get("base_url") or values.get("openai_api_base")
        base_url = given or os.environ.get("OPENAI_BASE_URL")
        if base_url:
            base_url = check_base_url(str(base_url), "base_url" if given else "OPENAI_BASE_URL")
            values["base_url"] = base_url
        if not _KEYS & values.keys() and not os.environ.get("OPENAI_API_KEY"):
            if not base_url:
                raise ValueError(
                    "no key: set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own that needs "
                    "none (or pass api_key=, base_url=)"
                )
            values["api_key"] = "none"
        return values

    @model_validator(mode="after")
    def _with_plain_clients(self) -> Self:
        if self.client is not None and not isinstance(self.client, PlainClient):
            self.client = PlainClient(self.client)
        if self.async_client is not None and not isinstance(self.async_client, AsyncPlainClient):
            self.async_client = AsyncPlainClient(self.async_client)
        return self

    @property
    def _llm_type(self) -> str:
        return "openai-compatible-chat"

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        profile = self.provider_profile
        if "messages" in payload:
            self._rename_token_limit(payload)
            if profile.reasoning_field:
                _send_reasoning_back(
                    payload["messages"], self._convert_input(input_).to_messages(), profile.reasoning_field
                )
        if profile.request_parameters:
            payload["extra_body"] = {**(payload.get("extra_body") or {}), **profile.request_parameters}
        if profile.parallel_calls is not None and payload.get("tools"):
            payload.setdefault("parallel_tool_calls", profile.parallel_calls)
        self._leave_out(payload)
        return payload

    def payload_of(self, messages: LanguageModelInput, **kwargs: Any) -> dict[str, Any]:
        """The body of a request with these messages, but for its tools."""
        return self._get_request_payload(messages, **kwargs)

    def _leave_out(self, payload: dict[str, Any]) -> None:
        """Take out what the provider refuses."""
        profile = self.provider_profile
        refused = {*profile.unsupported_parameters, *(() if profile.stream_usage else ("stream_options",))}
        for name in refused & payload.keys():
            del payload[name]
        if body := payload.get("extra_body"):
            payload["extra_body"] = {name: value for name, value in body.items() if name not in refused}

    def _rename_token_limit(self, payload: dict[str, Any]) -> None:
        named = self.provider_profile.token_limit_parameter
        at_openai = urlsplit(self.openai_api_base or OPENAI_URL).hostname == OPENAI_HOST
        wanted = named or ("max_completion_tokens" if at_openai else "max_tokens")
        for other in {"max_tokens", "max_completion_tokens"} - {wanted}:
            if other in payload:
                payload[wanted] = payload.pop(other)

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        is_parsed = "chunk" in chunk or chunk.get("type") == "content.delta"  # an event of OpenAI's client
        converted = super()._convert_chunk_to_generation_chunk(
            chunk if is_parsed else clean_chunk(chunk), default_chunk_class, base_generation_info
        )
        if converted is not None and not is_parsed:
            converted.message.additional_kwargs.update(beside_content(chunk))
        return converted

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> ChatResult:
        if isinstance(response, ParsedChatCompletion):
            return super()._create_chat_result(response, generation_info)
        reply = whole_reply(response, self.openai_api_base or OPENAI_URL)
        (choice,) = reply["choices"]
        calls = choice["message"].pop("tool_calls")
        result = super()._create_chat_result(reply, generation_info)
        (generation,) = result.generations
        if isinstance(generation.message, AIMessage):
            generation.message = with_calls(generation.message, calls)
            generation.message.additional_kwargs.update(beside_content(plain_body(response)))
        return result

    def _should_stream(self, **kwargs: Any) -> bool:
        return self.provider_profile.streaming and super()._should_stream(**kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        stream = _StreamCheck()
        for chunk in super()._stream(*args, **kwargs):
            yield stream.checked(chunk)
        stream.close()

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        stream = _StreamCheck()
        try:
            async for chunk in super()._astream(*args, **kwargs):
                yield stream.checked(chunk)
        except RuntimeError as error:
            if stream.has_begun or "loop is closed" not in str(error):
                raise
            # The connection that was taken from the pool belongs to a loop that is gone, as after an earlier
            # asyncio.run; it is out of the pool now.
            async for chunk in super()._astream(*args, **kwargs):
                yield stream.checked(chunk)
        stream.close()


class _StreamCheck:
    """Brings the tool-call deltas of one stream into their clean form, and looks out for its end."""

    def __init__(self) -> None:
        self._assembler = CallAssembler()
        self._finished = False
        self._reported: UsageMetadata | None = None
        self.has_begun = False

    def checked(self, chunk: ChatGenerationChunk) -> ChatGenerationChunk:
        self.has_begun = True
        message = chunk.message
        if (chunk.generation_info or {}).get("finish_reason") or message.response_metadata.get("status"):
            self._finished = True
        if isinstance(message, AIMessageChunk) and message.usage_metadata:
            # Some endpoints report what it took so far with each piece; chunks are added up.
            so_far, self._reported = self._reported, message.usage_metadata
            message.usage_metadata = subtract_usage(message.usage_metadata, so_far)
        if not isinstance(message, AIMessageChunk) or not message.tool_call_chunks:
            return chunk
        deltas = self._assembler.feed([dict(delta) for delta in message.tool_call_chunks])
        fields = message.model_dump(exclude={"tool_calls", "invalid_tool_calls", "tool_call_chunks", "type"})
        clean = AIMessageChunk(
            **fields,
            tool_call_chunks=[
                tool_call_chunk(name=d["name"], args=d["args"], id=d["id"], index=d["index"]) for d in deltas
            ],
        )
        return ChatGenerationChunk(message=clean, generation_info=chunk.generation_info)

    def close(self) -> None:
        """Look at the end of the stream.

        Raises:
            EmptyStreamError: Nothing came.
            PrematureEndError: No finish reason came.
        """
        if not self.has_begun:
            raise EmptyStreamError
        if not self._finished:
            raise PrematureEndError("the stream ended without a finish reason")


def _send_reasoning_back(payload: list[dict[str, Any]], messages: list[Any], field: str) -> None:
    for sent, message in zip(payload, messages, strict=True):
        if not isinstance(message, AIMessage):
            continue
        for name in REASONING_FIELDS:
            if text := message.additional_kwargs.get(name):
                sent[field] = text
                break
