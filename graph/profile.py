"""What a provider or a model can do, as data."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from turnflow.graph.given_fields import GivenFields

MAX_TAG_NAME = 20
"""Longest tag name, in letters."""

THINK_TAGS = ("think", "thinking", "thought", "reasoning", "analysis")
"""Tag names that models use around a thought inside the content channel."""


REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields beside the content in which providers send reasoning."""

PERMISSION_FIELD = "permission"
"""Field beside the content in which an agent behind an endpoint says that it waits for a permission."""


Dialect = Literal["hermes", "deepseek", "deepseek_tokens", "json"]
"""A way to write tool calls as text (docs/protocols.md)."""

CallIds = Literal["any", "alnum9"]
"""A form of the ids of tool calls."""

_NOT_GIVEN = {
    "model": "the model is named by model=",
    "messages": "the turn writes them",
    "stream": "streaming says it",
    "tools": "tools are given to build_turn_graph",
}
"""Parameters that no profile brings along, and what says them."""
_NOT_LEFT_OUT = {
    "model": "no request goes without it",
    "messages": "no request goes without them",
    "stream": "streaming=False asks for whole replies",
    "tools": "native_tools=False offers them as text",
}
"""Parameters that no profile leaves out, and what stands in the place of that."""
_SHOWN = 100
"""Characters of a value that an error shows."""


class ProviderProfile(GivenFields):
    """What a provider or a model can do and how it wants to be spoken to (docs/providers.md).

    A profile is data: it can be written as a dict, kept in a file and given to `build_turn_graph`.
    The defaults fit an endpoint that speaks the OpenAI chat protocol plainly.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    native_tools: bool = True
    """The model takes `tools` in the request. If False, they are offered as text (`text_dialects`)."""
    text_dialects: tuple[Dialect, ...] | None = None
    """How tool calls that are written as text look, the first being the one that the model is told to write.
    None: `hermes` where the model takes no tools, nothing where it does. Empty: calls are never read from
    text."""
    json_schema: bool = False
    """The endpoint holds a reply to a JSON schema (`response_format`)."""
    grammar: bool = False
    """The endpoint holds a reply to a grammar (`grammar`, in llama.cpp's GBNF)."""
    think_tags: tuple[str, ...] = THINK_TAGS
    """Tag names, in any case, that hold a thought inside the content channel."""
    starts_thinking: bool = False
    """The prompt template already opened a thought, so that only the closer arrives."""
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    """The assistant message's field in which the provider wants its reasoning back, or None."""
    token_limit_parameter: Literal["max_tokens", "max_completion_tokens"] | None = None
    """How the provider names the limit of output tokens; None: as OpenAI does at OpenAI's own address
    (`max_completion_tokens`), and `max_tokens` elsewhere."""
    context_window: int | None = Field(default=None, ge=256)
    """Tokens that a request and its reply may take together; None where it is not known."""
    streaming: bool = True
    """The endpoint streams its replies. If False, each reply is asked for whole."""
    stream_usage: bool = True
    """The endpoint takes `stream_options`, with which usage is asked for in the stream."""
    images: bool = True
    """The model takes images, sounds and files. If False, a line of text stands in their place."""
    system_role: bool = True
    """The endpoint takes a system message. If False, its text begins the first user message."""
    strict_messages: bool = False
    """Messages go out in the strictest form that is known, for an endpoint that complains about them."""
    call_ids: CallIds = "any"
    """What ids of tool calls the endpoint takes back: `any`, or `alnum9`, nine letters and digits."""
    parallel_calls: bool | None = None
    """Whether the model may call several tools in one reply: sent as `parallel_tool_calls`; None sends
    nothing."""
    unsupported_parameters: tuple[str, ...] = ()
    """Parameters that are left out of every request, as the provider's API names them."""
    first_token_timeout: float | None = Field(default=None, gt=0)
    """Seconds until the first token, of a model that thinks unseen or is loaded first; None: as the settings
    say."""
    request_parameters: dict[str, Any] = Field(default_factory=dict)
    """Further parameters for every request, as the provider's API names them."""

    def dialects(self, *, as_text: bool = False) -> tuple[Dialect, ...]:
        """The dialects that are read, where tools go with the request or are offered `as_text`."""
        if self.text_dialects is not None:
            return self.text_dialects
        return ("hermes",) if as_text or not self.native_tools else ()

    @field_validator("think_tags")
    @classmethod
    def _tag_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not (1 <= len(name) <= MAX_TAG_NAME and name.isascii() and name.isalpha()):
                msg = f"think_tags: {name!r} is no tag name; use 1 to {MAX_TAG_NAME} ASCII letters"
                raise ValueError(msg)
        return tuple(name.lower() for name in names)

    @field_validator("request_parameters")
    @classmethod
    def _further_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        for name, value in parameters.items():
            if name in _NOT_GIVEN:
                raise ValueError(
                    f"request_parameters: {name!r} cannot be given here, take it out: {_NOT_GIVEN[name]}"
                )
            if not _is_json(value):
                raise ValueError(
                    f"request_parameters: {name!r:.80} holds what is no JSON, {_shown(value)}; give texts, "
                    "finite numbers, true, false, null, lists and objects of them, a date as a text"
                )
        return parameters

    @field_validator("unsupported_parameters")
    @classmethod
    def _left_out_parameters(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name in _NOT_LEFT_OUT:
                raise ValueError(
                    f"unsupported_parameters: {name!r} cannot be left out, take it off the list: "
                    f"{_NOT_LEFT_OUT[name]}"
                )
        return names


def _is_json(value: Any) -> bool:
    """Whether a request can hold the value."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.{_SHOWN}}"
    except Exception:  # noqa: BLE001 - a foreign value can raise anything when it is looked at
        return f"({type(value).__name__})"
