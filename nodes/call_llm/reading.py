"""Reads the chunks of one reply into a step: text, thoughts, calls, finish reason, usage."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from turnflow.graph.outcome import ErrorInfo
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.text import SurrogateJoiner, storable
from turnflow.nodes.call_llm.call_assembly import AssembledCall, CallAssembler
from turnflow.nodes.call_llm.chunks import (
    chunk_calls,
    chunk_finish_reason,
    chunk_reasoning,
    chunk_text,
)
from turnflow.nodes.call_llm.reader import ReplyEvent, ReplyReader

Stop = Literal["", "cancelled", "provider_error", "context_too_long", "content_filter"]


class Step(TypedDict):
    """The last reply, read: the `step` channel between `call_llm` and `classify_label`."""

    message_id: str
    text: str
    raw: str
    thinking: str
    reasoning: str
    """What came through the reasoning field; part of `thinking` too."""
    calls: list[dict[str, Any]]
    finish_reason: str
    retracted: bool
    stop: Stop
    """Why the reply ended early, or ''."""
    error: ErrorInfo | None


class Reading:
    """Fed with chunks, gives the events of the live text and, at the end, the step."""

    def __init__(self, profile: ProviderProfile, *, after: str = "", taken_ids: Collection[str] = ()) -> None:
        self._reader = ReplyReader(profile=profile, after=after)
        self._assembler = CallAssembler()
        self._taken_ids = taken_ids
        self._text = SurrogateJoiner()
        self._reasoning_text = SurrogateJoiner()
        self._reasoning: list[str] = []
        self._finish_reason = ""
        self._retracted = False

    def feed(self, chunk: BaseMessage) -> list[ReplyEvent]:
        """Read a chunk."""
        events: list[ReplyEvent] = []
        if reasoning := self._reasoning_text.feed(chunk_reasoning(chunk)):
            self._reasoning.append(reasoning)
            events += self._reader.feed_thinking(reasoning)
        if text := self._text.feed(chunk_text(chunk)):
            events += self._reader.feed(text)
        self._assembler.feed(chunk_calls(chunk))
        self._finish_reason = chunk_finish_reason(chunk) or self._finish_reason
        return self._seen(events)

    def close(self) -> list[ReplyEvent]:
        """Read the end of the stream."""
        events: list[ReplyEvent] = []
        if thought := self._reasoning_text.close():
            self._reasoning.append(thought)
            events += self._reader.feed_thinking(thought)
        if rest := self._text.close():
            events += self._reader.feed(rest)
        return self._seen(events + self._reader.close())

    def step(self, message_id: str, *, stop: Stop = "", error: ErrorInfo | None = None) -> Step:
        """The reply; after `close`. The calls of a reply that ended early were never complete."""
        reply = self._reader.reply
        calls = [] if stop else self._assembler.close(self._finish_reason, self._taken_ids)
        return {
            "message_id": message_id,
            "text": reply["text"],
            "raw": reply["raw"],
            "thinking": reply["thinking"],
            "reasoning": "".join(self._reasoning),
            "calls": [_storable_call(call) for call in calls],
            "finish_reason": self._finish_reason,
            "retracted": self._retracted,
            "stop": stop,
            "error": error,
        }

    def _seen(self, events: list[ReplyEvent]) -> list[ReplyEvent]:
        for event in events:
            if event["kind"] == "retract":
                self._retracted = True
        return events


def _storable_call(call: AssembledCall) -> dict[str, Any]:
    return {
        **call,
        "id": storable(call["id"]),
        "name": storable(call["name"]),
        "arguments": storable(call["arguments"]),
    }
