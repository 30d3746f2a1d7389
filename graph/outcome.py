"""How a turn ends: statuses, stop reasons and the error that a failed first round raises."""

from __future__ import annotations

from typing import Any, Literal, get_args

from typing_extensions import TypedDict

Status = Literal[
    "finished",
    "finished_truncated",
    "finished_budget",
    "finished_degraded",
    "empty",
    "paused",
    "pending_input",
    "cancelled",
    "filtered",
    "context_overflow",
    "provider_error",
]
"""The named end of a turn (docs/outcomes.md)."""

STATUSES: tuple[str, ...] = get_args(Status)

WORSE = frozenset({"provider_error", "tools", "images"})
"""Degradations with which an answer may be worse than without; the others change the request's form alone."""

Usage = dict[str, int]
"""Tokens of all requests of a turn: `input`, `output`, `cached`, `reasoning`, and `requests`; with
`estimated`, the number of those whose tokens the provider did not report, where there are any."""

NO_USAGE: Usage = {"requests": 0, "input": 0, "output": 0, "cached": 0, "reasoning": 0}


def sum_usage(before: Usage, added: Usage) -> Usage:
    """The sum of both, key by key."""
    return {key: before.get(key, 0) + added.get(key, 0) for key in {**before, **added}}


class ErrorInfo(TypedDict):
    """A provider's failure as plain data."""

    type: str
    """Class name of the exception."""
    message: str
    """Its text, shortened to 500 characters."""
    status_code: int | None
    """The HTTP status code where there was one."""


class Outcome(TypedDict):
    """The outcome of a turn, as it stands in the state and in the `turn.ended` event."""

    turn_id: str
    status: Status
    stop_reason: str
    """What ended the turn: the model's finish reason (`stop`, say, or whatever the provider calls it), or one
    of `length`, `rounds`, `call_limit`, `loop`, `terminate`, `question`, `approval`, `interrupt`,
    `cancelled`, `superseded`, `pending_input`, `empty_reply`, `thinking_only`, `content_filter`,
    `context_too_long`, `provider_error`."""
    rounds: int
    tool_calls: int
    usage: Usage
    degradations: list[str]
    sources: list[Any]
    partial: bool
    """Whether the answer's text was cut off."""
    error: ErrorInfo | None


class TurnError(Exception):
    """A request failed and the turn had gathered nothing yet: there is no answer to give.

    Attributes:
        outcome: The outcome, with status `provider_error` and the failure under `error`. The transcript
            in the state is valid; `graph.invoke(None, config)` tries the round again.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message, outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return str(self.args[0])


def make_outcome(
    turn: dict[str, Any],
    status: Status,
    stop_reason: str,
    *,
    partial: bool = False,
    error: ErrorInfo | None = None,
) -> Outcome:
    """The outcome of a turn, with the counters that stand in `turn`."""
    return {
        "turn_id": turn["id"],
        "status": status,
        "stop_reason": stop_reason,
        "rounds": turn["round"],
        "tool_calls": turn["tool_calls"],
        "usage": turn["usage"],
        "degradations": turn["degradations"],
        "sources": turn["sources"],
        "partial": partial,
        "error": error,
    }
