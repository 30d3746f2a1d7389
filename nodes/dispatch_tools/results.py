"""Renders what a tool gave into a bounded tool message."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from turnflow.graph.text import storable
from turnflow.graph.tool_policy import ToolOutput
from turnflow.prompts import Prompts

logger = logging.getLogger("turnflow")


@dataclass(frozen=True)
class Rendered:
    """A result as the model reads it, and what the tool said beside it."""

    content: str | list[Any]
    ok: bool = True
    artifact: Any = None
    report: dict[str, Any] = field(default_factory=dict)
    """Fields of the call in the batch: `sources`, `checkpoint`, `terminate`."""


def render(value: Any, *, max_chars: int, prompts: Prompts) -> Rendered:
    """What the model reads of a tool's value."""
    if isinstance(value, ToolOutput):
        report = {
            "sources": plain_json(list(value.sources)),
            "checkpoint": None if value.checkpoint is None else storable(value.checkpoint),
            "terminate": value.terminate,
        }
        return Rendered(_bounded(_text(value.content), max_chars, prompts), report=report)
    if isinstance(value, ToolMessage):
        return Rendered(
            _bounded(value.content, max_chars, prompts),
            ok=value.status != "error",
            artifact=_storable(value.artifact),
        )
    if isinstance(value, Command):
        return render_failure(
            "TypeError", "a tool cannot return a Command; return text or a ToolOutput", prompts
        )
    return Rendered(_bounded(_text(value), max_chars, prompts))


def render_failure(kind: str, message: str, prompts: Prompts, *, max_chars: int = 2000) -> Rendered:
    """What the model reads of an exception: its type and its message."""
    text = prompts.text(
        "result", "failed", type=kind, message=message.strip() or prompts.text("result", "empty")
    )
    return Rendered(_bounded(text, max_chars, prompts), ok=False)


def plain_json(value: Any) -> Any:
    """The value as plain JSON; what JSON does not know becomes text."""
    return json.loads(storable(json.dumps(value, ensure_ascii=False, default=str)))


def _text(value: Any) -> str | list[Any]:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _bounded(content: str | list[Any], max_chars: int, prompts: Prompts) -> str | list[Any]:
    if isinstance(content, list):
        return [_bounded_block(block, max_chars, prompts) for block in content] or prompts.text(
            "result", "empty"
        )
    if not content.strip():
        return prompts.text("result", "empty")
    return _cut(content, max_chars, prompts)


def _bounded_block(block: Any, max_chars: int, prompts: Prompts) -> Any:
    if isinstance(block, str):
        return _cut(block, max_chars, prompts)
    if isinstance(block, dict) and isinstance(text := block.get("text"), str):
        return {**block, "text": _cut(text, max_chars, prompts)}
    return block


def _cut(text: str, max_chars: int, prompts: Prompts) -> str:
    """Text with its middle left out where it is too long: head and tail say most."""
    text = storable(text)
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    notice = prompts.text("result", "cut", cut=len(text) - 2 * half, total=len(text))
    return f"{text[:half]}\n{notice}\n{text[-half:]}"


def _storable(artifact: Any) -> Any:
    """The artifact, or None where a checkpoint could not hold it."""
    if artifact is None:
        return None
    try:
        JsonPlusSerializer().dumps_typed(artifact)
    except Exception:  # noqa: BLE001 - whatever a foreign object does when it is stored
        logger.warning("an artifact of type %s cannot be stored and is left out", type(artifact).__name__)
        return None
    return artifact
