"""The connection of a blocking request, so that another thread can hang up.

A thread that reads from an endpoint which sends signs of life for ever, as comments of a stream, would never
come back by itself.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

_current: ContextVar[Line | None] = ContextVar("turnflow_line", default=None)


class Line:
    """One request's connection, as long as it is read from."""

    def __init__(self) -> None:
        self._socket: Any = None
        self._is_hung_up = False
        self._is_free = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """What is requested within this block, in this thread, goes over this line."""
        before = _current.set(self)
        try:
            yield
        finally:
            self._is_free = True  # the connection may be another request's now
            _current.reset(before)

    def hang_up(self) -> None:
        """Break off what is read; safe to call from any thread, and more than once."""
        self._is_hung_up = True
        if self._socket is not None and not self._is_free:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def answered(self, response: Any) -> None:
        """A response has begun on this line."""
        stream = response.extensions.get("network_stream")
        if stream is None or response.http_version not in {"HTTP/1.0", "HTTP/1.1"}:
            return  # other requests may share the connection
        self._socket = stream.get_extra_info("socket")
        if self._is_hung_up:
            self.hang_up()


def note_response(response: Any) -> None:
    """Tell the line that this thread is on of a response that has begun."""
    if (line := _current.get()) is not None:
        line.answered(response)
