"""What a provider can find wrong in a request, and what all its rules look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from turnflow.apps.fake_provider.script import PickyRule, Rule, Strictness

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing a strict provider refuses."""

    rule: Rule | PickyRule | None
    """The rule broken; None: the request is not well formed."""
    param: str
    """Where, as in `messages[3].content`."""
    message: str

    def __str__(self) -> str:
        return f"{self.param}: {self.message} ({self.rule or 'malformed'})"


Check = Callable[[Request, Strictness], Iterator[Violation]]

SYSTEM_ROLES = ("system", "developer")


def call_ids(message: dict[str, Any]) -> list[str]:
    """The ids of a message's calls."""
    calls = message.get("tool_calls")
    return (
        [str(call.get("id")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    )


def says_nothing(content: object) -> bool:
    """Whether content is missing, blank, or holds a text that is."""
    if isinstance(content, list):
        texts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        return not content or any(not isinstance(text, str) or not text.strip() for text in texts)
    return content is None or (isinstance(content, str) and not content.strip())
