"""What an endpoint sent in answer to one request, as it came, and what can be read off it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from turnflow.graph.profile import REASONING_FIELDS

OK = 200
REFUSING = frozenset({400, 404, 405, 413, 415, 422, 501})
"""Statuses that say no to a request's form, where a plainer request is taken."""

SERVER_ERROR = 500
MAX_TOLD = 160
"""Characters of a provider's text that are quoted."""

Ending = Literal["complete", "no_done", "held", "late", "broken", "left"]
"""How a reply ended: in good order; without `[DONE]`; the connection was held open after the finish reason;
time was over; the connection broke; we left, having seen enough."""


class Refusal(NamedTuple):
    """An error that an endpoint sent."""

    status: int
    message: str
    code: str = ""
    param: str = ""


@dataclass(slots=True)
class Reply:
    """One reply. `frames` are the stream's JSON objects, or the one of a body that came whole."""

    status: int = 0
    """The HTTP status; 0 if there was no response."""
    problem: str = ""
    """What kept the reply from coming or from being read."""
    refusal: Refusal | None = None
    frames: list[dict[str, Any]] = field(default_factory=list)
    streamed: bool = False
    comments: int = 0
    ending: Ending = "complete"
    first: float | None = None
    """Seconds until the first text, thought or call."""
    seconds: float = 0.0
    retry_after: float | None = None

    @property
    def deltas(self) -> list[dict[str, Any]]:
        """The deltas of the first choice; a whole message counts as one."""
        return [delta for frame in self.frames if (delta := delta_of(frame)) is not None]

    @property
    def text(self) -> str:
        """The content."""
        return "".join(text for delta in self.deltas if isinstance(text := delta.get("content"), str))

    @property
    def reasoning_field(self) -> str | None:
        """The field beside the content in which thoughts came."""
        names = (name for name in REASONING_FIELDS for delta in self.deltas if _has_text(delta, name))
        return next(names, None)

    @property
    def call_deltas(self) -> list[list[dict[str, Any]]]:
        """The `tool_calls` of each delta that has some."""
        lists = [delta.get("tool_calls") for delta in self.deltas]
        return [
            [c for c in calls if isinstance(c, dict)] for calls in lists if isinstance(calls, list) and calls
        ]

    @property
    def finish_reason(self) -> str:
        """The finish reason, empty if none came."""
        return next((reason for frame in self.frames if (reason := finish_reason_of(frame))), "")

    @property
    def usage_frames(self) -> list[dict[str, Any]]:
        """The frames that have usage."""
        return [frame for frame in self.frames if isinstance(frame.get("usage"), dict)]

    @property
    def unseen_thought(self) -> int:
        """Tokens of thinking that the usage speaks of."""
        counts = [
            details.get("reasoning_tokens")
            for frame in self.usage_frames
            if isinstance(details := frame["usage"].get("completion_tokens_details"), dict)
        ]
        return max((count for count in counts if isinstance(count, int)), default=0)

    @property
    def is_cut_off(self) -> bool:
        """Whether the limit of tokens ended it."""
        return self.finish_reason in {"length", "max_tokens"}

    @property
    def told(self) -> str:
        """Why there is no reply, in one line."""
        if self.refusal is not None:
            return f"{self.refusal.status}: {shortened(self.refusal.message)}"
        return shortened(self.problem) or (f"HTTP {self.status}" if self.status else "no reply")

    def taken(self, words: Collection[str] = ()) -> bool | None:
        """Whether the endpoint took the request, where it takes a plainer one; None if that is not known.

        Args:
            words: A server error that speaks of one of these is a refusal too: some servers have no other
                way to say it.
        """
        if self.refusal is None:
            is_answered = self.status == OK and not self.problem and bool(self.deltas)
            return True if is_answered else None
        if self.refusal.status in REFUSING:
            return False
        message = self.refusal.message.lower()
        if self.refusal.status >= SERVER_ERROR and any(word in message for word in words):
            return False
        return None


def choice_of(frame: dict[str, Any]) -> dict[str, Any] | None:
    """The first choice of a frame."""
    choices = frame.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else None


def delta_of(frame: dict[str, Any]) -> dict[str, Any] | None:
    """The delta of a frame, or its whole message."""
    choice = choice_of(frame) or {}
    delta = choice.get("delta") or choice.get("message")
    return delta if isinstance(delta, dict) else None


def finish_reason_of(frame: dict[str, Any]) -> str:
    """The finish reason in a frame, empty if there is none."""
    reason = (choice_of(frame) or {}).get("finish_reason")
    return reason if isinstance(reason, str) else ""


def has_output(frame: dict[str, Any]) -> bool:
    """Whether a frame has text, a thought or a call."""
    delta = delta_of(frame) or {}
    return bool(delta.get("tool_calls")) or any(_has_text(delta, n) for n in ("content", *REASONING_FIELDS))


def refusal_in(status: int, body: Any) -> Refusal:
    """The error that a body speaks of, in one of the shapes that providers have.

    Args:
        status: The HTTP status. One that an error object brings itself counts instead if the HTTP status says
            that all is well.
        body: The body's JSON, or its text.
    """
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return Refusal(status, str(error or "").strip())
    message = _plain_message(error.get("message") or error.get("detail") or error.get("error") or "")
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        message = f"{message}: {metadata['raw']}"  # a router quotes the provider behind it
    code, own = str(error.get("code") or ""), error.get("status_code") or error.get("code")
    if status == OK:
        is_request = "invalid_request" in str(error.get("type"))
        status = own if isinstance(own, int) else 400 if is_request else SERVER_ERROR
    return Refusal(status, str(message).strip() or str(error), code, str(error.get("param") or ""))


def _plain_message(said: Any) -> str:
    """The text of a message; of one that lists what is wrong as pydantic does, the first thing."""
    if isinstance(said, dict) and "detail" in said:
        said = said["detail"]
    first = said[0] if isinstance(said, list) and said else said
    if isinstance(first, dict) and "msg" in first:
        place = first.get("loc")
        where = ".".join(str(part) for part in place if part != "body") if isinstance(place, list) else ""
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(first)


def shortened(text: str) -> str:
    """A provider's text in one short line."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TOLD else f"{line[: MAX_TOLD - 1]}…"


def _has_text(delta: dict[str, Any], name: str) -> bool:
    return isinstance(delta.get(name), str) and bool(delta[name])
