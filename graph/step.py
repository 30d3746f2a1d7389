"""The last reply, read: the `step` channel between `call_llm` and `classify_label` (docs/state.md)."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from turnflow.graph.outcome import ErrorInfo

Stop = Literal["", "cancelled", "provider_error", "context_too_long", "content_filter", "tools_refused"]


class Step(TypedDict):
    """One reply, or one part of it.

    What need not be there is left out where it says nothing: checkpoints carry it (`whole_step`).
    """

    message_id: str
    text: str
    raw: str
    thinking: str
    reasoning: str
    """What came through the reasoning field; part of `thinking` too."""
    calls: list[dict[str, Any]]
    finish_reason: str
    retracted: bool
    stop: Stop
    """Why the reply ended early, or ''."""
    error: ErrorInfo | None
    label: NotRequired[str | None]
    """The label, or the action of a JSON decision."""
    body: NotRequired[str]
    """What stands behind the label; left out where it is `text`."""
    shown: NotRequired[str]
    """What of `text` went out as events; left out where all of it did."""
    calls_in_text: NotRequired[bool]
    """Whether the calls were written as text."""
    violation: NotRequired[str]
    problem: NotRequired[str]
    """What is wrong with a JSON decision: its key, and in words."""


def whole_step(step: dict[str, Any]) -> dict[str, Any]:
    """The step with everything in it; one that was stored before there were protocols too."""
    return {**_silent(step["text"]), **step}


def slim_step(step: dict[str, Any]) -> Step:
    """The step without what says nothing."""
    silent = _silent(step["text"])
    kept: Any = {key: value for key, value in step.items() if key not in silent or silent[key] != value}
    return kept  # type: ignore[no-any-return]


def _silent(text: str) -> dict[str, Any]:
    parts = {"label": None, "body": text, "shown": text, "calls_in_text": False}
    return {**parts, "violation": "", "problem": ""}
