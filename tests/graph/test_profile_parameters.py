"""A profile's parameters: what a request cannot do without, or cannot hold, is refused."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from turnflow import ProviderProfile

NESTED: list[Any] = []
NESTED.append(NESTED)


@pytest.mark.parametrize("name", ["model", "messages", "stream", "tools"])
def test_what_the_turn_itself_says_is_no_further_parameter(name: str) -> None:
    with pytest.raises(ValueError, match=f"request_parameters: '{name}' cannot be given here, take it out"):
        ProviderProfile(request_parameters={name: 1})


@pytest.mark.parametrize("name", ["model", "messages", "stream", "tools"])
def test_what_no_request_goes_without_is_not_left_out(name: str) -> None:
    with pytest.raises(ValueError, match=f"unsupported_parameters: '{name}' cannot be left out"):
        ProviderProfile(unsupported_parameters=("temperature", name))


@pytest.mark.parametrize(
    "value",
    [math.nan, -math.inf, object(), {1, 2}, dt.date(2024, 1, 1), {"a": [math.nan]}, NESTED, "\ud800"],
    ids=lambda value: type(value).__name__,
)
def test_a_parameter_is_json(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"request_parameters: 'x' holds what is no JSON, .*; give texts"
    ) as caught:
        ProviderProfile(request_parameters={"x": value})
    assert "\n" not in str(caught.value).split("Value error, ")[1].split(" [type=")[0]


def test_json_is_taken_as_it_is() -> None:
    parameters = {"top_k": 5, "extra": {"a": [1.5, None, True, "ü"]}}
    assert ProviderProfile(request_parameters=parameters).request_parameters == parameters
