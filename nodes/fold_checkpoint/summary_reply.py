"""What a summariser answered, read. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core.messages import BaseMessage

from turnflow.graph.content import iter_text
from turnflow.graph.decision import is_truncated
from turnflow.graph.outcome import NO_USAGE, Usage
from turnflow.graph.text import storable

_OWN_FENCE = re.compile(r"\A<summary>\s*(.*?)\s*</summary>\Z", re.DOTALL)
_REASONS = ("finish_reason", "stop_reason", "done_reason")
_MOST_TOKENS = 10**12


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """An answer of the summariser.

    Attributes:
        text: The summary; '' where the answer is none.
        why: Why it is none: `empty`, `calls`, `too_long`; '' where it is one.
        finish_reason: As the provider names it, '' where it does not say.
        usage: Tokens of the request.
    """

    text: str
    why: str
    finish_reason: str
    usage: Usage


def read_reply(value: Any, tags: Sequence[str], *, starts_thinking: bool = False) -> SummaryReply:
    """The summary in an answer of any chat model, its thoughts left out.

    Args:
        value: What the model gave: a message, or a text.
        tags: Names of think tags.
        starts_thinking: Whether an answer begins inside a thought.
    """
    if not isinstance(value, BaseMessage):
        text, reason, calls, usage = str(value or ""), "", False, {**NO_USAGE, "requests": 1}
    else:
        text, usage = "".join(iter_text(value.content)), _usage(value)
        reason = next((r for key in _REASONS if isinstance(r := value.response_metadata.get(key), str)), "")
        calls = bool(getattr(value, "tool_calls", ()) or getattr(value, "invalid_tool_calls", ()))
    text = storable(without_thoughts(text, tags, starts_thinking=starts_thinking)).strip()
    if own := _OWN_FENCE.match(text):
        text = own[1].strip()
    why = "calls" if calls else "too_long" if is_truncated(reason) else "" if text else "empty"
    return SummaryReply("" if why else text, why, reason, usage)


def without_thoughts(text: str, tags: Sequence[str], *, starts_thinking: bool = False) -> str:
    """A whole text without what stands in think tags.

    What comes before a closer whose opener is missing was a thought; so is what follows an opener that is
    never closed.

    Args:
        text: The text.
        tags: Names of the tags, in lower case.
        starts_thinking: Whether it begins inside a thought; a text without any tag does not.
    """
    if not tags:
        return text
    kept: list[str] = []
    depth, at, found = int(starts_thinking), 0, False
    for tag in _tag(tuple(tags)).finditer(text):
        found = True
        if not tag[1]:
            kept += [text[at : tag.start()]] if depth == 0 else []
            depth += 1
        elif depth == 0:
            kept.clear()
        else:
            depth -= 1
        at = tag.end()
    return "".join([*kept, text[at:]]) if depth == 0 or not found else "".join(kept)


@lru_cache(maxsize=16)
def _tag(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<\s?(/?)\s?(?:{'|'.join(names)})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)


def _usage(message: BaseMessage) -> Usage:
    reported = getattr(message, "usage_metadata", None) or {}
    read, written = reported.get("input_token_details") or {}, reported.get("output_token_details") or {}
    return {
        "requests": 1,
        "input": _tokens(reported.get("input_tokens")),
        "output": _tokens(reported.get("output_tokens")),
        "cached": _tokens(read.get("cache_read")),
        "reasoning": _tokens(written.get("reasoning")),
    }


def _tokens(reported: Any) -> int:
    """A number of tokens as a provider reports it; what cannot be one counts as none."""
    is_number = isinstance(reported, int) and not isinstance(reported, bool)
    return reported if is_number and 0 <= reported <= _MOST_TOKENS else 0
