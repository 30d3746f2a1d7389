"""What the server sends for one request, as a plan: headers, writes, and how the connection ends. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from turnflow.apps.fake_provider.faults import break_body, break_stream
from turnflow.apps.fake_provider.frames import Frame, Writer, event, raw_frames, trickled

if TYPE_CHECKING:
    from turnflow.apps.fake_provider.faults import Ending
    from turnflow.apps.fake_provider.script import Fault, HttpError, Step

_SERVER_ERRORS = 500
_TYPE_BY_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that go out in one HTTP chunk, after a delay in seconds."""

    data: bytes
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP response and how it ends."""

    status: int
    headers: dict[str, str]
    writes: list[Write] = field(default_factory=list)
    ending: Ending = "complete"
    trickle: Write | None = None
    """What comes again and again, each time after its delay, with the ending `trickle`."""
    sends_headers: bool = True
    header_delay: float = 0.0


def error_answer(
    status: int,
    message: str,
    *,
    type: str | None = None,  # noqa: A002 - the name in OpenAI's error object
    code: str | None = None,
    param: str | None = None,
) -> Answer:
    """A JSON response with OpenAI's error object; the type defaults to the usual one of the status."""
    kind = type or _TYPE_BY_STATUS.get(
        status, "server_error" if status >= _SERVER_ERRORS else "invalid_request_error"
    )
    return json_answer(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def json_answer(status: int, data: object) -> Answer:
    """A JSON response."""
    return _whole(status, "application/json", json.dumps(data, ensure_ascii=False).encode())


def text_answer(status: int, text: str) -> Answer:
    """A response of plain text."""
    return _whole(status, "text/plain; charset=utf-8", text.encode())


def event_answer(data: dict[str, Any]) -> Answer:
    """An event stream of one event, without `[DONE]`."""
    return Answer(200, _EVENT_STREAM, [Write(event(data))])


def step_answer(step: Step, request: dict[str, Any], number: int) -> Answer:
    """The response that a step gives to a request.

    Args:
        step: The step.
        request: The parsed request.
        number: The request's number, counted from 1.
    """
    if step.error is not None:
        return _scripted_error(step.error, step.stream.header_delay)
    writer = Writer(step.reply, request, number) if step.reply is not None else None
    if writer is not None and request.get("stream") is not True:
        return _body_answer(step, writer.body(step.stream))
    frames = writer.frames(step.stream) if writer is not None else raw_frames(step.raw or [], step.stream)
    frames, ending = break_stream(frames, step.fault)
    return Answer(
        status=200,
        headers=_EVENT_STREAM | _lowered(step.stream.headers),
        writes=_writes(frames, step.stream.write_bytes),
        ending=ending,
        trickle=_trickle(step.fault, request, number),
        sends_headers=not _before_headers(step.fault),
        header_delay=step.stream.header_delay,
    )


def _body_answer(step: Step, body: bytes) -> Answer:
    sent, ending = break_body(body, step.fault)
    # A connection that breaks had promised the whole body; one cut cleanly had not.
    promised = len(sent) if ending == "complete" else len(body)
    # A body that never ends promises no length, and what comes again and again is a blank line before it.
    length = {} if ending == "trickle" else {"content-length": str(promised)}
    return Answer(
        status=200,
        headers={"content-type": "application/json"} | _lowered(step.stream.headers) | length,
        writes=[Write(sent, step.stream.first_delay)] if sent else [],
        ending=ending,
        trickle=Write(b"\n", step.fault.every) if step.fault is not None else None,
        sends_headers=not _before_headers(step.fault),
        header_delay=step.stream.header_delay,
    )


def _scripted_error(error: HttpError, header_delay: float) -> Answer:
    if error.html is not None:
        content_type, body = "text/html; charset=utf-8", error.html.encode()
    elif error.text is not None:
        content_type, body = "text/plain; charset=utf-8", error.text.encode()
    elif error.body is not None:
        content_type, body = "application/json", json.dumps(error.body, ensure_ascii=False).encode()
    else:
        message = error.message or HTTPStatus(error.status).phrase
        plain = error_answer(error.status, message, type=error.type, code=error.code, param=error.param)
        content_type, body = "application/json", plain.writes[0].data
    return _whole(error.status, content_type, body, error.headers, header_delay)


def _whole(
    status: int,
    content_type: str,
    body: bytes,
    headers: dict[str, str] | None = None,
    header_delay: float = 0.0,
) -> Answer:
    length = {"content-length": str(len(body))}
    all_headers = {"content-type": content_type} | _lowered(headers or {}) | length
    return Answer(status, all_headers, [Write(body)], header_delay=header_delay)


def _lowered(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _trickle(fault: Fault | None, request: dict[str, Any], number: int) -> Write | None:
    if fault is None or fault.kind != "trickle":
        return None
    return Write(trickled(fault, request, number), fault.every)


def _before_headers(fault: Fault | None) -> bool:
    return fault is not None and fault.after == "request"


def _writes(frames: list[Frame], write_bytes: int | None) -> list[Write]:
    if write_bytes is None:
        return [Write(frame.data, frame.delay) for frame in frames]
    writes = []
    for run in _undelayed_runs(frames):
        data = b"".join(frame.data for frame in run)
        pieces = [data[start : start + write_bytes] for start in range(0, len(data), write_bytes)]
        writes += [Write(piece, 0.0 if at else run[0].delay) for at, piece in enumerate(pieces)]
    return writes


def _undelayed_runs(frames: list[Frame]) -> list[list[Frame]]:
    """Frames grouped so that a wait stands only before the first of a group."""
    runs: list[list[Frame]] = []
    for frame in frames:
        if frame.delay or not runs:
            runs.append([])
        runs[-1].append(frame)
    return runs
