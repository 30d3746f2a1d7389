"""Counting tokens without asking anybody (docs/tokens.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from turnflow.graph.content import MEDIA, iter_text
from turnflow.graph.identity_cache import IdentityCache
from turnflow.graph.profile import REASONING_FIELDS
from turnflow.graph.token_weights import media_tokens, text_tokens
from turnflow.graph.transcript import own_fields

MIN_FACTOR, MAX_FACTOR = 0.3, 4.0
"""How far a calibration goes at most."""

_MESSAGE = 4
"""What a message costs by itself: its role, and the marks around it."""
_CALL = 6
_TOOL = 8
_BELIEVED = 20
"""Estimated tokens below which a reported number says more about the frame than about the text."""
_TRUST = 0.7
"""How far one report moves the factor."""


class TokenCounter(Protocol):
    """Counts tokens; the same input always gives the same number."""

    def text(self, text: str) -> int:
        """Tokens of a text."""

    def message(self, message: BaseMessage) -> int:
        """Tokens of a message: its text, calls, thoughts, media, and what a message costs by itself."""

    def tools(self, definitions: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of tool definitions, as they are sent."""


_Counts = IdentityCache[tuple[Any, int]]
"""Content and count of a message; a message whose content was replaced is counted again."""

_shared: dict[Any, _Counts] = {}


class TextCounter:
    """Counts messages and tools by their texts. Base of a counter of one's own: define `count`.

    The count of a message is kept while the message lives, so a message must not be changed in place.

    Args:
        factor: What each count is multiplied by, from a calibration.
        reasoning_fields: Fields beside the content whose text goes back to the provider.
    """

    def __init__(self, factor: float = 1.0, *, reasoning_fields: Collection[str] = REASONING_FIELDS) -> None:
        self.factor = factor
        self._is_plain = factor == 1.0
        self.reasoning_fields = tuple(reasoning_fields)
        key = self.shared_key()
        self._counts: _Counts = (
            IdentityCache()
            if key is None
            else _shared.setdefault((type(self), key, self.reasoning_fields), IdentityCache())
        )

        self._find = self._counts.find

    def count(self, text: str) -> int:
        """Tokens of a text before the factor; a text that is not empty has at least one."""
        raise NotImplementedError

    def shared_key(self) -> object | None:
        """What counters that count alike have in common: they share what is kept. None shares nothing."""
        return None

    def text(self, text: str) -> int:
        """Tokens of a text."""
        return self._scaled(self.count(text)) if text else 0

    def message(self, message: BaseMessage) -> int:
        """Tokens of a message; of a reply, those of the text that goes back to the model."""
        entry = self._find(id(message))
        content = message.content
        if entry is not None and entry[0]() is message and entry[1][0] is content:
            count = entry[1][1]
        else:
            count = self._count_message(message)
            self._counts.put(message, (content, count))
        return count if self._is_plain else math.ceil(count * self.factor)

    def tools(self, definitions: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of tool definitions, as JSON."""
        return self._scaled(sum(_TOOL + self.count(as_json(definition)) for definition in definitions))

    def _scaled(self, count: int) -> int:
        return count if self._is_plain else math.ceil(count * self.factor)

    def _count_message(self, message: BaseMessage) -> int:
        total = _MESSAGE
        if message.name and not isinstance(message, ToolMessage):  # a result is found by its call
            total += self.count(message.name)
        if not isinstance(message, AIMessage):
            return total + self._content(message.content)
        raw = own_fields(message).get("raw")
        total += self.count(raw) if isinstance(raw, str) and raw else self._content(message.content)
        for call in message.tool_calls:
            total += _CALL + self.count(call["name"]) + self.count(as_json(call["args"]))
        for field in self.reasoning_fields:
            thought = message.additional_kwargs.get(field)
            total += self.count(thought) if isinstance(thought, str) and thought else 0
        return total

    def _content(self, content: Any) -> int:
        if isinstance(content, str):
            return self.count(content) if content else 0
        texts = sum(self.count(text) for text in iter_text(content) if text)
        media = [block for block in content if isinstance(block, dict) and block.get("type") in MEDIA]
        return texts + sum(media_tokens(block) for block in media)


class EstimatedCounter(TextCounter):
    """Counts by kinds of characters, without a vocabulary: fast, and never far off."""

    def count(self, text: str) -> int:
        """Tokens of a text before the factor."""
        return text_tokens(text)

    def shared_key(self) -> object:
        """All of them count alike."""
        return "estimated"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EstimatedCounter)
            and other.factor == self.factor
            and other.reasoning_fields == self.reasoning_fields
        )

    def __hash__(self) -> int:
        return hash((self.factor, self.reasoning_fields))


def default_counter(
    model_name: str = "", factor: float = 1.0, *, reasoning_fields: Collection[str] = REASONING_FIELDS
) -> TokenCounter:
    """The counter for a model: by tiktoken where its vocabulary is on this disk, else an estimate.

    Reads the vocabulary once, and never fetches one.

    Args:
        model_name: Name of the model, for its vocabulary.
        factor: From a calibration (`calibrated`).
        reasoning_fields: Fields beside the content whose text goes back to the provider.
    """
    from turnflow.graph.tiktoken_counter import tiktoken_counter

    exact = tiktoken_counter(model_name, factor, reasoning_fields=reasoning_fields)
    return exact or EstimatedCounter(factor, reasoning_fields=reasoning_fields)


def is_counter_loaded(model_name: str) -> bool:
    """Whether `default_counter` answers for this model without reading from the disk.

    Never False again once `load_counter` or `default_counter` was called for it, in this process.
    """
    from turnflow.graph.tiktoken_counter import is_tiktoken_loaded

    return is_tiktoken_loaded(model_name)


def load_counter(model_name: str) -> None:
    """Read what `default_counter` needs for this model; for a thread, as it waits for the disk."""
    default_counter(model_name)


def calibrated(factor: float, estimated: float | None, reported: float | None) -> float:
    """The factor, moved towards what a provider reported for a request.

    Most of the way at once, the rest with the next reports. A number that can mean no such thing changes
    nothing: none at all, one that leaves out what came from a cache, one of a few tokens.

    Args:
        factor: The factor that the request was counted with.
        estimated: Tokens of the whole request as counted with it, tools included.
        reported: Input tokens as reported, those from a cache included.

    Returns:
        A factor between `MIN_FACTOR` and `MAX_FACTOR`.
    """
    old = min(MAX_FACTOR, max(MIN_FACTOR, factor)) if _is_number(factor) else 1.0
    if not (_is_number(estimated) and _is_number(reported)) or estimated is None or reported is None:
        return old
    if estimated < _BELIEVED or reported < 1:
        return old
    new = old * reported / estimated
    if not MIN_FACTOR <= new <= MAX_FACTOR:
        return old
    return float(old ** (1 - _TRUST) * new**_TRUST)


def _is_number(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    )


def as_json(value: Any) -> str:
    """Arguments and definitions as they are counted, which is about how they are sent."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)
