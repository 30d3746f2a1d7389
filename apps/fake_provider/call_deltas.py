"""Tool calls as streamed deltas, in OpenAI's way and in those of gateways that depart from it."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from turnflow.apps.fake_provider.script import Call, CallStyle


class SentCall(NamedTuple):
    """A tool call with the id and the argument text that go out."""

    id: str
    name: str
    arguments: str

    @classmethod
    def of(cls, call: Call, fallback_id: str) -> SentCall:
        """The call as sent; an object of arguments becomes JSON text."""
        arguments = call.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return cls(fallback_id if call.id is None else call.id, call.name, text)


def whole_call(call: SentCall, styles: Collection[CallStyle]) -> dict[str, Any]:
    """A complete call as an entry of a message's `tool_calls`, without an index."""
    arguments = json.loads(call.arguments) if "arguments_object" in styles else call.arguments
    entry = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    if "no_ids" in styles:
        del entry["id"]
    return entry


def call_deltas(
    calls: Sequence[SentCall], styles: Collection[CallStyle], cut: Callable[[str], list[str]]
) -> list[list[dict[str, Any]]]:
    """The calls of a reply as deltas.

    Args:
        calls: The calls, in the model's order.
        styles: How the gateway departs from OpenAI's way.
        cut: Cuts an argument text into pieces.

    Returns:
        The `tool_calls` list of each delta, in sending order.
    """
    per_call = [_deltas_of(call, position, styles, cut) for position, call in enumerate(calls)]
    if "together" in styles:
        return [[delta for deltas in per_call for delta in deltas]]
    if "interleaved" in styles:
        return [[delta] for row in zip_longest(*per_call) for delta in row if delta is not None]
    return [[delta] for deltas in per_call for delta in deltas]


def _deltas_of(
    call: SentCall, position: int, styles: Collection[CallStyle], cut: Callable[[str], list[str]]
) -> list[dict[str, Any]]:
    index = {} if "no_index" in styles else {"index": 0 if "index_zero" in styles else position}
    first = index | whole_call(call, styles)
    if {"whole", "together", "arguments_object"} & set(styles):
        return [first]
    first["function"]["arguments"] = ""
    return [first, *(_continuation(call, index, piece, styles) for piece in cut(call.arguments))]


def _continuation(
    call: SentCall, index: dict[str, int], piece: str, styles: Collection[CallStyle]
) -> dict[str, Any]:
    blank = "blank_repeats" in styles
    delta: dict[str, Any] = dict(index)
    if "repeat_ids" in styles or blank:
        delta["id"] = "" if blank else call.id
    name = {"name": "" if blank else call.name} if "repeat_names" in styles or blank else {}
    return delta | {"function": {**name, "arguments": piece}}
