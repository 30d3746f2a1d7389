"""What refusals make of a profile, and its laws: each tells once, in any order, and never makes it worse."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.graph.degradation import degrade
from turnflow.graph.profile import ProviderProfile

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "500")), deadline=None)
NAMES = [
    "tools",
    "images",
    "system_role",
    "messages",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
]
NAMES += ["output_limit", "temperature", "response_format", "grammar", "parallel_tool_calls", "tool_choice"]
NAMES += ["reasoning_content", "reasoning"]
PARAMETERS = ["temperature", "top_k", "max_tokens", "stream_options", "response_format"]

PROFILES = st.builds(
    ProviderProfile,
    native_tools=st.booleans(),
    json_schema=st.booleans(),
    grammar=st.booleans(),
    images=st.booleans(),
    system_role=st.booleans(),
    strict_messages=st.booleans(),
    stream_usage=st.booleans(),
    parallel_calls=st.sampled_from([None, True, False]),
    reasoning_field=st.sampled_from([None, "reasoning", "reasoning_content"]),
    token_limit_parameter=st.sampled_from([None, "max_tokens", "max_completion_tokens"]),
    unsupported_parameters=st.lists(st.sampled_from(PARAMETERS), unique=True, max_size=3).map(tuple),
    request_parameters=st.dictionaries(st.sampled_from(PARAMETERS), st.integers(), max_size=3),
)
REFUSALS = st.lists(st.sampled_from(NAMES) | st.text(max_size=4), max_size=6)


@pytest.mark.parametrize(
    ("refusal", "fields"),
    [
        ("tools", {"native_tools": False}),
        ("images", {"images": False}),
        ("system_role", {"system_role": False}),
        ("messages", {"strict_messages": True}),
        ("stream_options", {"stream_usage": False}),
        (
            "max_tokens",
            {"token_limit_parameter": "max_completion_tokens", "unsupported_parameters": ("max_tokens",)},
        ),
        (
            "max_completion_tokens",
            {"token_limit_parameter": "max_tokens", "unsupported_parameters": ("max_completion_tokens",)},
        ),
        ("output_limit", {"unsupported_parameters": ("max_completion_tokens", "max_tokens")}),
        ("temperature", {"unsupported_parameters": ("temperature",)}),
        ("tool_choice", {"unsupported_parameters": ("tool_choice",)}),
        ("model", {}),
        ("stream", {"streaming": False}),
        ("", {}),
    ],
)
def test_each_refusal_changes_what_it_is_about(refusal: str, fields: dict[str, object]) -> None:
    assert degrade(ProviderProfile(), [refusal]) == ProviderProfile().model_copy(update=fields)


def test_what_would_send_a_refused_parameter_no_longer_does() -> None:
    profile = ProviderProfile(
        json_schema=True,
        grammar=True,
        parallel_calls=True,
        reasoning_field="reasoning_content",
        request_parameters={"top_k": 5, "min_p": 0.1},
    )
    after = degrade(
        profile, ["response_format", "grammar", "parallel_tool_calls", "reasoning_content", "top_k"]
    )
    assert not after.json_schema
    assert not after.grammar
    assert after.parallel_calls is None
    assert after.reasoning_field is None
    assert after.request_parameters == {"min_p": 0.1}
    assert profile.request_parameters == {"top_k": 5, "min_p": 0.1}


def test_both_names_of_the_limit_refused_leave_none() -> None:
    profile = ProviderProfile.model_validate({"token_limit_parameter": "max_completion_tokens"})
    one = degrade(profile, ["max_completion_tokens"])
    assert one == degrade(ProviderProfile(), ["max_completion_tokens"])
    both = degrade(one, ["max_tokens"])
    assert both.token_limit_parameter is None
    assert set(both.unsupported_parameters) == {"max_tokens", "max_completion_tokens"}
    assert both == degrade(profile, ["output_limit"])


@FUZZ
@given(PROFILES, REFUSALS)
def test_the_same_twice_changes_nothing_more(profile: ProviderProfile, refusals: list[str]) -> None:
    once = degrade(profile, refusals)
    assert degrade(once, refusals) == once
    assert degrade(profile, [*refusals, *refusals]) == once


@FUZZ
@given(PROFILES, st.permutations(NAMES), st.integers(0, len(NAMES)), st.integers(0, len(NAMES)))
def test_order_and_grouping_do_not_matter(
    profile: ProviderProfile, names: list[str], first: int, second: int
) -> None:
    first, second = min(first, second), max(first, second)
    step_by_step = profile
    for name in names[:second]:
        step_by_step = degrade(step_by_step, [name])
    in_two = degrade(degrade(profile, names[:first]), names[first:second])
    assert step_by_step == in_two == degrade(profile, sorted(names[:second]))


@FUZZ
@given(PROFILES, REFUSALS, REFUSALS)
def test_more_refusals_never_give_anything_back(
    profile: ProviderProfile, fewer: list[str], more: list[str]
) -> None:
    some, all_of_them = degrade(profile, fewer), degrade(profile, [*fewer, *more])
    for field in ("native_tools", "images", "system_role", "stream_usage", "json_schema", "grammar"):
        assert getattr(all_of_them, field) <= getattr(some, field) <= getattr(profile, field)
    assert all_of_them.strict_messages >= some.strict_messages >= profile.strict_messages
    kept = set(profile.unsupported_parameters)
    assert kept <= set(some.unsupported_parameters) <= set(all_of_them.unsupported_parameters)
    assert set(all_of_them.request_parameters) <= set(some.request_parameters)


@FUZZ
@given(PROFILES, REFUSALS)
def test_it_stays_a_profile(profile: ProviderProfile, refusals: list[str]) -> None:
    after = degrade(profile, refusals)
    assert ProviderProfile.model_validate(after.model_dump()) == after
    assert after.token_limit_parameter not in after.unsupported_parameters or (
        after.token_limit_parameter == profile.token_limit_parameter and not set(refusals) - {""}
    )
    unchanged = set(refusals) <= {"", "model", "stream"}
    assert (after == profile) or not unchanged


def test_all_combinations_of_up_to_four_are_profiles() -> None:
    for size in range(5):
        for names in itertools.combinations(NAMES, size):
            after = degrade(ProviderProfile(json_schema=True, parallel_calls=False), names)
            assert ProviderProfile.model_validate(after.model_dump()) == after
            refused = {"max_tokens", "max_completion_tokens"} & set(after.unsupported_parameters)
            assert after.token_limit_parameter not in refused
