from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.apps.fake_provider.asking import (
    ask,
    connect,
    deltas,
    events,
    raw_request,
    writes,
)
from turnflow.apps.fake_provider.answers import step_answer
from turnflow.apps.fake_provider.script import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]

HEAD = (
    b'data: {"id":"chatcmpl-fake-1","object":"chat.completion.chunk","created":1700000000,'
    b'"model":"m","choices":'
)


def one(reply: dict[str, Any], **step: Any) -> dict[str, Any]:
    return {"steps": [{"reply": reply, **step}]}


def texts(chunks: list[dict[str, Any]], field: str = "content") -> list[str]:
    return [delta[field] for delta in deltas(chunks) if field in delta]


def test_a_reply_goes_out_in_exactly_these_bytes(fake_provider: Start) -> None:
    provider = fake_provider(one({"content": ["Hé", "llo"]}))
    assert writes(provider) == [
        HEAD + b'[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
        HEAD + '[{"index":0,"delta":{"content":"Hé"},"finish_reason":null}]}\n\n'.encode(),
        HEAD + b'[{"index":0,"delta":{"content":"llo"},"finish_reason":null}]}\n\n',
        HEAD + b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ]


@pytest.mark.parametrize(
    ("chunk", "pieces"),
    [
        (1, ["你", "好", " ", "a", "b"]),
        (2, ["你好", " a", "b"]),
        ("word", ["你好 ", "ab"]),
        ("whole", ["你好 ab"]),
    ],
)
def test_a_text_is_cut_into_pieces(fake_provider: Start, chunk: int | str, pieces: list[str]) -> None:
    provider = fake_provider(one({"content": "你好 ab"}, stream={"chunk": chunk}))
    assert texts(events(provider)) == pieces


def test_writes_of_one_byte_cut_inside_a_character(fake_provider: Start) -> None:
    provider = fake_provider(
        {"steps": [{"reply": {"content": "好"}, "stream": {"write_bytes": n}} for n in (1, 4096)]}
    )
    bytewise, joined = writes(provider), writes(provider)
    assert {len(write) for write in bytewise} == {1}
    assert len(joined) == 1
    assert b"".join(bytewise) == joined[0].replace(b"fake-2", b"fake-1")
    assert "好".encode()[:1] in bytewise


def test_each_write_is_an_http_chunk_on_the_wire(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [{"raw": ["好"], "stream": {"write_bytes": 1}}]})
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += connection.recv(4096)
    assert received.endswith(b"\r\n\r\n1\r\n\xe5\r\n1\r\n\xa5\r\n1\r\n\xbd\r\n0\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200 ")


def test_raw_pieces_go_out_as_they_are(fake_provider: Start) -> None:
    pieces = ["data: {}\r\n\r\n", {"hex": "e5a5"}, ": half a character\n"]
    provider = fake_provider({"steps": [{"raw": pieces}]})
    assert writes(provider) == [b"data: {}\r\n\r\n", b"\xe5\xa5", b": half a character\n"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_has_its_own_field_and_comes_first(fake_provider: Start, field: str) -> None:
    provider = fake_provider(one({field: "let me see", "content": "42"}))
    assert deltas(events(provider)) == [{field: "let "}, {field: "me "}, {field: "see"}, {"content": "42"}]


def test_a_finish_reason_can_be_any_word_or_never_come(fake_provider: Start) -> None:
    reasons = ["length", "content_filter", "max_tokens", None]
    provider = fake_provider({"steps": [{"reply": {"content": "x", "finish_reason": r}} for r in reasons]})
    for reason in reasons:
        sent = [chunk["choices"][0]["finish_reason"] for chunk in events(provider)]
        assert sent == [None, None] + ([reason] if reason else [])


ASKED = {"stream_options": {"include_usage": True}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}


@pytest.mark.parametrize(
    ("usage", "frame", "fields", "comes"),
    [
        (USAGE, "asked", ASKED, True),
        (USAGE, "asked", {}, False),
        (USAGE, "always", {}, True),
        (None, "asked", ASKED, False),
        (None, "with_finish", ASKED, False),
    ],
)
def test_a_usage_frame_comes_when_it_should(
    fake_provider: Start, *, usage: dict[str, int] | None, frame: str, fields: dict[str, Any], comes: bool
) -> None:
    provider = fake_provider(one({"content": "x", "usage": usage}, stream={"usage_frame": frame}))
    last = events(provider, **fields)[-1]
    assert (last["choices"] == [] and last["usage"] == USAGE) is comes
    assert ("usage" in last) is comes


def test_usage_can_come_with_the_finish_reason(fake_provider: Start) -> None:
    provider = fake_provider(one({"content": "x", "usage": USAGE}, stream={"usage_frame": "with_finish"}))
    last = events(provider)[-1]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"] == USAGE


def test_usage_is_counted_when_the_script_gives_none(fake_provider: Start) -> None:
    provider = fake_provider(one({"content": "x" * 40}))
    usage = events(provider, **ASKED)[-1]["usage"]
    assert usage["completion_tokens"] == 10
    assert usage["total_tokens"] == usage["prompt_tokens"] + 10


def test_comments_stand_between_events(fake_provider: Start) -> None:
    provider = fake_provider(one({"content": "x"}, stream={"comments": True}))
    sent = writes(provider)
    assert sent[::2] == [b": keep-alive\n\n"] * 4
    assert sent[-1] == b"data: [DONE]\n\n"


def test_delays_stand_where_the_script_puts_them() -> None:
    step = Step.model_validate(
        {
            "reply": {"content": ["a", "b"]},
            "stream": {"header_delay": 5, "first_delay": 4, "delay": 1, "usage_delay": 3},
        }
    )
    answer = step_answer(step, {"model": "m", "messages": [], "stream": True, **ASKED}, 1)
    assert answer.header_delay == 5
    assert [write.delay for write in answer.writes] == [4, 1, 1, 1, 3, 0]


def test_recut_writes_keep_the_delays_between_events() -> None:
    step = Step.model_validate({"raw": ["abc", "def"], "stream": {"delay": 1, "write_bytes": 2}})
    answer = step_answer(step, {"model": "m", "messages": [], "stream": True}, 1)
    assert [(write.data, write.delay) for write in answer.writes] == [
        (b"ab", 0),
        (b"c", 0),
        (b"de", 1),
        (b"f", 0),
    ]


def test_without_streaming_the_same_reply_is_one_body(fake_provider: Start) -> None:
    call = {"id": "c1", "name": "add", "arguments": {"a": 1}}
    provider = fake_provider(
        one({"content": ["Hé", "llo"], "reasoning": "hm", "tool_calls": [call], "usage": USAGE})
    )
    response = ask(provider)
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "id": "chatcmpl-fake-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Héllo",
                    "reasoning": "hm",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": USAGE,
    }


def test_without_streaming_usage_and_content_can_be_missing(fake_provider: Start) -> None:
    provider = fake_provider(one({"usage": None}))
    body = json.loads(ask(provider).content)
    assert "usage" not in body
    assert body["choices"][0]["message"] == {"role": "assistant", "content": None}
