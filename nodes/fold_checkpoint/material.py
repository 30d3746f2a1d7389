"""What a summariser is given to read: plain lines, bounded, in as many steps as it takes. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from turnflow.graph.content import MEDIA, iter_text
from turnflow.graph.folds import defused
from turnflow.graph.shown import shown_json
from turnflow.graph.tokens import TokenCounter
from turnflow.graph.tool_names import ASK_USER

MOST_STEPS = 8
"""Calls of the summariser for one summary; what is beyond is left out of the middle."""

_SAID, _RESULT, _ARGUMENTS = 4000, 1200, 300
"""Characters of a message, of a result, and of a call's arguments."""
_HEAD_STEPS = 3


@dataclass(frozen=True)
class MaterialWording:
    """The texts around what is read, with their fields.

    Attributes:
        user_said: With `{text}`.
        assistant_said: With `{text}`.
        called: With `{name}` and `{arguments}`.
        result: With `{name}` and `{text}`.
        cut: What stands for a middle that is left out, with `{cut}` and `{total}`.
    """

    user_said: str = "User: {text}"
    assistant_said: str = "Assistant: {text}"
    called: str = "Assistant called {name}({arguments})"
    result: str = "Result of {name}: {text}"
    cut: str = "[… {cut} of {total} characters left out …]"


def lines_of(messages: Sequence[AnyMessage], wording: MaterialWording) -> list[str]:
    """Each message as plain lines; nothing in them closes the fence that they stand in."""
    lines: list[str] = []
    for message in messages:
        text = shortened(_text(message.content), _limit(message), wording.cut)
        if isinstance(message, HumanMessage):
            lines.append(wording.user_said.format(text=text))
        elif isinstance(message, ToolMessage):
            lines.append(wording.result.format(name=message.name or "", text=text))
        elif isinstance(message, AIMessage):
            if text:
                lines.append(wording.assistant_said.format(text=text))
            lines += [
                wording.called.format(name=call["name"], arguments=_arguments(call["args"]))
                for call in message.tool_calls
            ]
    return [defused(line, "conversation", "summary") for line in lines]


def shortened(text: str, limit: int, cut: str) -> str:
    """A text of about `limit` characters at most: head and tail, and between them what is left out.

    Args:
        text: The text.
        limit: Characters of it that stay.
        cut: The notice, with `{cut}` and `{total}`.
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    notice = cut.format(cut=len(text) - limit, total=len(text))
    return f"{text[:head]}{notice}{text[len(text) - tail :]}"


def steps_of(lines: Sequence[str], room: int, counter: TokenCounter, cut: str) -> list[str]:
    """The lines in parts that are summed up one after the other, each of at most `room` tokens.

    At most `MOST_STEPS`: where there is more, the middle is left out.

    Args:
        lines: The lines; one that is too long for a part is cut.
        room: Tokens.
        counter: Counts tokens.
        cut: What stands for what is left out, with `{cut}` and `{total}`.
    """
    parts: list[list[str]] = []
    left = 0
    for line in lines:
        fitting = _fitted(line, room, counter, cut)
        tokens = counter.text(fitting) + 1  # the line break
        if not parts or tokens > left:
            parts.append([])
            left = room
        parts[-1].append(fitting)
        left -= tokens
    joined = ["\n".join(part) for part in parts]
    if len(joined) <= MOST_STEPS:
        return joined
    behind = len(joined) - (MOST_STEPS - _HEAD_STEPS)
    lost = sum(map(len, joined[_HEAD_STEPS:behind]))
    notice = cut.format(cut=lost, total=sum(map(len, joined)))
    head = joined[:_HEAD_STEPS]
    return [*head[:-1], f"{head[-1]}\n{notice}", *joined[behind:]]


def _fitted(line: str, room: int, counter: TokenCounter, cut: str) -> str:
    """The line, cut in the middle until it takes at most `room` tokens."""
    limit, fitting = len(line), line
    while limit > 0 and counter.text(fitting) + 1 > room:
        limit = limit // 2
        fitting = shortened(line, limit, cut)
    return fitting if limit else ""


def _text(content: str | list[Any]) -> str:
    text = "".join(iter_text(content))
    if isinstance(content, str):
        return text.strip()
    media = [f"[{b['type']}]" for b in content if isinstance(b, dict) and b.get("type") in MEDIA]
    return " ".join([text, *media]).strip()


def _limit(message: AnyMessage) -> int:
    is_result = isinstance(message, ToolMessage) and message.name != ASK_USER
    return _RESULT if is_result else _SAID


def _arguments(arguments: dict[str, Any]) -> str:
    try:
        return shown_json(arguments, _ARGUMENTS)
    except (TypeError, ValueError):
        return json.dumps(str(arguments), ensure_ascii=False)[:_ARGUMENTS]
