"""The numbers of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from turnflow.graph.given_fields import GivenFields, validated


class TurnSettings(GivenFields):
    """Limits and switches of a turn (docs/settings.md). A wrong name or value is refused when it is given."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_rounds: int = Field(default=8, ge=1)
    """Requests before the turn is asked to settle; continuations do not count."""
    settle_rounds: int = Field(default=3, ge=0)
    """Requests with tools after `max_rounds`, to finish what is owed, before the one without tools."""
    max_continuations: int = Field(default=3, ge=0)
    """How often a text reply that was cut off is continued."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Limit of output tokens of a request; None sends no limit."""
    context_window: int | None = Field(default=None, ge=256)
    """Tokens that a request and its reply may take together; None: as the profile or the model says, else
    128,000, else as an overflow teaches."""
    fold_at: float | None = Field(default=0.85, gt=0, le=1)
    """How full a request may become before older turns and rounds are summed up, as a part of what is free
    for them; None never sums up for lack of room."""
    protected_turns: int = Field(default=2, ge=1)
    """Last turns, the current one included, that are never left out as a whole."""
    state_turns: int = Field(default=10, ge=1)
    """Turns that stay in the checkpointed state where there is an archive for the earlier ones."""
    recall_tokens: int = Field(default=1500, ge=0)
    """Tokens that recalled turns may take, and never more than a fifth of the window."""
    contributor_timeout: float = Field(default=5.0, gt=0)
    """Seconds that a contributor or a memory may take before the request goes on without it."""
    first_token_timeout: float | None = Field(default=None, gt=0)
    """Seconds until the first token of a reply; None: as the profile says, else 60."""
    idle_timeout: float = Field(default=30.0, gt=0)
    """Seconds between two pieces of a reply."""
    usage_timeout: float = Field(default=1.0, ge=0)
    """Seconds of silence after the finish reason, in which usage may still come."""
    final_timeout: float = Field(default=8.0, gt=0)
    """Seconds after the finish reason in all, whatever still comes."""
    round_timeout: float = Field(default=600.0, gt=0)
    """Seconds that the requests of one round may take together, waiting and continuations included."""
    retries_per_round: int = Field(default=2, ge=0)
    """How often a request of one round is sent again after it failed before it showed anything."""
    retries_per_turn: int = Field(default=6, ge=0)
    """The same for a whole turn."""
    max_retry_wait: float = Field(default=60.0, ge=0)
    """Longest wait, in seconds, that a provider may ask for before a request is sent again; one that asks
    for more is not asked again."""
    pending_input: Literal["yield", "steer"] = "yield"
    """What a turn does about input that comes while it runs (docs/inbox.md): end so that the next turn can
    take it, or take it in."""
    tool_timeout: float = Field(default=30.0, gt=0)
    """Seconds a tool may take, unless its policy says otherwise."""
    max_parallel_tools: int = Field(default=8, ge=1)
    """Calls of a batch that run at the same time."""
    max_calls_per_batch: int = Field(default=32, ge=1)
    """Calls of one reply that are run; the rest are answered "not run"."""
    max_tool_calls: int = Field(default=128, ge=1)
    """Calls of a whole turn; the batch that would exceed it is not run, and the turn finishes."""
    max_result_chars: int = Field(default=16_000, ge=200)
    """Longest result text, in characters, that the model is shown."""
    ask_user: bool = True
    """Whether the built-in tool `ask_user` is offered."""
    max_asks: int = Field(default=3, ge=0)
    """Questions to the user in a turn."""
    read_results: bool = True
    """Whether a result that is too long to be shown is kept whole, for the built-in tool `read_result`."""
    loop_guard: bool = True
    """Whether a model that goes in circles is told so, and in the end has to answer without tools."""
    coalesce_ms: int = Field(default=0, ge=0)
    """Live text goes out at most once per so many milliseconds; 0 sends each piece as it comes."""
    locale: Literal["en", "zh"] = "en"
    """Language of the texts that the turn itself writes."""
    log_arguments: bool = False
    """Whether the log lines hold the arguments of tool calls."""


def as_settings(given: TurnSettings | Mapping[str, Any] | None, argument: str = "settings") -> TurnSettings:
    """Settings from what a caller gives: settings, their fields, or nothing.

    Args:
        given: What was given; None is the defaults.
        argument: What an error calls it.

    Raises:
        ValueError: It is none of them, or wrong; the text, one line, names the field and the mend.
    """
    if isinstance(given, TurnSettings):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{argument} takes a TurnSettings or a dict of its fields, not {given!r:.80}")
    return validated(TurnSettings, argument, given or {})
