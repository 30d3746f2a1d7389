"""Raw requests to an endpoint: what it really sends is the point, not what a client makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from turnflow.apps.doctor.reply import OK, Ending, Reply, choice_of, finish_reason_of, has_output, refusal_in
from turnflow.apps.doctor.sse import SseReader
from turnflow.graph.text import without_credentials

AT_ONCE = 3
"""Requests at the same time, while the endpoint bears it."""
FIRST_SECONDS = 30.0
"""The first request may take so long: a model may have to be loaded for it."""
REQUEST_SECONDS = 15.0
"""The later ones."""
THINKING_SECONDS = 25.0
"""The same where the model thinks first."""
AFTER_FINISH_SECONDS = 1.5
"""How long the stream may go on after the finish reason."""
MAX_BODY_BYTES = 2_000_000
"""Bytes of an answer that are read."""
SLOW_SECONDS = 4.0
"""An endpoint whose first reply takes longer is asked one thing at a time, and given more time for it."""
THINKING_TOKENS = 2048
"""Tokens for a model that thinks first."""

_TOO_MANY = 429
_SERVER_ERROR = 500
_LONGEST_PAUSE = 5.0
_SHORTEST_PAUSE = 0.3


class OutOfTimeError(Exception):
    """The time of the whole examination is over."""


@dataclass(slots=True)
class Ways:
    """How this endpoint is spoken to, as learned by the first requests."""

    streams: bool = True
    limit_parameter: str | None = "max_tokens"
    thinks: bool = False
    seconds: float = FIRST_SECONDS
    """How long a request may take."""
    call_id: str = "call_turnflow_0001"
    """The id that the probes send of a call."""
    call_fields: dict[str, Any] = field(default_factory=dict)
    """What a message with calls needs besides."""


class Endpoint:
    """An endpoint under examination.

    Args:
        client: The HTTP client; it brings the key.
        base_url: The API's address, without a slash at its end.
        model: The model's name.
        deadline: When the examination ends, by `time.monotonic`.
    """

    def __init__(self, client: httpx.AsyncClient, base_url: str, model: str, deadline: float) -> None:
        self.base_url = base_url
        self.model = model
        self.ways = Ways()
        self.listed: Any = None
        """What `/models` answered, None if it did not."""
        self.kept: dict[str, Reply] = {}
        """Replies that a later probe reads again, by the name of the probe that asked."""
        self._client = client
        self._deadline = deadline
        self._under_way = 0
        self._gate = asyncio.Condition()
        self.one_at_a_time = False
        """Whether it bears no more than one request at a time."""

    @property
    def address(self) -> str:
        """Where it is, for people: no name or password stands in it."""
        return without_credentials(self.base_url)

    @property
    def root(self) -> str:
        """The server's own address, where the API is one of several."""
        return self.base_url.removesuffix("/v1")

    def left(self) -> float:
        """Seconds that are left."""
        return self._deadline - time.monotonic()

    async def fetch(self, url: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Read a page of the server: with a body by POST.

        Returns:
            The status, and the JSON or the text.

        Raises:
            httpx.HTTPError: There was no response, or one that is too long.
            OutOfTimeError: There is no time left.
        """
        method = "GET" if body is None else "POST"
        async with self._turn() as seconds:
            try:
                async with (
                    asyncio.timeout(seconds),
                    self._client.stream(method, url, json=body, timeout=seconds) as response,
                ):
                    return response.status_code, _json_or_text(await _body_of(response))
            except TimeoutError as error:
                raise httpx.ReadTimeout(f"no end within {seconds:.0f} s") from error

    async def ask(self, body: dict[str, Any], *, whole: bool) -> Reply:
        """Ask for a completion; once more if the endpoint was busy, broken or too slow for several at once.

        Args:
            body: The request.
            whole: Read the reply to its end; else leave at its first words.

        Raises:
            OutOfTimeError: There is no time left.
        """
        were_several = not self.one_at_a_time
        reply = await self._ask_once(body, whole=whole)
        status = reply.refusal.status if reply.refusal is not None else reply.status
        is_late = reply.ending == "late" and were_several
        if is_late:
            self.ways.seconds = max(self.ways.seconds, FIRST_SECONDS)
        if is_late or status == _TOO_MANY:
            self.one_at_a_time = True
        fails = is_late or reply.ending == "broken" or status == _TOO_MANY or status >= _SERVER_ERROR
        pause = _SHORTEST_PAUSE if reply.retry_after is None else reply.retry_after
        if fails and pause < min(_LONGEST_PAUSE, self.left()):
            await asyncio.sleep(pause)
            reply = await self._ask_once(body, whole=whole)
        return reply

    async def _ask_once(self, body: dict[str, Any], *, whole: bool) -> Reply:
        async with self._turn() as seconds:
            begun = time.monotonic()
            reply = Reply()
            try:
                async with asyncio.timeout(seconds):
                    url = f"{self.base_url}/chat/completions"
                    async with self._client.stream("POST", url, json=body, timeout=seconds) as response:
                        await _read(response, reply, begun, whole=whole)
            except (TimeoutError, httpx.TimeoutException):
                reply.ending, reply.problem = "late", f"no end within {seconds:.0f} s"
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                reply.ending, reply.problem = "broken", str(error) or type(error).__name__
            reply.seconds = time.monotonic() - begun
            return reply

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[float]:
        async with self._gate:
            await self._gate.wait_for(lambda: self._under_way < (1 if self.one_at_a_time else AT_ONCE))
            self._under_way += 1
        try:
            seconds = min(self.ways.seconds, self.left())
            if seconds <= 0:
                raise OutOfTimeError
            yield seconds
        finally:
            async with self._gate:
                self._under_way -= 1
                self._gate.notify_all()


async def _read(response: httpx.Response, reply: Reply, begun: float, *, whole: bool) -> None:
    reply.status = response.status_code
    with contextlib.suppress(ValueError):
        pause = float(response.headers.get("retry-after", ""))
        reply.retry_after = pause if math.isfinite(pause) and pause >= 0 else None
    reply.streamed = response.headers.get("content-type", "").startswith("text/event-stream")
    if reply.status == OK and reply.streamed:
        await _read_stream(response, reply, begun, whole=whole)
        return
    data = _json_or_text(await _body_of(response))
    if reply.status != OK or (isinstance(data, dict) and "error" in data and "choices" not in data):
        reply.refusal = refusal_in(reply.status, data)
    elif isinstance(data, dict) and "choices" in data:
        reply.frames = [data]
        reply.first = time.monotonic() - begun
    else:
        reply.problem = "the answer is no chat completion"


async def _body_of(response: httpx.Response) -> bytes:
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) > MAX_BODY_BYTES:
            raise httpx.ReadError("the answer is too long")
    return bytes(body)


def _json_or_text(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


async def _read_stream(response: httpx.Response, reply: Reply, begun: float, *, whole: bool) -> None:
    stream, pieces = _Stream(reply, begun, whole=whole), response.aiter_bytes()
    while not stream.is_over:
        try:
            async with asyncio.timeout(stream.wait()):
                data = await anext(pieces, None)
        except TimeoutError:
            if not reply.finish_reason:
                raise
            reply.ending = "held"
            return
        stream.take(data)


class _Stream:
    """Takes the bytes of an event stream into a reply.

    Args:
        reply: The reply.
        begun: When the request was sent.
        whole: Read it to its end; else it is over at its first words.
    """

    def __init__(self, reply: Reply, begun: float, *, whole: bool) -> None:
        self.is_over = False
        self._reply = reply
        self._begun = begun
        self._whole = whole
        self._reader = SseReader()
        self._length = 0
        self._finished_at: float | None = None

    def wait(self) -> float | None:
        """Seconds until the next bytes, at most; None: as long as the request may take."""
        if self._finished_at is None:
            return None
        return self._finished_at + AFTER_FINISH_SECONDS - time.monotonic()

    def take(self, data: bytes | None) -> None:
        """Take the next bytes, or the end of the body.

        Raises:
            ValueError: The stream is too long.
        """
        self._length += len(data or b"")
        if self._length > MAX_BODY_BYTES:
            raise ValueError("the answer is too long")
        if data is None:
            self._end("no_done")
        for event in self._reader.close() if data is None else self._reader.feed(data):
            if event.is_comment:
                self._reply.comments += 1
            elif event.data == "[DONE]":
                self._end("complete")
                return
            else:
                self._take_frame(event.data)
        if not self._whole and self._reply.first is not None:
            self._end("left")

    def _end(self, ending: Ending) -> None:
        self._reply.ending = ending
        self.is_over = True

    def _take_frame(self, data: str) -> None:
        reply = self._reply
        try:
            frame = json.loads(data)
        except (ValueError, RecursionError):
            reply.problem = f"a frame of the stream is no JSON: {data}"
            return
        if not isinstance(frame, dict):
            return
        if "error" in frame and choice_of(frame) is None:
            reply.refusal = refusal_in(OK, frame)
            self.is_over = True
            return
        reply.frames.append(frame)
        if reply.first is None and has_output(frame):
            reply.first = time.monotonic() - self._begun
        if self._finished_at is None and finish_reason_of(frame):
            self._finished_at = time.monotonic()
