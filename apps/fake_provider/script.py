"""The script format: what each request is answered with, as data (docs/fake-provider.md)."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

CallStyle = Literal[
    "no_index",
    "index_zero",
    "repeat_ids",
    "repeat_names",
    "blank_repeats",
    "no_ids",
    "whole",
    "together",
    "interleaved",
    "arguments_object",
]
"""How a gateway departs from OpenAI's way of streaming tool calls; styles combine."""

Rule = Literal[
    "unknown_parameter",
    "stray_parameter",
    "invalid_tools",
    "invalid_tool_choice",
    "unknown_message_field",
    "system_position",
    "user_first",
    "consecutive_users",
    "consecutive_assistants",
    "user_after_tool",
    "last_role",
    "content_parts",
    "empty_content",
    "invalid_tool_calls",
    "duplicate_call_ids",
    "unanswered_calls",
    "unmatched_results",
]
"""The rules of strict mode, each a function in strict.py."""

PickyRule = Literal[
    "system_role", "alternation", "silent_calls", "names", "call_ids", "images", "text_blocks"
]
"""The rules that only some providers have, each a function in picky.py."""

Wording = Literal["openai", "vllm", "pydantic", "serde", "go", "mistral", "llama", "bare", "text"]
"""In whose words a provider refuses something."""

FaultKind = Literal["truncate", "close", "reset", "hang", "error", "malformed", "trickle"]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


StrList = Annotated[list[str], BeforeValidator(_as_list)]
"""A list of strings; one string alone is a list of one."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Part):
    """One tool call of a reply."""

    name: str
    arguments: dict[str, JsonValue] | str = Field(default_factory=dict)
    """An object, or the exact text that the model writes (which need not be JSON)."""
    id: str | None = None
    """None: `call_REQUEST_POSITION`, unique within the script."""


class Reply(_Part):
    """What the model says. A list of texts is streamed in exactly these pieces."""

    content: str | list[str] | None = None
    reasoning_content: str | list[str] | None = None
    reasoning: str | list[str] | None = None
    permission: dict[str, JsonValue] | None = None
    """What an agent behind the endpoint asks a permission for; goes out first."""
    tool_calls: list[Call] = Field(default_factory=list)
    finish_reason: str | None = "auto"
    """"auto" is `tool_calls` with calls and `stop` without; None is never sent."""
    late_content: str | list[str] | None = None
    """Content that is streamed behind the finish reason."""
    usage: dict[str, JsonValue] | Literal["auto"] | None = "auto"
    """"auto" counts four characters a token; None never comes, asked for or not."""

    @property
    def sent_finish_reason(self) -> str | None:
        """The finish reason on the wire, None if none is sent."""
        if self.finish_reason == "auto":
            return "tool_calls" if self.tool_calls else "stop"
        return self.finish_reason


class Stream(_Part):
    """How a reply is cut and timed on the wire. Times are in seconds."""

    chunk: PositiveInt | Literal["word", "whole"] = "word"
    """Characters of text, thinking or arguments in one delta."""
    write_bytes: PositiveInt | None = None
    """Bytes in one HTTP chunk, wherever that cuts, inside a UTF-8 character too. None: one SSE event."""
    header_delay: NonNegativeFloat = 0.0
    first_delay: NonNegativeFloat = 0.0
    """Between the headers and the first event."""
    delay: NonNegativeFloat = 0.0
    """Before each following piece."""
    usage_delay: NonNegativeFloat = 0.0
    """Between the finish reason and the usage frame."""
    usage_frame: Literal["asked", "always", "with_finish"] = "asked"
    """Usage comes if `stream_options.include_usage` asks for it; or always; or always, and in the same chunk
    as the finish reason."""
    call_style: Annotated[list[CallStyle], BeforeValidator(_as_list)] = Field(default_factory=list)
    comments: bool = False
    """An SSE comment before each event, as routers send to keep a connection open."""
    finish_times: PositiveInt = 1
    """How many times the finish reason is sent."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers of the response, or others; `content-encoding: gzip` makes garbage of the body."""

    @field_validator("call_style")
    @classmethod
    def _ids_or_none(cls, styles: list[CallStyle]) -> list[CallStyle]:
        if "no_ids" in styles and {"repeat_ids", "blank_repeats"} & set(styles):
            raise ValueError("'no_ids' excludes 'repeat_ids' and 'blank_repeats'")
        return styles


class Fault(_Part):
    """What breaks while a reply is sent, and where."""

    kind: FaultKind
    after: NonNegativeInt | Literal["request", "headers", "finish", "end", "done"] | None = None
    """After so many pieces of the reply, or a named place: "end" is before `[DONE]`, "done" is behind it."""
    after_bytes: NonNegativeInt | None = None
    """After so many bytes of the response's body."""
    error: dict[str, JsonValue] | None = None
    """The error object of kind `error`; None: a server error in OpenAI's words."""
    of: Literal["comments", "empty_deltas", "thinking", "text"] = "comments"
    """What comes for ever with kind `trickle`."""
    every: PositiveFloat = 0.05
    """Seconds between two of it."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.after is None) == (self.after_bytes is None):
            raise ValueError("give exactly one of 'after' and 'after_bytes'")
        if self.kind in {"error", "malformed"} and self.after_bytes is not None:
            raise ValueError(f"'after_bytes' does not go with kind '{self.kind}', use 'after'")
        if self.after == "request" and self.kind not in {"close", "reset", "hang"}:
            raise ValueError("'after: request' goes with close, reset and hang only")
        if self.error is not None and self.kind != "error":
            raise ValueError("'error' goes with kind 'error' only")
        if {"of", "every"} & self.model_fields_set and self.kind != "trickle":
            raise ValueError("'of' and 'every' go with kind 'trickle' only")
        return self


class HttpError(_Part):
    """An HTTP response in place of a reply: an OpenAI error body, or a body given as it is."""

    status: Annotated[int, Field(ge=200, le=599)] = 500
    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    body: JsonValue = None
    """A JSON body in place of the error object."""
    text: str | None = None
    html: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        given = [name for name in ("body", "text", "html") if getattr(self, name) is not None]
        if {"message", "type", "code", "param"} & self.model_fields_set:
            given.append("message/type/code/param")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other")
        return self


class HexBytes(_Part):
    """Raw bytes that are not UTF-8 text, in hexadecimal."""

    hex: str

    @field_validator("hex")
    @classmethod
    def _readable(cls, text: str) -> str:
        bytes.fromhex(text)
        return text


class Expect(_Part):
    """What must hold for a request; all that is given is checked.

    Texts are looked for in the contents and tool calls of messages.
    """

    last_role: str | None = None
    last_contains: StrList = Field(default_factory=list)
    contains: StrList = Field(default_factory=list)
    not_contains: StrList = Field(default_factory=list)
    roles: list[str] | None = None
    messages: NonNegativeInt | None = None
    tools: list[str] | None = None
    """The names offered, in any order, all of them."""
    no_tools: bool = False
    has: StrList = Field(default_factory=list)
    """Top-level parameters that are there."""
    lacks: StrList = Field(default_factory=list)
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Top-level parameters with their values."""


class Step(_Part):
    """One answer: a reply, an error, or raw pieces."""

    note: str = ""
    when: Expect | None = None
    """The step is only for requests like this: for scripts that several threads play at once."""
    expect: Expect = Field(default_factory=Expect)
    reply: Reply | None = None
    error: HttpError | None = None
    raw: list[str | HexBytes] | None = None
    """The exact body of an event stream, piece by piece."""
    stream: Stream = Field(default_factory=Stream)
    fault: Fault | None = None
    times: PositiveInt = 1
    """How many requests in a row get this answer."""
    forever: bool = False
    """Every further request gets this answer."""

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if sum(answer is not None for answer in (self.reply, self.error, self.raw)) != 1:
            raise ValueError("give exactly one of 'reply', 'error' and 'raw'")
        if self.fault is not None and self.error is not None:
            raise ValueError("'fault' goes with 'reply' or 'raw', not with 'error'")
        if self.forever and self.times != 1:
            raise ValueError("'times' and 'forever' exclude each other")
        calls = self.reply.tool_calls if self.reply else []
        if "arguments_object" in self.stream.call_style and any(isinstance(c.arguments, str) for c in calls):
            raise ValueError("call style 'arguments_object' wants arguments that are an object, not text")
        return self


class Strictness(_Part):
    """Fine settings of strict mode."""

    allow: list[Rule] = Field(default_factory=list)
    """Rules that this provider does not have."""
    parameters: list[str] = Field(default_factory=list)
    """Further top-level parameters that this provider knows."""
    accepts_reasoning: bool = False
    """Assistant messages may carry `reasoning_content` and `reasoning`."""
    also: list[PickyRule] = Field(default_factory=list)
    """Rules that only some providers have, and this one does."""


class Refusal(_Part):
    """Something this provider does not take, and how it says so."""

    what: str
    """A parameter, `system`, or a rule of strict mode or of picky providers."""
    values: list[JsonValue] | None = None
    """Only these values of the parameter are refused."""
    taken: list[JsonValue] | None = None
    """Only these values of the parameter are taken."""
    wording: Wording = "openai"
    status: Annotated[int, Field(ge=400, le=599)] = 400
    in_stream: bool = False
    """A request that streams gets the refusal as the first event of a response with status 200."""
    body: JsonValue = None
    """A JSON body in place of the wording's."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.values is not None and self.taken is not None:
            raise ValueError("'values' and 'taken' exclude each other")
        about_value = self.values is not None or self.taken is not None
        if about_value and self.what in {*get_args(Rule), *get_args(PickyRule), "system"}:
            raise ValueError(f"'values' and 'taken' go with a parameter, not with rule '{self.what}'")
        if self.body is not None and "wording" in self.model_fields_set:
            raise ValueError("'body' and 'wording' exclude each other")
        return self


def _as_refusal(value: object) -> object:
    return {"what": value} if isinstance(value, str) else value


class Script(_Part):
    """A whole script: a provider's character and its answers, in order."""

    note: str = ""
    strict: bool = True
    strictness: Strictness = Field(default_factory=Strictness)
    refuses: list[Annotated[Refusal, BeforeValidator(_as_refusal)]] = Field(default_factory=list)
    """What this provider does not take; a text alone is a refusal with a 400 in OpenAI's words."""
    models: list[str] = Field(default_factory=lambda: ["fake-model"])
    """What `GET /v1/models` lists."""
    steps: list[Step]
    repeat: bool = False
    """Begin again after the last step."""

    @field_validator("steps")
    @classmethod
    def _forever_is_last(cls, steps: list[Step]) -> list[Step]:
        for number, step in enumerate(steps[:-1], start=1):
            if step.forever and step.when is None:
                raise ValueError(f"step {number} is 'forever', what follows it is never played")
        return steps
