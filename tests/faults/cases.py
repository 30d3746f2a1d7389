"""A fault as data: what the provider does, and how the turn has to end (docs/faults.md)."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from turnflow.graph.outcome import Status

SCRIPTS = Path(__file__).parent / "scripts"

ANSWER_AFTER = "Fine, thank you."
"""The answer of the next turn, where a fault does not say otherwise."""

QUICK: dict[str, Any] = {
    "first_token_timeout": 3.0,
    "idle_timeout": 3.0,
    "usage_timeout": 0.3,
    "final_timeout": 1.0,
    "round_timeout": 20.0,
    "max_retry_wait": 0.02,
}
"""Settings of every fault: no wait, and no mistake, holds the suite up for long."""


_ENVELOPE = {"id": "odd", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "odd"}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Expected(_Part):
    """How a turn has to end. What is None is not looked at."""

    status: Status
    stop_reason: str
    answer: str | None = None
    """The exact text."""
    raises: bool = False
    """Whether the turn raises a `TurnError` in place of an answer."""
    requests: int
    """Requests that the provider saw."""
    retries: int = 0
    """Events `retry`."""
    degradations: list[str] = Field(default_factory=list)
    """Those of the outcome, in any order; each but `provider_error` has one `degraded` event."""
    in_vain: list[str] = Field(default_factory=list)
    """Refusals that were told of, and taken back, as the same was said without what was refused."""
    events: dict[str, int] = Field(default_factory=dict)
    """How many events of a type there are."""
    partial: bool = False
    error: str | None = None
    """Class name of the outcome's error; '' for none."""
    error_status: int | None = None
    shape: list[str] | None = None
    """Roles of the turn's own messages, calls by name."""
    results: list[str] | None = None
    """Results of its calls, in order."""
    thinking: str | None = None
    """The stored thought of the last message."""
    refusals: list[str] = Field(default_factory=list)
    """What the provider refused by its script's `refuses`, in order."""
    violations: int = 0
    """Requests that strict mode refused on purpose."""
    longest: float | None = None
    """Seconds that the turn may take."""
    shortest: float | None = None
    """Seconds that it has to take."""


class Fault(_Part):
    """One fault, the turn that meets it, and the turn after it."""

    fault: str
    """What the provider does, in words."""
    name: str
    before: list[dict[str, Any]] = Field(default_factory=list)
    """Steps that answer turns before, one each."""
    given: str | list[dict[str, Any]] = "Hello there."
    """The user's message: a text, or content parts."""
    settings: dict[str, Any] = Field(default_factory=dict)
    profile: dict[str, Any] = Field(default_factory=dict)
    model: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the model."""
    protocol: Literal["native", "label", "json"] | None = None
    provider: dict[str, Any] = Field(default_factory=dict)
    """Fields of the provider's script beside its steps."""
    is_down: bool = False
    """Whether nothing listens at the provider's address until the next turn."""
    steps: list[dict[str, Any]] = Field(default_factory=list)
    expect: Expected
    next: list[dict[str, Any]] = Field(
        default_factory=lambda: [{"expect": {"last_role": "user"}, "reply": {"content": ANSWER_AFTER}}]
    )
    """Steps of the next turn on the thread, and of one on a thread of its own with `is_learned`."""
    is_learned: bool = False
    """Whether a graph of its own, with the same model, has to know of the refusal from its start."""
    file: str = ""


@functools.cache
def all_faults() -> tuple[Fault, ...]:
    """Every fault of every script, in the order of files and of their entries.

    Raises:
        ValueError: A file has an entry that is no fault, or a name stands twice.
    """
    faults = [fault for path in sorted(SCRIPTS.glob("*.yaml")) for fault in _read(path)]
    names = [fault.name for fault in faults]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"faults with the same name: {', '.join(sorted(twice))}")
    return tuple(faults)


def _read(path: Path) -> list[Fault]:
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))["faults"]
    return [Fault.model_validate({**_expanded(entry), "file": path.stem}) for entry in entries]


def _expanded(value: Any) -> Any:
    """The value with its short forms written out (docs/faults.md)."""
    if isinstance(value, dict):
        if value.keys() == {"repeated"}:
            text, times = value["repeated"]
            return text * times
        if "delta" in value:
            choice = {"index": 0, "delta": value["delta"], "finish_reason": value.get("finish_reason")}
            return _event({**_ENVELOPE, "choices": [choice]})
        if value.keys() == {"chunk"} and isinstance(value["chunk"], dict):
            return _event({**_ENVELOPE, **value["chunk"]})
        return {key: _expanded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [piece for item in value for piece in _pieces(item)]
    return value


def _pieces(item: Any) -> list[Any]:
    """An entry of a list: itself, or as often as `{again: entry, times: N}` says."""
    if isinstance(item, dict) and item.keys() == {"again", "times"}:
        return [_expanded(item["again"])] * int(item["times"])
    return [_expanded(item)]


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
