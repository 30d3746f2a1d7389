"""Contributions: what else goes into a request, from named contributors (docs/context.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from typing_extensions import TypedDict

from turnflow.graph.session import shown_variables

Place = Literal["system", "message"]
"""`system`: stable text, in the system prompt; it is obeyed. `message`: changing text, fenced as data at the
end of the current user message, so that what stands before it stays cacheable."""


class Contribution(TypedDict):
    """What a contributor gave for a turn."""

    name: str
    text: str
    place: Place
    budget: int
    """Tokens that it may take; a longer text is cut."""
    priority: int
    """Under pressure those of the lowest priority go first, before any history."""


class ContributionQuery(TypedDict):
    """What a contributor is told."""

    session_id: str | None
    turn_id: str
    user_id: str | None
    text: str
    """The text of the user's message."""
    variables: dict[str, dict[str, Any]]
    """The session's variables, by namespace (docs/sessions.md)."""


@dataclass(frozen=True)
class Contributor:
    """Gives a piece of context once a turn: knowledge for this question, a block about the user, a plan.

    One that fails, or takes longer than `TurnSettings.contributor_timeout`, is left out with an event.

    Attributes:
        name: What events and the manifest call it; unique.
        give: Called with a `ContributionQuery`; gives the text, or None for nothing. May be a coroutine
            function; a plain one runs in a worker thread.
        place: Where its text goes.
        budget: Tokens that it may take.
        priority: Under pressure those of the lowest priority go first.
    """

    name: str
    give: Callable[[ContributionQuery], str | Awaitable[str | None] | None]
    place: Place = "message"
    budget: int = 1000
    priority: int = 0


SESSION_VARIABLES = "session_variables"
"""Name of the built-in contributor; one of this name takes its place."""


def with_built_in(given: Sequence[Contributor], variables: dict[str, dict[str, Any]]) -> list[Contributor]:
    """The contributors that are asked: those that were given, and the built-in one if it has something."""
    has_own = any(contributor.name == SESSION_VARIABLES for contributor in given)
    if has_own or shown_variables(variables) is None:
        return list(given)
    return [*given, _SHOWS_VARIABLES]


_SHOWS_VARIABLES = Contributor(
    SESSION_VARIABLES, lambda query: shown_variables(query["variables"]), budget=500, priority=50
)


def check_contributors(given: object) -> None:
    """Refuse what are no contributors.

    Raises:
        ValueError: The text names the contributor and the mend.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"contributors are a list of Contributor; give [...], not {given!r:.80}")
    names: set[str] = set()
    for contributor in given:
        if not isinstance(contributor, Contributor):
            raise ValueError(f"a contributor is a Contributor(name, give), not {contributor!r:.80}")
        _check_fields(contributor)
        if contributor.name in names:
            raise ValueError(f"two contributors are named {contributor.name!r}; name one of them otherwise")
        names.add(contributor.name)


def _check_fields(contributor: Contributor) -> None:
    name, budget, priority = contributor.name, contributor.budget, contributor.priority
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a contributor's name is a text that is not blank, not {name!r:.80}")
    if not callable(contributor.give):
        raise ValueError(f"contributor {name!r}: give is a function of a query, not {contributor.give!r:.80}")
    if contributor.place not in get_args(Place):
        places = " or ".join(map(repr, get_args(Place)))
        raise ValueError(f"contributor {name!r}: place is {places}, not {contributor.place!r:.80}")
    if not isinstance(budget, int) or isinstance(budget, bool) or budget <= 0:
        raise ValueError(f"contributor {name!r}: budget is a number of tokens above 0, not {budget!r:.80}")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ValueError(f"contributor {name!r}: priority is a whole number, not {priority!r:.80}")
