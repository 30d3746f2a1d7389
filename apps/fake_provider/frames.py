"""A reply as the frames of an event stream, or as one JSON body. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from turnflow.apps.fake_provider.call_deltas import SentCall, call_deltas, whole_call
from turnflow.apps.fake_provider.script import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnflow.apps.fake_provider.script import Fault, HexBytes, Stream

CREATED = 1_700_000_000
"""The creation time of every reply, in seconds: the same bytes on each run."""

_CHARACTERS_A_TOKEN = 4
_COMMENT = b": keep-alive\n\n"
_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream: its bytes, what it is, and how long to wait before it (seconds)."""

    kind: Literal["comment", "role", "piece", "finish", "late", "usage", "done"]
    data: bytes
    delay: float = 0.0


def event(data: dict[str, Any]) -> bytes:
    """An object as a server-sent event. Characters stay as they are, so that bytes can cut them."""
    return b"data: " + _json(data) + b"\n\n"


def cut_text(text: str | list[str] | None, chunk: int | str) -> list[str]:
    """Cut a text into pieces of N characters, words, or the whole; a list is cut already."""
    if isinstance(text, list):
        return text
    if not text:
        return []
    if isinstance(chunk, int):
        return [text[start : start + chunk] for start in range(0, len(text), chunk)]
    return _WORDS.findall(text) if chunk == "word" else [text]


class Writer:
    """Writes the reply to one request, as a stream or whole.

    Args:
        reply: What the model says.
        request: The parsed request: its model is echoed, its `stream_options` are obeyed.
        number: The request's number, counted from 1: the ids are made of it.
    """

    def __init__(self, reply: Reply, request: dict[str, Any], number: int) -> None:
        self._reply = reply
        self._request = request
        self._id = f"chatcmpl-fake-{number}"
        self._calls = [
            SentCall.of(call, f"call_{number}_{position}")
            for position, call in enumerate(reply.tool_calls, 1)
        ]

    def frames(self, stream: Stream) -> list[Frame]:
        """The frames of the reply's event stream, `[DONE]` included."""
        frames = [Frame("role", self.chunk({"role": "assistant", "content": ""}), stream.first_delay)]
        frames += [Frame("piece", self.chunk(delta), stream.delay) for delta in self._deltas(stream)]
        frames += self._ending(stream)
        return list(_with_comments(frames)) if stream.comments else frames

    def body(self, stream: Stream) -> bytes:
        """The reply as one JSON body, for a request that does not stream."""
        message: dict[str, Any] = {"role": "assistant", "content": _joined(self._reply.content)}
        for field in ("reasoning_content", "reasoning"):
            if (text := _joined(getattr(self._reply, field))) is not None:
                message[field] = text
        if self._calls:
            message["tool_calls"] = [whole_call(call, stream.call_style) for call in self._calls]
        choice = {"index": 0, "message": message, "finish_reason": self._reply.sent_finish_reason}
        usage = self._usage()
        return _json(self._envelope("chat.completion", [choice]) | ({"usage": usage} if usage else {}))

    def _deltas(self, stream: Stream) -> Iterator[dict[str, Any]]:
        if self._reply.permission is not None:
            yield {"permission": self._reply.permission}
        for field in ("reasoning_content", "reasoning", "content"):
            for piece in cut_text(getattr(self._reply, field), stream.chunk):
                yield {field: piece}
        for calls in call_deltas(self._calls, stream.call_style, lambda text: cut_text(text, stream.chunk)):
            if calls:
                yield {"tool_calls": calls}

    def _ending(self, stream: Stream) -> Iterator[Frame]:
        usage = self._usage()
        with_finish = usage is not None and stream.usage_frame == "with_finish"
        reason = self._reply.sent_finish_reason
        if reason is not None:
            finish = Frame("finish", self.chunk({}, reason, usage if with_finish else None), stream.delay)
            yield from [finish] * stream.finish_times
        for piece in cut_text(self._reply.late_content, stream.chunk):
            yield Frame("late", self.chunk({"content": piece}), stream.delay)
        if usage is not None and not with_finish and (stream.usage_frame == "always" or self._usage_asked()):
            frame = event(self._envelope("chat.completion.chunk", []) | {"usage": usage})
            yield Frame("usage", frame, stream.usage_delay)
        yield Frame("done", b"data: [DONE]\n\n")

    def chunk(
        self, delta: dict[str, Any], finish_reason: str | None = None, usage: dict[str, Any] | None = None
    ) -> bytes:
        """One event of the reply's stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return event(self._envelope("chat.completion.chunk", [choice]) | ({"usage": usage} if usage else {}))

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": CREATED,
            "model": self._request["model"],
            "choices": choices,
        }

    def _usage_asked(self) -> bool:
        options = self._request.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def _usage(self) -> dict[str, Any] | None:
        if self._reply.usage != "auto":
            return self._reply.usage
        reply = self._reply
        said = [_joined(text) or "" for text in (reply.content, reply.reasoning_content, reply.reasoning)]
        said += [call.name + call.arguments for call in self._calls]
        prompt = _tokens(_json(self._request["messages"]).decode())
        completion = _tokens("".join(said))
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }


def trickled(fault: Fault, request: dict[str, Any], number: int) -> bytes:
    """One of the events that a `trickle` sends for ever."""
    if fault.of == "comments":
        return _COMMENT
    deltas: dict[str, dict[str, Any]] = {
        "empty_deltas": {"content": ""},
        "thinking": {"reasoning_content": "hm "},
        "text": {"content": "on and "},
    }
    return Writer(Reply(), request, number).chunk(deltas[fault.of])


def raw_frames(pieces: list[str | HexBytes], stream: Stream) -> list[Frame]:
    """Pieces given byte by byte as frames, none added."""
    return [
        Frame(
            "piece",
            piece.encode() if isinstance(piece, str) else bytes.fromhex(piece.hex),
            stream.delay if position else stream.first_delay,
        )
        for position, piece in enumerate(pieces)
    ]


def _with_comments(frames: list[Frame]) -> Iterator[Frame]:
    for frame in frames:
        yield Frame("comment", _COMMENT)
        yield frame


def _joined(text: str | list[str] | None) -> str | None:
    return "".join(text) if isinstance(text, list) else text


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_A_TOKEN)


def _json(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
