"""How providers say no: the table `provider_sayings.jsonl`, one error a line, and what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

SENT = frozenset(
    {"messages", "tools", "images", "system_role", "stream_options", "temperature", "top_p", "max_tokens"}
    | {
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "presence_penalty",
        "stop",
    }
)
"""What the requests had."""

KINDS = frozenset({"transient", "context_too_long", "content_filter", "final"})


class Saying(NamedTuple):
    """One error.

    Attributes:
        provider: Who says it.
        status: The HTTP status; None inside a stream.
        body: What came: the error object of a JSON body, or a text.
        kind: What it means.
        refusal: What it refuses, where it does.
    """

    provider: str
    status: int | None
    body: Any
    kind: str
    refusal: str


def error(message: str, param: str | None = None, code: Any = None) -> dict[str, Any]:
    """The error object as OpenAI sends it."""
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


def read_sayings() -> list[Saying]:
    """The table; a line stands for each of its statuses."""
    text = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return [
        Saying(
            row["provider"],
            status,
            row["body"],
            row["means"] if row["means"] in KINDS else "refused",
            "" if row["means"] in KINDS else row["means"],
        )
        for row in rows
        for status in row["statuses"]
    ]


SAYINGS = read_sayings()
