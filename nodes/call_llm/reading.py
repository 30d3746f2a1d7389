"""Reads the chunks of one reply into a step: text, thoughts, calls, finish reason, usage."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from langchain_core.messages import BaseMessage

from turnflow.graph.decision import is_truncated
from turnflow.graph.outcome import ErrorInfo
from turnflow.graph.step import Step, Stop, slim_step
from turnflow.graph.text import SurrogateJoiner, storable
from turnflow.nodes.call_llm.call_assembly import AssembledCall, CallAssembler, new_ids
from turnflow.nodes.call_llm.chunks import (
    chunk_calls,
    chunk_finish_reason,
    chunk_reasoning,
    chunk_text,
)
from turnflow.nodes.call_llm.reader import ReplyReader
from turnflow.nodes.call_llm.reply_events import ReplyEvent


class Reading:
    """Fed with chunks, gives the events of the live text and, at the end, the step."""

    def __init__(self, reader: ReplyReader, *, taken_ids: Collection[str] = ()) -> None:
        self._reader = reader
        self._assembler = CallAssembler()
        self._taken_ids = taken_ids
        self._text = SurrogateJoiner()
        self._reasoning_text = SurrogateJoiner()
        self._reasoning: list[str] = []
        self._finish_reason = ""
        self._retracted = False
        self._has_begun = False
        self._has_status = False
        self.brought = False
        """Whether the last chunk brought text, a thought or a part of a call."""

    @property
    def has_begun(self) -> bool:
        """Whether anything came."""
        return self._has_begun

    @property
    def finish_reason(self) -> str:
        """Why the model stopped, '' as long as it did not."""
        return self._finish_reason

    @property
    def has_ended(self) -> bool:
        """Whether the model said that its reply is over."""
        return bool(self._finish_reason) or self._has_status

    @property
    def retracted(self) -> bool:
        """Whether text was taken back that was shown."""
        return self._retracted

    def feed(self, chunk: BaseMessage) -> list[ReplyEvent]:
        """Read a chunk."""
        self._has_begun = True
        events: list[ReplyEvent] = []
        said, thought, calls = chunk_text(chunk), chunk_reasoning(chunk), chunk_calls(chunk)
        self.brought = bool(said or thought or calls)
        if reasoning := self._reasoning_text.feed(thought):
            self._reasoning.append(reasoning)
            events += self._reader.feed_thinking(reasoning)
        if text := self._text.feed(said):
            events += self._reader.feed(text)
        self._assembler.feed(calls)
        self._finish_reason = chunk_finish_reason(chunk) or self._finish_reason
        self._has_status = self._has_status or bool(chunk.response_metadata.get("status"))
        return self._seen(events)

    def close(self, *, broken_off: bool = False) -> list[ReplyEvent]:
        """Read the end of the stream.

        Args:
            broken_off: It ended before the reply did, so that what is not complete is none.
        """
        events: list[ReplyEvent] = []
        if thought := self._reasoning_text.close():
            self._reasoning.append(thought)
            events += self._reader.feed_thinking(thought)
        if rest := self._text.close():
            events += self._reader.feed(rest)
        return self._seen(
            events + self._reader.close(cut_off=broken_off or is_truncated(self._finish_reason))
        )

    def step(
        self, message_id: str, *, shown: str = "", stop: Stop = "", error: ErrorInfo | None = None
    ) -> Step:
        """The reply; after `close`. The calls of a reply that ended early were never complete.

        Native calls win over those that were written as text.
        """
        reply = self._reader.reply
        violation, problem = self._reader.violation
        calls = [] if stop else self._assembler.close(self._finish_reason, self._taken_ids)
        written: list[AssembledCall] = []
        if not calls and not stop:
            ids = new_ids(len(reply["calls"]), self._taken_ids)
            written = [{"id": i, **call} for i, call in zip(ids, reply["calls"], strict=True)]
        step = {
            "message_id": message_id,
            "text": reply["text"],
            # A call that broke off is not gone on with.
            "raw": reply["text"] if stop and reply["calls"] else reply["raw"],
            "label": reply["label"],
            "body": self._reader.body,
            "shown": shown,
            "thinking": reply["thinking"],
            "reasoning": "".join(self._reasoning),
            "calls": [_storable_call(call) for call in calls or written],
            "calls_in_text": bool(written),
            "violation": "" if calls else violation,
            "problem": storable(problem),
            "finish_reason": self._finish_reason,
            "retracted": self._retracted,
            "stop": stop,
            "error": error,
        }
        return slim_step(step)

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
