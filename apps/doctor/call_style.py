"""How an endpoint streams tool calls: what departs from OpenAI's way. Pure.

The styles have the names that the fake provider gives them (docs/fake-provider.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

Delta = dict[str, Any]


def call_count(deltas: Sequence[Sequence[Delta]]) -> int:
    """How many calls the deltas of a reply make, by their ids, else by their indexes, else by their names."""
    every = [delta for group in deltas for delta in group]
    if ids := {delta["id"] for delta in every if _is_text(delta.get("id"))}:
        return len(ids)
    indexes = {delta["index"] for delta in every if isinstance(delta.get("index"), int)}
    if len(indexes) > 1:
        return len(indexes)
    return sum(_is_text(_function(delta).get("name")) for delta in every)


def call_styles(deltas: Sequence[Sequence[Delta]]) -> list[str]:
    """The ways in which the deltas of one reply depart from OpenAI's; empty where they do not.

    OpenAI sends an index with each delta, id and name with the first one of a call, and the arguments as text
    in pieces behind it.
    """
    every = [delta for group in deltas for delta in group]
    if not every:
        return []
    calls = call_count(deltas)
    ids = Counter(delta["id"] for delta in every if _is_text(delta.get("id")))
    names = [name for delta in every if _is_text(name := _function(delta).get("name"))]
    indexes = [delta["index"] for delta in every if isinstance(delta.get("index"), int)]
    seen = {
        "no_index": not indexes,
        "index_zero": calls > 1 and bool(indexes) and not any(indexes),
        "no_ids": not ids,
        "repeat_ids": any(count > 1 for count in ids.values()),
        "repeat_names": len(names) > calls,
        "blank_repeats": any(delta.get("id") == "" for delta in every),
        "whole": len(every) == calls and all(_function(delta).get("arguments") for delta in every),
        "together": any(len(group) > 1 for group in deltas),
        "arguments_object": any(isinstance(_function(delta).get("arguments"), dict) for delta in every),
    }
    return [style for style, is_seen in seen.items() if is_seen]


def call_names(deltas: Sequence[Sequence[Delta]]) -> list[str]:
    """The names of the functions that are called, each once."""
    functions = [_function(delta) for group in deltas for delta in group]
    return list(dict.fromkeys(name for f in functions if isinstance(name := f.get("name"), str) and name))


def _function(delta: Delta) -> dict[str, Any]:
    function = delta.get("function")
    return function if isinstance(function, dict) else {}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
