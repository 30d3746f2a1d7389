"""`OpenAICompatibleChat`: any endpoint that speaks the OpenAI chat protocol (docs/providers.md)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, subtract_usage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import Field, model_validator

from turnflow.graph.profile import PERMISSION_FIELD, REASONING_FIELDS, ProviderProfile
from turnflow.nodes.call_llm.call_assembly import CallAssembler
from turnflow.nodes.call_llm.errors.classify import PrematureEndError

OPENAI_URL = "https://api.openai.com/v1"
"""OpenAI's own address, where nothing else is said."""

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
    endpoint that keeps silent for two minutes is given up.
    """

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
        base_url = (
            values.get("base_url") or values.get("openai_api_base") or os.environ.get("OPENAI_BASE_URL")
        )
        if base_url:
            if not str(base_url).startswith(("http://", "https://")):
                raise ValueError(f"base_url {base_url!r} is no address: it begins with http:// or https://")
            values["base_url"] = base_url
        if not _KEYS & values.keys() and not os.environ.get("OPENAI_API_KEY"):
            if not base_url:
                raise ValueError(
                    "no key: set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own that needs "
                    "none (or pass api_key=, base_url=)"
                )
            values["api_key"] = "none"
        return values

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
        at_openai = urlsplit(self.openai_api_base or OPENAI_URL).hostname == urlsplit(OPENAI_URL).hostname
        wanted = named or ("max_completion_tokens" if at_openai else "max_tokens")
        for other in {"max_tokens", "max_completion_tokens"} - {wanted}:
            if other in payload:
                payload[wanted] = payload.pop(other)

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        choice = (chunk.get("choices") or [None])[0]
        if not isinstance(choice, dict):
            return super()._convert_chunk_to_generation_chunk(
                {**chunk, "choices": []}, default_chunk_class, base_generation_info
            )
        delta = choice.get("delta") or {}
        clean = {**choice, "delta": {**delta, "tool_calls": _clean_calls(delta.get("tool_calls"))}}
        converted = super()._convert_chunk_to_generation_chunk(
            {**chunk, "choices": [clean]}, default_chunk_class, base_generation_info
        )
        if converted is not None:
            for field in REASONING_FIELDS:
                if isinstance(text := delta.get(field), str) and text:
                    converted.message.additional_kwargs[field] = text
            if asked := delta.get(PERMISSION_FIELD):
                converted.message.additional_kwargs[PERMISSION_FIELD] = asked
        return converted

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
            PrematureEndError: No finish reason came.
        """
        if not self._finished:
            raise PrematureEndError("the stream ended without a finish reason")


def _clean_calls(calls: Any) -> list[dict[str, Any]]:
    """Deltas of tool calls in the shape that LangChain reads, whatever is missing or of another type."""
    clean = []
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments, call_id, index = (
            function.get("name"),
            function.get("arguments"),
            call.get("id"),
            call.get("index"),
        )
        clean.append(
            {
                "id": call_id if isinstance(call_id, str) else None,
                "index": index if isinstance(index, int) else None,
                "function": {
                    "name": name if isinstance(name, str) else None,
                    "arguments": arguments if isinstance(arguments, str | None) else json.dumps(arguments),
                },
            }
        )
    return clean


def _send_reasoning_back(payload: list[dict[str, Any]], messages: list[Any], field: str) -> None:
    for sent, message in zip(payload, messages, strict=True):
        if not isinstance(message, AIMessage):
            continue
        for name in REASONING_FIELDS:
            if text := message.additional_kwargs.get(name):
                sent[field] = text
                break
