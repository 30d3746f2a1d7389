"""Server-sent events as they stand on the wire, cut anywhere."""

from __future__ import annotations

import codecs
from typing import NamedTuple

MAX_EVENT_CHARS = 1_000_000
"""Characters of one event; what is longer is no reply to a probe."""


class SseEvent(NamedTuple):
    """One event, or a comment, which routers send to keep a connection open."""

    data: str
    is_comment: bool = False


class SseReader:
    """Reads the events of a body. Bytes that are no UTF-8 become the replacement character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._data: list[str] = []
        self._chars = 0

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes of the body.

        Raises:
            ValueError: An event is longer than `MAX_EVENT_CHARS`.
        """
        text = self._rest + self._decoder.decode(data)
        ends_in_return = text.endswith("\r")  # the line feed that belongs to it may be still to come
        lines = (text[:-1] if ends_in_return else text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop() + ("\r" if ends_in_return else "")
        if len(self._rest) + self._chars > MAX_EVENT_CHARS:
            raise ValueError("an event of the stream does not end")
        return [event for line in lines for event in self._line(line)]

    def close(self) -> list[SseEvent]:
        """End the body: an event without its blank line is given too, as clients do."""
        rest, self._rest = self._rest.rstrip("\r"), ""
        return [*(self._line(rest) if rest else ()), *self._line("")]

    def _line(self, line: str) -> list[SseEvent]:
        if line.startswith(":"):
            return [SseEvent(line[1:].strip(), is_comment=True)]
        if not line:
            data, self._data, self._chars = self._data, [], 0
            return [SseEvent("\n".join(data))] if data else []
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._chars += len(value)
            if self._chars > MAX_EVENT_CHARS:
                raise ValueError("an event of the stream does not end")
        return []
