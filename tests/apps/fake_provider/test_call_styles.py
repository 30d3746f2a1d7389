from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.apps.fake_provider.asking import ask, deltas, events
from turnflow.apps.fake_provider import ScriptError, parse_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]

CALLS = [{"id": "c1", "name": "f", "arguments": '{"a": 1}'}, {"id": "c2", "name": "g", "arguments": "{}"}]


def stream_calls(
    start: Start, *styles: str, calls: list[dict[str, Any]] = CALLS
) -> list[list[dict[str, Any]]]:
    script = {"steps": [{"reply": {"tool_calls": calls}, "stream": {"call_style": list(styles)}}]}
    return [delta["tool_calls"] for delta in deltas(events(start(script)))]


def head(index: int | None, id: str | None, name: str, arguments: Any = "") -> dict[str, Any]:  # noqa: A002
    entry: dict[str, Any] = {} if index is None else {"index": index}
    entry |= {} if id is None else {"id": id}
    return entry | {"type": "function", "function": {"name": name, "arguments": arguments}}


def rest(index: int | None, arguments: str, **more: str) -> dict[str, Any]:
    name = {"name": more.pop("name")} if "name" in more else {}
    entry: dict[str, Any] = {} if index is None else {"index": index}
    return entry | more | {"function": {**name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("styles", "expected"),
    [
        (
            (),
            [
                [head(0, "c1", "f")],
                [rest(0, '{"a": ')],
                [rest(0, "1}")],
                [head(1, "c2", "g")],
                [rest(1, "{}")],
            ],
        ),
        (
            ("no_index",),
            [
                [head(None, "c1", "f")],
                [rest(None, '{"a": ')],
                [rest(None, "1}")],
                [head(None, "c2", "g")],
                [rest(None, "{}")],
            ],
        ),
        (
            ("index_zero",),
            [
                [head(0, "c1", "f")],
                [rest(0, '{"a": ')],
                [rest(0, "1}")],
                [head(0, "c2", "g")],
                [rest(0, "{}")],
            ],
        ),
        (
            ("repeat_ids", "repeat_names"),
            [
                [head(0, "c1", "f")],
                [rest(0, '{"a": ', id="c1", name="f")],
                [rest(0, "1}", id="c1", name="f")],
                [head(1, "c2", "g")],
                [rest(1, "{}", id="c2", name="g")],
            ],
        ),
        (
            ("blank_repeats",),
            [
                [head(0, "c1", "f")],
                [rest(0, '{"a": ', id="", name="")],
                [rest(0, "1}", id="", name="")],
                [head(1, "c2", "g")],
                [rest(1, "{}", id="", name="")],
            ],
        ),
        (
            ("no_ids",),
            [
                [head(0, None, "f")],
                [rest(0, '{"a": ')],
                [rest(0, "1}")],
                [head(1, None, "g")],
                [rest(1, "{}")],
            ],
        ),
        (("whole",), [[head(0, "c1", "f", '{"a": 1}')], [head(1, "c2", "g", "{}")]]),
        (("together",), [[head(0, "c1", "f", '{"a": 1}'), head(1, "c2", "g", "{}")]]),
        (
            ("interleaved",),
            [
                [head(0, "c1", "f")],
                [head(1, "c2", "g")],
                [rest(0, '{"a": ')],
                [rest(1, "{}")],
                [rest(0, "1}")],
            ],
        ),
    ],
)
def test_calls_are_streamed_in_each_style(
    fake_provider: Start, styles: tuple[str, ...], expected: list[list[dict[str, Any]]]
) -> None:
    assert stream_calls(fake_provider, *styles) == expected


def test_arguments_can_be_sent_as_an_object(fake_provider: Start) -> None:
    calls = [{"id": "c1", "name": "f", "arguments": {"a": 1}}]
    assert stream_calls(fake_provider, "arguments_object", calls=calls) == [[head(0, "c1", "f", {"a": 1})]]


def test_a_style_applies_to_a_whole_body_too(fake_provider: Start) -> None:
    step = {
        "reply": {"tool_calls": [{"name": "f"}]},
        "stream": {"call_style": ["no_ids", "arguments_object"]},
    }
    message = ask(fake_provider({"steps": [step]})).json()["choices"][0]["message"]
    assert message["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": {}}}]


def test_calls_without_an_id_in_the_script_get_one_of_their_own(fake_provider: Start) -> None:
    step = {"reply": {"tool_calls": [{"name": "f"}, {"name": "g"}]}, "times": 2}
    provider = fake_provider({"steps": [step]})
    replies = [ask(provider).json()["choices"][0]["message"]["tool_calls"] for _ in range(2)]
    assert [call["id"] for calls in replies for call in calls] == [
        "call_1_1",
        "call_1_2",
        "call_2_1",
        "call_2_2",
    ]


@pytest.mark.parametrize(
    ("styles", "complaint"),
    [
        (["no_ids", "repeat_ids"], "'no_ids' excludes"),
        (["arguments_object"], "wants arguments that are an object"),
    ],
)
def test_styles_that_contradict_are_refused(styles: list[str], complaint: str) -> None:
    with pytest.raises(ScriptError, match=complaint):
        parse_script({"steps": [{"reply": {"tool_calls": CALLS}, "stream": {"call_style": styles}}]})
