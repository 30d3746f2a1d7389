from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.apps.fake_provider.asking import (
    ask,
    connect,
    deltas,
    parsed,
    raw_request,
    read_until_broken,
    receive_all,
)
from turnflow.apps.fake_provider import ScriptError, parse_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]

REPLY = {"content": ["a", "b", "c"]}
DONE = b"data: [DONE]\n\n"


def broken(**fault: Any) -> dict[str, Any]:
    return {"steps": [{"reply": REPLY, "fault": fault}]}


def said(chunks: list[bytes]) -> str:
    return "".join(delta["content"] for delta in deltas(parsed(b"".join(chunks))))


@pytest.mark.parametrize(
    ("after", "text", "events"),
    [("headers", "", 0), (0, "", 1), (2, "ab", 3), (9, "abc", 4), ("finish", "abc", 5), ("end", "abc", 5)],
)
def test_a_truncated_stream_ends_cleanly_without_done(
    fake_provider: Start, after: int | str, text: str, events: int
) -> None:
    chunks, error = read_until_broken(fake_provider(broken(kind="truncate", after=after)))
    assert error is None
    assert (said(chunks), len(chunks)) == (text, events)
    assert DONE not in chunks


def test_a_stream_can_be_cut_at_any_byte(fake_provider: Start) -> None:
    provider = fake_provider(
        {
            "steps": [
                {"reply": REPLY},
                {"reply": REPLY, "fault": {"kind": "truncate", "after_bytes": 200}},
                {"reply": REPLY, "fault": {"kind": "truncate", "after_bytes": 0}},
            ]
        }
    )
    whole, cut, nothing = (b"".join(read_until_broken(provider)[0]) for _ in range(3))
    assert cut == whole.replace(b"fake-1", b"fake-2")[:200]
    assert nothing == b""


def test_finish_is_after_the_last_piece_if_no_finish_reason_is_sent(fake_provider: Start) -> None:
    step = {"reply": REPLY | {"finish_reason": None}, "fault": {"kind": "truncate", "after": "finish"}}
    assert said(read_until_broken(fake_provider({"steps": [step]}))[0]) == "abc"


def test_a_closed_connection_breaks_the_response(fake_provider: Start) -> None:
    chunks, error = read_until_broken(fake_provider(broken(kind="close", after=1)))
    assert said(chunks) == "a"
    assert isinstance(error, httpx.RemoteProtocolError)


def test_a_reset_is_a_real_one_and_what_was_sent_before_arrives(fake_provider: Start) -> None:
    provider = fake_provider(broken(kind="reset", after=2))
    received = bytearray()
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        with pytest.raises(ConnectionResetError):
            receive_all(connection, into=received)
    assert b'"content":"b"' in received
    assert b'"content":"c"' not in received


def test_a_client_sees_a_reset_in_the_middle(fake_provider: Start) -> None:
    chunks, error = read_until_broken(fake_provider(broken(kind="reset", after=2)))
    assert said(chunks) == "ab"
    assert isinstance(error, httpx.ReadError)


def test_a_connection_can_break_before_any_header(fake_provider: Start) -> None:
    provider = fake_provider(
        {
            "steps": [
                {"reply": REPLY, "fault": {"kind": "reset", "after": "request"}},
                {"reply": REPLY, "fault": {"kind": "close", "after": "request"}},
            ]
        }
    )
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        with pytest.raises(ConnectionResetError):
            receive_all(connection)
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        assert receive_all(connection) == b""


@pytest.mark.parametrize(("after", "seen"), [("request", b""), (1, b'"content":"a"')])
def test_a_hanging_connection_is_held_until_the_server_stops(
    fake_provider: Start, after: int | str, seen: bytes
) -> None:
    provider = fake_provider(broken(kind="hang", after=after))
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        provider.wait_for_requests(1)
        received = b""
        while seen not in received:
            received += connection.recv(65_536)
        connection.settimeout(0.02)
        with pytest.raises(TimeoutError):
            connection.recv(65_536)
        provider.stop()
        connection.settimeout(5)
        assert receive_all(connection) == b""


def test_a_client_may_leave_a_hanging_connection(fake_provider: Start) -> None:
    provider = fake_provider(
        {
            "steps": [
                {"reply": REPLY, "fault": {"kind": "hang", "after": "headers"}},
                {"reply": {"content": "still here"}},
            ]
        }
    )
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    assert ask(provider).json()["choices"][0]["message"]["content"] == "still here"


def test_an_error_object_can_come_inside_a_stream(fake_provider: Start) -> None:
    own = {"message": "overloaded", "code": 529}
    provider = fake_provider(
        {
            "steps": [
                {"reply": REPLY, "fault": {"kind": "error", "after": 1}},
                {"reply": REPLY, "fault": {"kind": "error", "after": "headers", "error": own}},
            ]
        }
    )
    usual = parsed(b"".join(read_until_broken(provider)[0]))
    assert usual[-1]["error"]["type"] == "server_error"
    assert len(usual) == 3
    assert parsed(b"".join(read_until_broken(provider)[0])) == [{"error": own}]


def test_a_malformed_event_stands_between_good_ones(fake_provider: Start) -> None:
    chunks, _ = read_until_broken(fake_provider(broken(kind="malformed", after=1)))
    text = chunks[2].removeprefix(b"data: ")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert said(chunks[:2] + chunks[3:]) == "abc"
    assert chunks[-1] == DONE


def test_a_whole_body_breaks_too(fake_provider: Start) -> None:
    faults: list[dict[str, Any]] = [
        {"kind": "truncate", "after_bytes": 10},
        {"kind": "malformed", "after": 0},
        {"kind": "error", "after": 0},
    ]
    provider = fake_provider({"steps": [{"reply": REPLY, "fault": fault} for fault in faults]})
    assert ask(provider).content == b'{"id":"cha'
    with pytest.raises(json.JSONDecodeError):
        ask(provider).json()
    assert ask(provider).json()["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "close", "after": "headers"}, httpx.RemoteProtocolError),
        ({"kind": "close", "after": 0}, httpx.RemoteProtocolError),
        ({"kind": "reset", "after": 0}, httpx.ReadError),
    ],
)
def test_a_connection_breaks_in_a_whole_body(
    fake_provider: Start, fault: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(fake_provider(broken(**fault)))


def test_errors_have_openai_bodies_and_the_headers_given(fake_provider: Start) -> None:
    error = {
        "status": 429,
        "message": "slow down",
        "code": "rate_limit_exceeded",
        "headers": {"Retry-After": "1"},
    }
    response = ask(fake_provider({"steps": [{"error": error}]}))
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    assert response.json() == {
        "error": {
            "message": "slow down",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    }


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (401, "authentication_error"), (503, "server_error")]
)
def test_an_error_with_nothing_but_a_status_says_the_usual(
    fake_provider: Start, status: int, kind: str
) -> None:
    error = ask(fake_provider({"steps": [{"error": {"status": status}}]})).json()["error"]
    assert error["type"] == kind
    assert error["message"]


@pytest.mark.parametrize(
    ("body", "content_type", "sent"),
    [
        ({"html": "<h1>Bad Gateway</h1>"}, "text/html; charset=utf-8", b"<h1>Bad Gateway</h1>"),
        ({"text": "überlastet"}, "text/plain; charset=utf-8", "überlastet".encode()),
        ({"body": {"detail": "no"}}, "application/json", b'{"detail": "no"}'),
    ],
)
def test_errors_have_bodies_of_other_kinds(
    fake_provider: Start, body: dict[str, Any], content_type: str, sent: bytes
) -> None:
    response = ask(fake_provider({"steps": [{"error": {"status": 200, **body}}]}), stream=True)
    assert response.status_code == 200
    assert response.headers["content-type"] == content_type
    assert response.content == sent


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"kind": "reset"}, "exactly one of 'after' and 'after_bytes'"),
        ({"kind": "reset", "after": 1, "after_bytes": 1}, "exactly one of"),
        ({"kind": "error", "after_bytes": 1}, "does not go with kind 'error'"),
        ({"kind": "truncate", "after": "request"}, "close, reset and hang only"),
        ({"kind": "reset", "after": 1, "error": {}}, "goes with kind 'error' only"),
        ({"kind": "hang", "after": 1, "every": 1}, "go with kind 'trickle' only"),
        ({"kind": "trickle", "after": 1, "every": 0}, "step 1: fault.every"),
        ({"kind": "trickle", "after": 1, "of": "water"}, "step 1: fault.of"),
        ({"kind": "reset", "after": "lunch"}, "step 1: fault.after"),
    ],
)
def test_faults_that_make_no_sense_are_refused(fault: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScriptError, match=complaint):
        parse_script(broken(**fault))


def test_a_connection_can_be_held_behind_the_finish_reason_or_done(fake_provider: Start) -> None:
    provider = fake_provider(
        {
            "steps": [
                {"reply": REPLY, "fault": {"kind": "hang", "after": "finish"}},
                {"reply": REPLY, "fault": {"kind": "hang", "after": "done"}},
            ]
        }
    )
    for last in (b'"finish_reason":"stop"}]}\n\n', DONE):
        with connect(provider) as connection:
            connection.sendall(raw_request(stream=True))
            received = b""
            while last not in received:
                received += connection.recv(65_536)
            connection.settimeout(0.02)
            with pytest.raises(TimeoutError):
                connection.recv(65_536)


@pytest.mark.parametrize(
    ("of", "sent"),
    [
        ("comments", b": keep-alive\n\n"),
        ("empty_deltas", b'"delta":{"content":""},"finish_reason":null'),
        ("thinking", b'"delta":{"reasoning_content":"hm "}'),
        ("text", b'"delta":{"content":"on and "}'),
    ],
)
def test_something_can_trickle_for_ever(fake_provider: Start, of: str, sent: bytes) -> None:
    step = {"reply": REPLY, "fault": {"kind": "trickle", "after": 1, "of": of, "every": 0.001}}
    provider = fake_provider({"steps": [step, {"reply": {"content": "still here"}}]})
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        received = b""
        while received.partition(b'"content":"a"')[2].count(sent) < 5:
            received += connection.recv(65_536)
    assert b'"content":"b"' not in received
    assert DONE not in received
    assert ask(provider).json()["choices"][0]["message"]["content"] == "still here"


def test_a_stream_can_trickle_before_its_first_event_and_until_the_server_stops(fake_provider: Start) -> None:
    provider = fake_provider(broken(kind="trickle", after="headers", every=0.001))
    with connect(provider) as connection:
        connection.sendall(raw_request(stream=True))
        received = b""
        while received.count(b": keep-alive") < 3:
            received += connection.recv(65_536)
        provider.stop()
    assert b"data:" not in received


def test_of_a_whole_body_blank_lines_trickle(fake_provider: Start) -> None:
    provider = fake_provider(broken(kind="trickle", after=0, every=0.001))
    with connect(provider) as connection:
        connection.sendall(raw_request())
        received = b""
        while received.count(b"1\r\n\n\r\n") < 3:
            received += connection.recv(65_536)
    assert b"{" not in received


def test_a_finish_reason_can_come_twice_and_content_behind_it(fake_provider: Start) -> None:
    step = {
        "reply": {"content": "a", "late_content": ["b", "c"]},
        "stream": {"finish_times": 2},
    }
    chunks = parsed(b"".join(read_until_broken(fake_provider({"steps": [step]}))[0]))
    sent = [chunk["choices"][0]["finish_reason"] or chunk["choices"][0]["delta"] for chunk in chunks[1:]]
    assert sent == [{"content": "a"}, "stop", "stop", {"content": "b"}, {"content": "c"}]


@pytest.mark.parametrize("reply", [{"finish_reason": None}, {"content": [], "finish_reason": None}])
def test_a_stream_can_hold_nothing_but_the_role(fake_provider: Start, reply: dict[str, Any]) -> None:
    chunks, error = read_until_broken(fake_provider({"steps": [{"reply": reply}]}))
    assert error is None
    assert len(chunks) == 2
    assert parsed(chunks[0])[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[1] == DONE


def test_a_body_can_be_garbage_for_what_its_headers_say(fake_provider: Start) -> None:
    step = {"reply": REPLY, "stream": {"headers": {"Content-Encoding": "gzip"}}}
    provider = fake_provider({"steps": [step, step]})
    with pytest.raises(httpx.DecodingError):
        ask(provider, stream=True)
    with pytest.raises(httpx.DecodingError):
        ask(provider)


def test_a_json_error_can_answer_a_request_for_a_stream_with_status_200(fake_provider: Start) -> None:
    error = {"status": 200, "body": {"error": {"message": "overloaded"}}}
    response = ask(fake_provider({"steps": [{"error": error}]}), stream=True)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == error["body"]
