"""What a provider or a model can do, as data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

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


class ProviderProfile(BaseModel):
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
