"""The live text of a reply that was decided: what goes out now, what is taken back (docs/events.md)."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from turnflow.graph.events import Emitter, complete_live_message, hide_live_message, push_live_text
from turnflow.graph.protocol import LabelProtocol, Protocol


class LiveReply:
    """Brings both streams in line with what is stored.

    Args:
        emitter: Where events go.
        step: The reply.
        before: What of an earlier, cut-off part of it went out as events.
        protocol: Under labels, text goes out once it is accepted, or as events that can be taken back.
    """

    def __init__(self, emitter: Emitter, step: dict[str, Any], before: str, protocol: Protocol) -> None:
        self._emitter = emitter
        self._step = step
        self._by_label = isinstance(protocol, LabelProtocol)
        self._shown = before + step["shown"]

    def shows(self, content: str) -> bool:
        """Whether this went out as events already."""
        return bool(content) and self._shown == content

    def wait(self, message: AIMessage) -> None:
        """The message is stored and goes on: what was held is held on."""
        if self._by_label:
            hide_live_message(message.id)
        else:
            complete_live_message(message, retracted=self._step["retracted"])

    def accept(self, message: AIMessage, *, is_shown: bool = True) -> None:
        """The message is stored: what of it did not go out goes out now, if a user should see it."""
        content = str(message.content) if is_shown else ""
        self._bring_to(content)
        if self._by_label:
            if content:
                push_live_text(message.id, content)
            else:
                hide_live_message(message.id)
            if message.tool_calls:
                complete_live_message(message, retracted=False)
        else:
            missing = content.removeprefix(self._shown)
            if missing and content.startswith(self._shown):
                push_live_text(message.id, missing)
            complete_live_message(
                message, retracted=self._step["retracted"] or not content.startswith(self._shown)
            )

    def reject(self) -> None:
        """Nothing is stored: what went out is taken back."""
        self._bring_to("")
        if self._step["retracted"] or (self._shown and not self._by_label):
            # Front ends have shown what was taken back, and nothing is stored that would replace it.
            empty = AIMessage(content="", id=self._step["message_id"])
            complete_live_message(empty, retracted=True)

    def _bring_to(self, content: str) -> None:
        """Send the events that make the shown text the content."""
        message_id = self._step["message_id"]
        if not content.startswith(self._shown):
            self._emitter.emit("content.retract", text=self._shown, message_id=message_id)
            self._emit(content)
        else:
            self._emit(content.removeprefix(self._shown))

    def _emit(self, text: str) -> None:
        if text:
            self._emitter.emit("content.delta", text=text, message_id=self._step["message_id"])
