"""The manifest: why a request looks as it does (docs/context.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

Reason = Literal[
    "current",
    "protected",
    "recent",
    "pinned",
    "stubbed",
    "shortened",
    "summarised",
    "folded",
    "out_of_budget",
    "outside_window",
    "empty",
]

SHOWN = frozenset({"current", "protected", "recent", "pinned", "stubbed", "shortened"})
"""Reasons of messages that are in the request; all others are left out of it."""


class Range(TypedDict):
    """Neighbours in the transcript that share a reason."""

    reason: Reason
    first_id: str
    last_id: str
    count: int
    tokens: int
    """As they are sent; of those that are left out, what they would take."""


class RecalledShown(TypedDict):
    """A turn that a memory brought back and that is shown."""

    key: str
    tokens: int


class ContributionShown(TypedDict):
    """What became of a contribution."""

    name: str
    tokens: int
    """What it takes as it is shown; 0 where it is left out."""
    shown: Literal["whole", "cut", "left_out"]


class Manifest(TypedDict):
    """Why the request looks as it does. JSON, and no longer for a longer conversation."""

    fits: bool
    """Whether request and reply have room in the window."""
    window: int | None
    usable: int | None
    """The window without the safety margin."""
    max_output: int | None
    """The limit of output tokens to send; None: send none."""
    fill: float
    """What all that was to be shown takes, recalled turns and contributions not counted, as a part of what is
    free for it; over 1, some is left out."""
    tokens: int
    """What the request takes, tools included."""
    segments: dict[str, int]
    """The same by parts: `system`, `tools`, `summary`, `history`, `recalled`, `contributions`, `directives`,
    and `turn`, which is all else."""
    ranges: list[Range]
    """Each message of the transcript, in order."""
    recalled: list[RecalledShown]
    contributions: list[ContributionShown]
    tools: list[str]
    tools_hash: str
    """First 16 hex digits of the SHA-256 of the tool definitions that go with the request, as JSON."""
    directives: list[str]
    """Keys of the directives."""
    protocol: str
    """`native`, `json`, or the labels."""
    behaviour: str
    """Name and version of the behaviour, as `chat/1`."""
    prompt_version: str
    prompt_hash: str
    """First 16 hex digits of the SHA-256 of the system prompt, stable contributions included."""


def is_shown(reason: str) -> bool:
    """Whether a message with this reason is in the request, whole or in part."""
    return reason in SHOWN


def explain(manifest: Mapping[str, Any], messages: Sequence[BaseMessage]) -> list[tuple[str, Reason]]:
    """Id and reason of each message of the transcript: why the model saw it, or did not.

    Args:
        manifest: Of a request.
        messages: The transcript that it was planned from; messages that came later are passed over, and of
            those that have left the state since nothing is said.

    Raises:
        ValueError: The messages are not those that the manifest is about.
    """
    ids = [message.id or "" for message in messages]
    ranges: list[Range] = list(manifest["ranges"])
    explained: list[tuple[str, Reason]] = []
    # From the end: what has left the state since stood before the rest.
    end = next((at for at in range(len(ids), 0, -1) if ranges and ids[at - 1] == ranges[-1]["last_id"]), 0)
    while ranges and end:
        part = ranges.pop()
        if ids[end - 1] != part["last_id"]:
            continue
        start = max(0, end - part["count"])
        # What is pinned stays where all around it has gone.
        earlier = {each["last_id"] for each in ranges}
        start = next((at + 1 for at in range(end - 1, start - 1, -1) if ids[at] in earlier), start)
        if not earlier and end - start == part["count"] and ids[start] != part["first_id"]:
            raise ValueError(f"the manifest is about other messages: {part!r} does not start at {start}")
        explained[:0] = [(message_id, part["reason"]) for message_id in ids[start:end]]
        end = start
    if manifest["ranges"] and not explained:
        raise ValueError(
            f"the manifest is about other messages: {manifest['ranges'][-1]!r} is not among them"
        )
    return explained


class Ranges:
    """Puts ranges together, one stretch of the transcript after the other."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._messages = messages
        self._at = 0
        self.ranges: list[Range] = []

    def add(self, reason: Reason, count: int, tokens: int) -> None:
        """The next so many messages, for a reason."""
        if not count:
            return
        last_id = self._messages[self._at + count - 1].id or ""
        if self.ranges and self.ranges[-1]["reason"] == reason:
            known = self.ranges[-1]
            known["last_id"] = last_id
            known["count"] += count
            known["tokens"] += tokens
        else:
            first_id = self._messages[self._at].id or ""
            self.ranges.append(
                {
                    "reason": reason,
                    "first_id": first_id,
                    "last_id": last_id,
                    "count": count,
                    "tokens": tokens,
                }
            )
        self._at += count

    def add_each(self, reasons: Iterable[tuple[Reason, int]]) -> None:
        """The next messages, each with its reason and its tokens."""
        for reason, tokens in reasons:
            self.add(reason, 1, tokens)
