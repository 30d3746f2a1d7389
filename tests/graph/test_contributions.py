"""What may be a contributor, and when the built-in one is asked."""

from __future__ import annotations

from typing import Any

import pytest

from turnflow.graph.contributions import (
    SESSION_VARIABLES,
    ContributionQuery,
    Contributor,
    check_contributors,
    with_built_in,
)


def give(query: ContributionQuery) -> str:
    return query["text"]


# Made with what the types forbid.
make: Any = Contributor


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("plan", "contributors are a list"),
        ({"plan": give}, "contributors are a list"),
        (make("plan", give), "contributors are a list"),
        ([give], r"a contributor is a Contributor\(name, give\)"),
        ([make("", give)], "name is a text that is not blank"),
        ([make(3, give)], "name is a text that is not blank"),
        ([make("plan", "text")], "'plan': give is a function"),
        ([make("plan", give, place="user")], "'plan': place is 'system' or 'message', not 'user'"),
        ([make("plan", give, budget=0)], "'plan': budget is a number of tokens above 0"),
        ([make("plan", give, budget=True)], "'plan': budget is a number of tokens above 0"),
        ([make("plan", give, priority="high")], "'plan': priority is a whole number"),
        ([make("plan", give), make("plan", give)], "two contributors are named 'plan'"),
    ],
)
def test_what_is_no_contributor_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_contributors(given)


def test_what_are_contributors_is_taken() -> None:
    check_contributors(())
    check_contributors([Contributor("a", give, place="system", priority=-1), Contributor("b", give)])


def test_variables_are_shown_where_there_are_any() -> None:
    own = Contributor("plan", give)
    assert with_built_in([own], {}) == [own]
    assert with_built_in([own], {"_private": {"a": 1}}) == [own]
    *given, built_in = with_built_in([own], {"form": {"step": 2}})
    assert given == [own]
    assert (built_in.name, built_in.place, built_in.budget, built_in.priority) == (
        SESSION_VARIABLES,
        "message",
        500,
        50,
    )


def test_one_of_its_name_takes_its_place() -> None:
    own = Contributor(SESSION_VARIABLES, give)
    assert with_built_in([own], {"form": {"step": 2}}) == [own]
