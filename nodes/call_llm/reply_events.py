"""What a reader tells while a reply arrives, and what it gives at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from turnflow.graph.text_call import TextCall

EventKind = Literal["content", "thinking", "label", "call", "retract"]


class ReplyEvent(TypedDict):
    """One thing that was read, in the order of the reply.

    `content` is text for the user and `retract` takes back the last of it, exactly the `text` it carries;
    `thinking` is not for the answer; `label` and `call` carry a label and a tool's name. A `label` replaces
    an earlier one. Calls are told at the end: until then a closer may turn what came into a thought.
    """

    kind: EventKind
    text: str


class Reply(TypedDict):
    """A whole reply, read."""

    text: str
    """The answer: byte for byte the `content` events without what was retracted."""
    thinking: str
    """All thoughts, one directly after the other: the `thinking` events."""
    label: str | None
    """The label, `UNKNOWN` if there was none; the action of a JSON decision; None without a protocol."""
    calls: list[TextCall]
    """Tool calls that were written as text."""
    raw: str
    """The content channel as it came, tags included."""


class Telling:
    """Collects the events of one call, neighbours of one kind joined, and all text by kind."""

    def __init__(self) -> None:
        self._told: list[tuple[EventKind, list[str]]] = []
        self._content: list[str] = []
        self._thinking: list[str] = []

    @property
    def content(self) -> str:
        """All content that was told and not retracted."""
        return "".join(self._content)

    @property
    def thinking(self) -> str:
        """All thinking that was told."""
        return "".join(self._thinking)

    def tell(self, kind: EventKind, text: str) -> None:
        """Tell something; nothing where there is no text."""
        if not text:
            return
        if kind == "content":
            self._content.append(text)
        elif kind == "thinking":
            self._thinking.append(text)
        if self._told and self._told[-1][0] == kind and kind in {"content", "thinking"}:
            self._told[-1][1].append(text)
        else:
            self._told.append((kind, [text]))

    def retract_all(self) -> None:
        """Take back all content."""
        self.tell("retract", self.content)
        self._content.clear()

    def take(self) -> list[ReplyEvent]:
        """The events since the last time."""
        told, self._told = self._told, []
        return [{"kind": kind, "text": "".join(parts)} for kind, parts in told]
