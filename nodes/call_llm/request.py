"""The request to the model: the planned messages in the provider's form, with the tools bound."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import openai
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_openai.chat_models.base import BaseChatOpenAI
from langgraph.constants import TAG_NOSTREAM

from turnflow.graph.model_access import inner_models
from turnflow.graph.profile import REASONING_FIELDS
from turnflow.graph.resources import TurnResources
from turnflow.graph.strict_messages import wire_messages
from turnflow.graph.wire_texts import wire_texts
from turnflow.nodes.call_llm.model_stream import ModelStream
from turnflow.nodes.call_llm.openai_compatible import OpenAICompatibleChat
from turnflow.nodes.call_llm.stream_clock import Limits, StreamClock

FIRST_TOKEN_SECONDS = 60.0
"""How long the first token may take where neither settings nor profile say."""

CONNECT_SECONDS = 10.0
"""How long connecting may take."""

_SLACK_SECONDS = 5.0
"""So much later than the turn gives a silent endpoint up does its connection end."""

_LONGEST_TIMEOUT = 24 * 3600.0
"""A longer limit than this, in seconds, is none for the client."""

_END_SECONDS = 0.2
"""How long the end of a stream is waited for after the finish reason, where usage is not asked for."""

_OWN_FIELDS = ("temperature", "top_p", "reasoning_effort", "max_tokens", "stop", "seed", "n")
"""Fields of LangChain's chat models that become parameters of the request."""


class Request:
    """One request, in the form that the provider of a turn takes; it can be sent more than once.

    The model runs with the node's callbacks, so that tracing sees all that it said; a tag keeps LangGraph
    from sending its raw text to `stream_mode="messages"`, where the read text goes instead.

    Args:
        view: The plan of the request.
        turn: The turn.
        resources: What the run works with.
        config: The node's configuration.
    """

    def __init__(
        self, view: Mapping[str, Any], turn: dict[str, Any], resources: TurnResources, config: RunnableConfig
    ) -> None:
        self._profile = resources.profile_in(turn)
        self._model: Any = resources.model_in(turn)
        self._messages = wire_messages(view["messages"], self._profile, wire_texts(resources.prompts))
        offered = set(view["tools"])
        self._definitions = [tool.definition for tool in resources.registry if tool.name in offered]
        self._inner = inner_models(self._model)
        self._options = self._request_options(view)
        self._config = merge_configs(config, {"tags": [TAG_NOSTREAM]})
        self._cancel = resources.cancel
        self._settings = resources.settings
        if all(isinstance(each, OpenAICompatibleChat) and each.has_default_timeout for each in self._inner):
            # The turn gives a silent endpoint up; a thread that still reads from it ends soon after.
            longest = max(self.limits(0).first_token, self.limits(0).idle) + _SLACK_SECONDS
            silence = longest if longest <= _LONGEST_TIMEOUT else None
            self._options["timeout"] = openai.Timeout(silence, connect=CONNECT_SECONDS)

    def open(self, due: Callable[[], float | None] | None, clock: StreamClock) -> ModelStream:
        """Send it; gives the stream of the reply."""
        runnable = self._runnable

        def stream() -> Iterator[BaseMessage]:
            chunks: Iterator[BaseMessage] = runnable.stream(self._messages, self._config, **self._options)
            return chunks

        def astream() -> AsyncIterator[BaseMessage]:
            chunks: AsyncIterator[BaseMessage] = runnable.astream(
                self._messages, self._config, **self._options
            )
            return chunks

        return ModelStream(stream, astream, cancel=self._cancel, due=due, clock=clock)

    def limits(self, deadline: float) -> Limits:
        """The time that its reply may take.

        Args:
            deadline: When the round's time is over, on the monotonic clock.
        """
        settings = self._settings
        first = settings.first_token_timeout or self._profile.first_token_timeout or FIRST_TOKEN_SECONDS
        if not self.streams:
            first = settings.round_timeout  # its reply comes all at once
        return Limits(
            first_token=first,
            idle=settings.idle_timeout,
            usage=min(settings.usage_timeout, math.inf if self._profile.stream_usage else _END_SECONDS),
            final=settings.final_timeout,
            deadline=deadline,
        )

    @cached_property
    def sent(self) -> frozenset[str]:
        """Names of what it holds that a provider may refuse: parameters, and kinds of content."""
        kinds = set() if self._profile.strict_messages else {"messages"}
        if self._definitions:
            kinds.add("tools")
        if any(isinstance(message, SystemMessage) for message in self._messages):
            kinds.add("system_role")
        if any(_has_media(message) for message in self._messages):
            kinds.add("images")
        if (field := self._profile.reasoning_field) and any(_has_reasoning(each) for each in self._messages):
            kinds.add(field)
        return frozenset(kinds.union(*(self._sent_by(each) for each in self._inner)))

    @property
    def streams(self) -> bool:
        """Whether the reply comes in pieces, as far as is known."""
        return self._profile.streaming and all(_streams(each) for each in self._inner)

    @property
    def names_its_end(self) -> bool:
        """Whether a reply that ends without a finish reason has broken off, as in OpenAI's chat protocol."""
        return all(isinstance(each, BaseChatOpenAI) for each in self._inner)

    @cached_property
    def _runnable(self) -> Any:
        if not self._definitions:
            return self._model
        try:
            return self._model.bind_tools(self._definitions)
        except (AttributeError, NotImplementedError) as error:
            raise ValueError(
                f"model {type(self._model).__name__} takes no tools: give another model, no tools and "
                "settings={'ask_user': False}, or provider_profile={'native_tools': False}"
            ) from error

    def _request_options(self, view: Mapping[str, Any]) -> dict[str, Any]:
        """Further parameters of the request.

        What holds the reply to its protocol goes into the body as it is: LangChain would read a reply to a
        `response_format` of its own by other means, and not chunk by chunk.
        """
        limit, left_out = view["manifest"]["max_output"], self._profile.unsupported_parameters
        held = {name: value for name, value in view["constraint"].items() if name not in left_out}
        # The call's own takes the place of the model's.
        body = {**(getattr(self._inner[0], "extra_body", None) or {}), **held} if held else {}
        is_limited = limit is not None and not {"max_tokens", "max_completion_tokens"} <= set(left_out)
        return {**({"max_tokens": limit} if is_limited else {}), **({"extra_body": body} if body else {})}

    def _sent_by(self, model: Any) -> set[str]:
        """The same, of one of the models; where it cannot even make the request, nothing was refused."""
        try:
            return self._parameters(model)
        except Exception:  # noqa: BLE001 - what failed once, such as content that it cannot send, fails again
            return set()

    def _parameters(self, model: Any) -> set[str]:
        names = {*self._options, *self._options.get("extra_body", {})} - {"extra_body", "timeout"}
        if isinstance(model, OpenAICompatibleChat):
            payload = model.payload_of(self._messages, **self._options)
            names = {*payload, *(payload.get("extra_body") or {})} - {"extra_body", "timeout", "messages"}
            names -= {"parallel_tool_calls"}
            if self._definitions and self._profile.parallel_calls is not None:
                names.add("parallel_tool_calls")
        else:
            names |= {name for name in _OWN_FIELDS if getattr(model, name, None) is not None}
        if getattr(model, "stream_usage", False) and self._profile.stream_usage and self.streams:
            names.add("stream_options")
        return names - {"model", "stream"} - set(self._profile.unsupported_parameters)


def _streams(model: Any) -> bool:
    """Whether a model gives its reply in pieces, as far as it says."""
    kind = type(model)
    if not issubclass(kind, BaseChatModel):
        return True
    if model.disable_streaming is True:
        return False
    return kind._stream is not BaseChatModel._stream or kind._astream is not BaseChatModel._astream  # noqa: SLF001


def _has_reasoning(message: BaseMessage) -> bool:
    return any(name in message.additional_kwargs for name in REASONING_FIELDS)


def _has_media(message: BaseMessage) -> bool:
    content = message.content
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") != "text" for block in content
    )
