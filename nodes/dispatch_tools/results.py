"""Renders what a tool gave into a bounded tool message."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from turnflow.graph.content import as_text, clean_content, is_content
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
    """What the model reads of a tool's value; a value that says something impossible is a failure."""
    try:
        return _render(value, max_chars, prompts)
    except Exception as error:  # noqa: BLE001 - a foreign value can raise anything when it is looked at
        return render_failure(error, prompts)


def _render(value: Any, max_chars: int, prompts: Prompts) -> Rendered:
    if isinstance(value, ToolOutput):
        report = _report(value)
        # A terminating tool's content is the turn's answer: nobody cuts an answer.
        most = sys.maxsize if report["terminate"] else max_chars
        return Rendered(_bounded(value.content, most, prompts), report=report)
    if isinstance(value, ToolMessage):
        return Rendered(
            _bounded(value.content, max_chars, prompts),
            ok=value.status != "error",
            artifact=_storable(value.artifact),
        )
    if isinstance(value, Command):
        raise TypeError("a tool cannot return a Command; return text or a ToolOutput")
    return Rendered(_bounded(value, max_chars, prompts))


def _report(output: ToolOutput) -> dict[str, Any]:
    if not isinstance(output.checkpoint, str | None):
        raise TypeError(f"ToolOutput.checkpoint is a text, not {type(output.checkpoint).__name__}")
    return {
        "sources": plain_json(list(output.sources)),
        "checkpoint": None if output.checkpoint is None else storable(output.checkpoint),
        "terminate": bool(output.terminate),
    }


def render_failure(error: BaseException, prompts: Prompts, *, max_chars: int = 2000) -> Rendered:
    """What the model reads of an exception: its type and its message."""
    try:
        message = str(error).strip()
    except Exception:  # noqa: BLE001 - a foreign exception may not even have a text
        message = ""
    text = prompts.text(
        "result", "failed", type=type(error).__name__, message=message or prompts.text("result", "empty")
    )
    return Rendered(_bounded(text, max_chars, prompts), ok=False)


def plain_json(value: Any) -> Any:
    """The value as plain JSON; what JSON does not know becomes text."""
    return json.loads(storable(json.dumps(value, ensure_ascii=False, default=str)))


def _bounded(value: Any, max_chars: int, prompts: Prompts) -> str | list[Any]:
    if not is_content(value):
        text = as_text(value)
        return _cut(text, max_chars, prompts) if text.strip() else prompts.text("result", "empty")
    left = max_chars
    blocks: list[Any] = []
    for block in cast("list[Any]", clean_content(value) or []):
        if block["type"] == "text":
            if left <= 0:
                continue
            text = _cut(block["text"], left, prompts)
            left -= len(text)
            blocks.append({**block, "text": text})
        else:
            blocks.append(block)
    return blocks or prompts.text("result", "empty")


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
