"""How calls are streamed: the fake provider's styles are told apart by what comes over the wire."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from turnflow.apps.doctor.call_style import call_count, call_names, call_styles
from turnflow.apps.fake_provider.call_deltas import SentCall, call_deltas
from turnflow.apps.fake_provider.script import Call, CallStyle

CALLS = [
    SentCall.of(Call(name="add", arguments={"a": 17, "b": 25}), "c1"),
    SentCall.of(Call(name="add", arguments={"a": 40, "b": 2}), "c2"),
]
SHOWN: dict[str, list[str]] = {
    "repeat_names": ["repeat_names"],
    "blank_repeats": ["blank_repeats"],
    "together": ["whole", "together"],
    "interleaved": [],
    "arguments_object": ["whole", "arguments_object"],
}


def sent(*styles: CallStyle, calls: list[SentCall] = CALLS) -> list[list[dict[str, Any]]]:
    return call_deltas(calls, styles, lambda text: [text[:4], text[4:]])


def test_the_usual_way_has_no_style() -> None:
    assert call_styles(sent()) == []
    assert call_count(sent()) == 2
    assert call_names(sent()) == ["add"]


@pytest.mark.parametrize("style", get_args(CallStyle))
def test_each_style_is_seen(style: CallStyle) -> None:
    assert call_styles(sent(style)) == SHOWN.get(style, [style])
    assert call_count(sent(style)) == 2


def test_one_call_at_index_zero_is_no_style() -> None:
    assert call_styles(sent("index_zero", calls=CALLS[:1])) == []


def test_nothing_and_nonsense() -> None:
    assert call_styles([]) == []
    assert call_count([[{"function": "add", "id": 3, "index": "0"}]]) == 0
    assert call_styles([[{"function": None}]]) == ["no_index", "no_ids"]
