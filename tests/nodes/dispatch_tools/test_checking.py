"""Schemas are applied as the library applies them, in bounded time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.linear_time import is_linear
from turnflow.graph.text import canonical
from turnflow.nodes.dispatch_tools.checking import TooMuchWorkError, errors_of

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)

KEYS = st.sampled_from(["a", "b", "ab", "$schema", "$id"])
SCALARS = st.sampled_from(
    [None, True, False, 0, 1, 1.0, -0.0, 2.5, 10**18, float(2**60), 2**60, "", "a", "ab"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SIZES = st.integers(0, 3)
PATTERNS = st.sampled_from(["a", "^a$", "^[ab]+$", "(a+)+$", "b|^$"])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    "uniqueItems": st.booleans(),
    "pattern": PATTERNS,
    "required": st.lists(KEYS, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=2, unique=True), max_size=2),
    "multipleOf": st.sampled_from([1, 0.5, 3]),
    "$ref": st.sampled_from(["#/$defs/one", "#/$defs/t~1wo"]),
    "$dynamicRef": st.just("#/$defs/one"),
    **dict.fromkeys(("minimum", "exclusiveMaximum", "minLength", "maxItems", "minProperties"), SIZES),
}


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas with parts that are schemas."""
    nested = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(KEYS, inner, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        **LEAVES,
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), nested),
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "propertyNames"), inner),
        **dict.fromkeys(("additionalProperties", "unevaluatedItems"), inner),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "minContains": SIZES,
        "maxContains": SIZES,
    }
    return st.fixed_dictionaries({}, optional=keywords) | st.sampled_from(list(keywords)).flatmap(
        lambda name: st.fixed_dictionaries({name: keywords[name]})
    )


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=LEAVES), schemas, max_leaves=6)
DEFINITIONS = {"one": {"type": ["integer", "string"]}, "t/wo": {"minItems": 1, "maxProperties": 1}}


@FUZZ
@given(SCHEMAS, VALUES)
def test_what_is_valid_is_what_the_library_calls_valid(schema: Any, value: Any) -> None:
    whole = {"allOf": [schema], "$defs": DEFINITIONS}
    is_valid = not list(errors_of(value, whole))
    assert is_valid == Draft202012Validator(whole).is_valid(value)


@FUZZ
@given(VALUES, VALUES)
def test_equal_values_have_one_canonical_text(one: Any, other: Any) -> None:
    equal = Draft202012Validator({"const": one}).is_valid(other)
    assert (canonical(one) == canonical(other)) == equal


@pytest.mark.parametrize(
    ("items", "duplicate"),
    [
        ([1, 1.0], "1.0"),
        ([0, -0.0], "-0.0"),
        ([2**60, float(2**60)], "1.15"),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}], '{"b": [2.0], "a": 1.0}'),
        (["a", "b", "a"], "'a'"),
        ([1, True], None),
        ([0, False, None, "", [], {}], None),
        ([[1], [True]], None),
        (["1", 1], None),
        ([2**60 + 1, float(2**60)], None),
    ],
)
def test_items_are_unique_as_json_values(items: list[Any], duplicate: str | None) -> None:
    found = [error.message for error in errors_of(items, {"uniqueItems": True})]
    assert len(found) == (duplicate is not None)
    assert all(duplicate is not None and duplicate in message for message in found)


Growing = Callable[[int], tuple[Any, dict[str, Any]]]
GROWING: dict[str, Growing] = {
    "unique objects": lambda n: ([{"key": number} for number in range(n)], {"uniqueItems": True}),
    "unique mixed": lambda n: ([[number, str(number), None] for number in range(n)], {"uniqueItems": True}),
    "choices": lambda n: (list(range(n)), {"items": {"enum": list(range(n))}}),
    "keys": lambda n: (dict.fromkeys(map(str, range(n)), 1), {"additionalProperties": {"type": "integer"}}),
    "unknown keys": lambda n: (dict.fromkeys(map(str, range(n)), 1), {"additionalProperties": False}),
    "unevaluated": lambda n: (dict.fromkeys(map(str, range(n)), 1), {"unevaluatedProperties": False}),
    "pattern": lambda n: ("a" * 40 * n + "b", {"pattern": "^(a+)+$"}),
    "patterns": lambda n: (["a" * 40 + "b"] * n, {"items": {"pattern": "^(a|a)*$"}}),
    "pattern of names": lambda n: (
        {"a" * 40 + str(number): 1 for number in range(n)},
        {"patternProperties": {"^(a+)+$": True}, "additionalProperties": False},
    ),
    "broad pattern": lambda n: ("x y" * n, {"pattern": r"(\w+\s?)+(\w+\s?)+!"}),
    "types": lambda n: ([[[1] * n]], {"anyOf": [{"type": "string"}] * 50}),
}


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING)
def test_time_is_linear(grow: Growing) -> None:
    def seconds(size: int) -> float:
        value, schema = grow(size)
        started = time.thread_time()
        for _ in errors_of(value, schema):  # not held: what collecting garbage takes is not asked about
            pass
        return time.thread_time() - started

    assert is_linear(seconds, 40_000)


SECONDS = 20.0
"""Much more than all steps there are take, much less than any of these would take without an end."""


def doubled(keyword: str, reference: str = "$ref", levels: int = 40) -> dict[str, Any]:
    """A schema in which each level refers to the next one twice."""
    parts: dict[str, Any] = {
        f"level{n}": {keyword: [{reference: f"#/$defs/level{n + 1}"}] * 2} for n in range(levels)
    }
    return {reference: "#/$defs/level0", "$defs": {**parts, f"level{levels}": {"type": "integer"}}}


ENDLESS: dict[str, tuple[Any, dict[str, Any]]] = {
    "all": (1, doubled("allOf")),
    "any": ("x", doubled("anyOf")),
    "one": (1, doubled("oneOf", "$dynamicRef")),
    "long": (list(range(100_000)), {"allOf": [{"items": {}}] * 5000}),
    "always": (list(range(100_000)), {"allOf": [{"items": True}] * 5000}),
    "shown": (["x"] * 200_000, {"anyOf": [{"maxItems": 1}] * 5000}),
    "names": ([{}] * 100_000, {"items": {"properties": dict.fromkeys(map(str, range(5000)), True)}}),
    "unique": (list(range(100_000)), {"allOf": [{"uniqueItems": True}] * 5000}),
    "choices": (["x"] * 200_000, {"anyOf": [{"enum": [number]} for number in range(5000)]}),
    "patterns": ("x" * 200, {"allOf": [{"pattern": rf"\w{{150}}!|{number}"} for number in range(5000)]}),
    "names of patterns": (
        dict.fromkeys(map(str, range(100_000))),
        {"patternProperties": {f"^(a+)+{number}$": True for number in range(5000)}},
    ),
    "long reference": ([1] * 100_000, {"items": {"$ref": "#" + "/a" * 90_000}}),
}


@pytest.mark.parametrize(("value", "schema"), ENDLESS.values(), ids=ENDLESS)
def test_work_is_bounded(value: Any, schema: dict[str, Any]) -> None:
    started = time.thread_time()
    with pytest.raises(TooMuchWorkError):
        list(errors_of(value, schema))
    assert time.thread_time() - started < SECONDS


UNKNOWN = {"pattern": r"^(?!x)a"}
"""What cannot be applied in linear time."""


@pytest.mark.parametrize(
    "schema",
    [
        UNKNOWN,
        {"not": UNKNOWN},
        {"oneOf": [UNKNOWN, {"type": "string"}]},
        {"if": UNKNOWN, "then": False, "else": False},
        {"anyOf": [{"type": "integer"}, UNKNOWN]},
        {"allOf": [UNKNOWN, {"not": {"$ref": "#/$defs/missing"}}]},
        {"not": {"type": "no-such-type"}},
        {"pattern": r"(a)\1"},
        {"pattern": r"\w{1000}"},
        {"pattern": "^[[a]$"},
        {"pattern": "a?+b"},
        {"pattern": "b" * 1001},
        {"pattern": 5},
    ],
)
def test_what_cannot_be_applied_accepts_anything(schema: dict[str, Any]) -> None:
    assert list(errors_of("x", schema)) == []


def test_names_that_an_unknown_pattern_may_match_are_neither_refused_nor_checked() -> None:
    schema = {"patternProperties": {r"^(?!x)a": {"type": "string"}}, "additionalProperties": False}
    assert list(errors_of({"a": 1, "x": 2}, schema)) == []


def test_what_can_be_applied_beside_it_is() -> None:
    assert len(list(errors_of("x", {**UNKNOWN, "maxLength": 0}))) == 1
    assert len(list(errors_of(1, {"oneOf": [{"type": "null"}, {"type": "array", "items": UNKNOWN}]}))) == 1


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", "x" * 100_000])
def test_a_part_that_names_another_draft_is_checked_alike(draft: str) -> None:
    part = {"$schema": draft, "$id": draft, "pattern": "^(a+)+$"}
    started = time.thread_time()
    found = list(errors_of(["a" * 50 + "b"] * 1000, {"items": part}))
    assert len(found) == 1000
    assert time.thread_time() - started < SECONDS


def test_what_is_never_allowed_is_said_with_its_place() -> None:
    (error,) = errors_of({"a": {"b": 1}}, {"properties": {"a": {"properties": {"b": False}}}})
    assert (list(error.absolute_path), error.message) == (["a", "b"], "is not allowed")


def test_what_an_error_says_is_short() -> None:
    (error,) = errors_of(["x" * 1000] * 1000, {"maxItems": 1})
    assert len(error.message) <= 1000
