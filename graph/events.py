"""The events of `stream_mode="custom"`, and the live text of `stream_mode="messages"` (docs/events.md)."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langgraph.graph.message import push_message

from turnflow.graph.logs import log_event

EventType = Literal[
    "turn.started",
    "context.assembled",
    "contribution.failed",
    "round.started",
    "thinking.delta",
    "content.delta",
    "content.retract",
    "label",
    "tool.call",
    "tool.started",
    "tool.progress",
    "tool.result",
    "repair",
    "nudge",
    "degraded",
    "retry",
    "steered",
    "folded",
    "usage",
    "paused",
    "resumed",
    "permission",
    "sources",
    "round.ended",
    "turn.ended",
]

FactType = Literal[
    "model.replied",
    "summariser.replied",
    "decision",
    "judged",
    "messages",
    "session",
    "summary",
    "answer",
    "setup",
    "edited",
    "fork",
]
"""What is on record and no event: the state changes by it (docs/record.md)."""

_TICK = 1e-6
"""Seconds between two events at the least."""

_PASSING = frozenset(
    {"thinking.delta", "content.delta", "content.retract", "label", "usage", "tool.progress"}
)
"""Events that are not facts: what they add up to is stored."""

_STORED_ELSEWHERE = frozenset({"session_id", "seq"})
"""Fields that a fact leaves out: they stand in the record's own columns."""

_TEXTS = {"tool.result": "content", "tool.call": "args", "folded": "text"}
"""The field of an event that a fact leaves out, as another fact has it."""

_sequence = itertools.count(1)
_clock_lock = threading.Lock()
_clock = [0.0]
"""The time that was given out last."""


def _now() -> float:
    """Seconds since the epoch, later than any before: things keep their order if the clock is set back."""
    with _clock_lock:
        _clock[0] = max(time.time(), _clock[0] + _TICK)
        return _clock[0]


class Emitter:
    """Writes a node's events: dicts with `type`, `session_id`, `turn_id`, `round`, `seq` and `time`.

    `seq` counts within the process; `time` is in seconds since the epoch.

    Args:
        write: Where events go.
        turn: The turn they are about.
        facts: Where they are kept for the record (docs/record.md).
        log_arguments: Whether arguments of tool calls are logged.
    """

    def __init__(
        self,
        write: Callable[[Any], None],
        turn: dict[str, Any],
        facts: list[dict[str, Any]],
        *,
        log_arguments: bool = False,
    ) -> None:
        self._write = write
        self._facts = facts
        self._log_arguments = log_arguments
        self.turn = turn

    def emit(self, kind: EventType, /, *, arguments: Any = None, recorded: Any = None, **fields: Any) -> None:
        """Send one event.

        Args:
            kind: Its type.
            arguments: Those of the tool call that it is about, a dict, for the log.
            recorded: Fields of the fact alone, a dict.
            fields: What it tells.
        """
        event = self._event(kind, fields)
        self._write(event)
        self._keep({**event, **(recorded or {})})
        log_event(event, arguments if self._log_arguments else None)

    def record(self, kind: EventType | FactType, /, **fields: Any) -> None:
        """Keep a fact for the record without sending it as an event."""
        event = self._event(kind, fields)
        self._keep(event)
        log_event(event)

    def _event(self, kind: EventType | FactType, fields: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": kind,
            "session_id": self.turn.get("session_id"),
            "turn_id": self.turn.get("id"),
            "round": self.turn.get("round", 0),
            "seq": next(_sequence),
            "time": _now(),
            **fields,
        }

    def _keep(self, event: dict[str, Any]) -> None:
        if event["type"] in _PASSING:
            return
        left_out = {*_STORED_ELSEWHERE, _TEXTS.get(event["type"], "")}
        self._facts.append({key: value for key, value in event.items() if key not in left_out})


class LiveText:
    """The text of one assistant message on its way out, to both streams, coalesced if asked for.

    The first piece goes out at once, later ones in one piece per interval; `flush` stands at each boundary,
    so that the order of events is kept whatever the interval. Blank text at the start waits for the first
    word: a reply that is blank to its end was never shown, as it is never stored.

    Args:
        emitter: Where events go.
        message_id: Id under which the message will be stored.
        interval_ms: The interval in milliseconds; 0 for none.
        has_begun: Whether an earlier part of the same message was shown.
        as_messages: Whether the text goes into `stream_mode="messages"` too, where nothing can be taken back.
    """

    def __init__(
        self,
        emitter: Emitter,
        message_id: str,
        *,
        interval_ms: int = 0,
        has_begun: bool = False,
        as_messages: bool = True,
    ) -> None:
        self._emitter = emitter
        self._as_messages = as_messages
        self._shown: list[str] = []
        self._message_id = message_id
        self._interval = interval_ms / 1000
        self._held: list[str] = []
        self._held_kind: Literal["content.delta", "thinking.delta"] = "content.delta"
        self._last_sent = 0.0
        self._has_begun = has_begun
        self._blank = ""

    def content(self, text: str) -> None:
        """Text of the answer or of a narration."""
        if not self._has_begun:
            self._blank += text
            if not text.strip():
                return
            text, self._has_begun = self._blank, True
        self._shown.append(text)
        self._add("content.delta", text)

    def thinking(self, text: str) -> None:
        """Text of a thought: an event only, never a message."""
        self._add("thinking.delta", text)

    def retract(self, text: str) -> None:
        """Take back text that was shown."""
        if not self._has_begun:
            self._blank = ""
            return
        self.flush()
        self._shown = [self.shown.removesuffix(text)]
        self._emitter.emit("content.retract", text=text, message_id=self._message_id)

    def label(self, label: str) -> None:
        """The label of the reply."""
        self.flush()
        self._emitter.emit("label", label=label, message_id=self._message_id)

    @property
    def shown(self) -> str:
        """The content that went out and was not taken back."""
        return "".join(self._shown)

    @property
    def sent(self) -> str:
        """The same, without what is held yet."""
        held = "".join(self._held) if self._held_kind == "content.delta" else ""
        return self.shown.removesuffix(held)

    def due_in(self) -> float | None:
        """Seconds until held text should go out, or None if nothing is held."""
        if not self._held:
            return None
        return max(0.0, self._last_sent + self._interval - time.monotonic())

    def tick(self) -> None:
        """Send what is held if its time has come."""
        if self.due_in() == 0.0:
            self.flush()

    def flush(self) -> None:
        """Send what is held."""
        if self._held:
            text = "".join(self._held)
            self._held.clear()
            self._send(self._held_kind, text)

    def _add(self, kind: Literal["content.delta", "thinking.delta"], text: str) -> None:
        if self._interval <= 0:
            self._send(kind, text)
            return
        if kind != self._held_kind:
            self.flush()
            self._held_kind = kind
        self._held.append(text)
        if time.monotonic() - self._last_sent >= self._interval:
            self.flush()

    def _send(self, kind: Literal["content.delta", "thinking.delta"], text: str) -> None:
        self._last_sent = time.monotonic()
        self._emitter.emit(kind, text=text, message_id=self._message_id)
        if kind == "content.delta" and self._as_messages:
            push_live_text(self._message_id, text)


def push_live_text(message_id: str | None, text: str) -> None:
    """Send text of a message into `stream_mode="messages"`; it cannot be taken back."""
    push_message(AIMessageChunk(content=text, id=message_id), state_key=None)


def hide_live_message(message_id: str | None) -> None:
    """Keep a stored message that is not for the user out of `stream_mode="messages"`.

    LangGraph sends each message that a node returns and that it has not seen; an empty piece makes it seen.
    """
    push_live_text(message_id, "")


def complete_live_message(message: AIMessage, *, retracted: bool) -> None:
    """Complete a streamed message in `stream_mode="messages"` once it is stored.

    Its tool calls follow as a last chunk, so that front ends can draw them. After a retract the pieces no
    longer add up: the stored message goes out whole and replaces them, being no chunk.
    """
    if retracted:
        push_message(message, state_key=None)
    elif message.tool_calls:
        chunks = [
            tool_call_chunk(
                name=call["name"],
                args=json.dumps(call["args"], ensure_ascii=False),
                id=call["id"],
                index=index,
            )
            for index, call in enumerate(message.tool_calls)
        ]
        push_message(
            AIMessageChunk(content="", id=message.id, tool_call_chunks=chunks, chunk_position="last"),
            state_key=None,
        )
