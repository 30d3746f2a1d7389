"""Arguments are read strictly, mended only where they can mean one thing, and checked with reasons."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from turnflow.nodes.dispatch_tools.arguments import read_arguments
from turnflow.nodes.dispatch_tools.problems import Problem, describe_problems

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=5)

READ: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    (" \n\t", {}),
    ("{}", {}),
    (' {"a": 1}\n', {"a": 1}),
    ('{"a": ""}', {"a": ""}),
    ('{"a": null, "b": [true, 1.5, -0.0, 1e3]}', {"a": None, "b": [True, 1.5, 0.0, 1000.0]}),
    ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ('{"a": "one\ntwo\n"}', {"a": "one\ntwo\n"}),
    ('{"a": 1,}', {"a": 1}),
    ('{"a": [1, 2, ], }', {"a": [1, 2]}),
    ("{'a': 'b'}", {"a": "b"}),
    ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}),
    ("{'a': 'it\\'s'}", {"a": "it's"}),
    ('{"a": "it\\\'s"}', {"a": "it's"}),
    ("{'a': ''}", {"a": ""}),
    ("{'a': 'x, y'}", {"a": "x, y"}),
    ("{a: 1, b_2: {c-d: 'e'}}", {"a": 1, "b_2": {"c-d": "e"}}),
    ("{'a': True, 'b': False, 'c': None}", {"a": True, "b": False, "c": None}),
    ("{'a': 'True'}", {"a": "True"}),
    ('```json\n{"a": 1}\n```', {"a": 1}),
    ('```\n{"a": 1}```\n', {"a": 1}),
    ("```json\n{'a': 1,}\n```", {"a": 1}),
    ('{"a": "```js\\nx\\n```"}', {"a": "```js\nx\n```"}),
]

UNPARSEABLE: list[tuple[str, str]] = [
    ("{", "Expecting property name"),
    ('{"a": 1', "Expecting ',' delimiter"),
    ('{"a": "x', "Unterminated string"),
    ('{"a": [1, 2}', "Expecting ',' delimiter"),
    ('{"a": 1}}', "Extra data"),
    ('{"a": 1} {"b": 2}', "Extra data"),
    ('{"a": 1}{"a": 1}', "Extra data"),
    ('Sure! {"a": 1}', "Expecting value"),
    ('{"a": 1} Done.', "Extra data"),
    ('Here:\n```json\n{"a": 1}\n```', "Expecting value"),
    ('```json\n{"a": 1}\n', "Expecting value"),
    ("```json\n```", "Expecting value"),
    ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
    ('{"a": {"b": 1, "b": 1}}', "the key 'b' is given twice"),
    ("{'a': 1, 'a': 2,}", "Expecting property name"),
    ('{"a": NaN}', "NaN is not a JSON value"),
    ('{"a": -Infinity,}', "-Infinity is not a JSON value"),
    ('{"a": 1e999}', "the number 1e999 is too large"),
    ('{"a": ' + "9" * 9000 + "}", "has too many digits"),
    ("[1]", "arguments are one JSON object, this is [1]"),
    ('"text"', "arguments are one JSON object, this is 'text'"),
    ("null", "arguments are one JSON object, this is null"),
    ("7", "arguments are one JSON object, this is 7"),
    ("hello", "Expecting value"),
    ("{'a': 'it's'}", "Expecting property name"),
    ("{'a': 'x}", "Expecting property name"),
    ('{"a": "say "hi" now"}', "Expecting ',' delimiter"),
    ('{"a": 1 "b": 2}', "Expecting ',' delimiter"),
    ('{"a" 1}', "Expecting ':' delimiter"),
    ('{"a": }', "Expecting value"),
    ('{"a": 1,,}', "property name"),
    ("{,}", "Expecting property name"),
    ('{"a": [,]}', "Expecting value"),
    ('{"a": hello}', "Expecting value"),
    ('{"a": 01}', "Expecting ',' delimiter"),
    ('{"a": +1}', "Expecting value"),
    ('{"a": 1} // note', "Extra data"),
    ('{"a": 1 /* note */}', "Expecting ',' delimiter"),
    ('{"a": "C:\\dir"}', "Invalid \\escape"),
    ('{"a": "\\ud83d"}', "half of a surrogate pair"),
    ('{"a": "x" + "y"}', "Expecting ',' delimiter"),
    ("“a”: 1", "Expecting value"),
    # The library would lose or move a part of these.
    ("{'a': 'x, y: {z}'}", "Expecting property name"),
    ("{'a': 'line\\n'}", "Expecting property name"),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_what_can_mean_one_thing_is_read(text: str, expected: dict[str, Any]) -> None:
    read = read_arguments(text, {})
    assert read.given == expected
    assert read.arguments == expected
    assert (read.problems, read.unparseable) == ([], "")


@pytest.mark.parametrize(("text", "reason"), UNPARSEABLE)
def test_anything_else_is_unparseable_with_the_parsers_reason(text: str, reason: str) -> None:
    read = read_arguments(text, {})
    assert read.given is None
    assert read.arguments is None
    assert reason in read.unparseable
    assert len(read.unparseable) < 200


@given(objects)
def test_what_json_writes_is_read_back(value: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(value), {}).given == value
    assert read_arguments(json.dumps(value, ensure_ascii=False, indent=1), {}).given == value


@given(objects.map(repr))
def test_a_python_literal_is_read_as_it_is_or_not_at_all(text: str) -> None:
    read = read_arguments(text, {})
    assert read.given is None or repr(read.given) == text


@given(st.text() | st.text(alphabet="{}[]\"':,\\ \nabT01.-`"))
def test_no_text_raises(text: str) -> None:
    read = read_arguments(text, {"properties": {"a": {"type": "string"}}})
    assert (read.given is None) == bool(read.unparseable)


@settings(deadline=None, max_examples=50)
@given(objects.filter(bool))
def test_no_strict_prefix_is_read(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), f"```json\n{json.dumps(value)}\n```", repr(value)):
        assert [end for end in range(1, len(text)) if read_arguments(text[:end], {}).given is not None] == []


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        "{'a':" * 100_000,
        "{a:" * 200 + "1" + "}" * 200,
        '{"a":' * 101 + "1" + "}" * 101,
    ],
)
def test_deep_nesting_is_unparseable(text: str) -> None:
    read = read_arguments(text, {})
    assert read.given is None
    assert read.unparseable


def test_brackets_in_strings_and_beside_each_other_are_not_depth() -> None:
    values: list[dict[str, Any]] = [{"a": "[{" * 500}, {"a": [[]] * 500}, {'"': ['\\"[', "\\"] * 200}]
    for value in values:
        assert read_arguments(json.dumps(value), {}).given == value


@pytest.mark.parametrize("text", ["x" * 10_000_000, '"\\' * 5_000_000, "``` " * 2_500_000])
def test_long_strings_are_read(text: str) -> None:
    read = read_arguments(json.dumps({"a": text}), {"properties": {"a": {"type": "integer"}}})
    assert read.given == {"a": text}
    assert len(describe_problems(read.problems)) < 200


@pytest.mark.parametrize("text", ["'", "{'", "```json\n ", "{'a':'", "\\", '{"a":"\\'])
def test_long_nonsense_is_unparseable(text: str) -> None:
    assert read_arguments(text + text[-1] * 10_000_000, {}).given is None


def test_what_only_the_host_may_set_is_dropped() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "_b": {}, "state": {}},
        "required": ["a", "_b", "state"],
    }
    read = read_arguments('{"a": 1, "_b": 2, "_c": 3, "state": 4}', schema, host_only={"state"})
    assert read.given == {"a": 1, "_b": 2, "_c": 3, "state": 4}
    assert read.arguments == {"a": 1}
    assert read.problems == []
    unknown = read_arguments('{"a": 1, "d": 5}', schema, host_only={"state"})
    assert [problem["accepted"] for problem in unknown.problems] == [["a"]]


def prop(**schema: Any) -> dict[str, Any]:
    """A schema with one property, `a`."""
    return {"type": "object", "properties": {"a": schema}}


OPTIONAL_CHOICE = prop(anyOf=[{"enum": ["x", "y"], "type": "string"}, {"type": "null"}])
SHAPES = prop(
    oneOf=[
        {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["radius"]},
        {"properties": {"kind": {"const": "text"}, "body": {"type": "string"}, "size": {"type": "integer"}}},
    ]
)
LIST = prop(
    type="array", items={"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}
)
REFERENCE = {**prop(**{"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "integer"}}}
CLOSED = prop(type="object", properties={"b": {}}, additionalProperties=False)

CHECKED: list[tuple[dict[str, Any], str, list[tuple[str, str]]]] = [
    (prop(type="string"), '{"a": ""}', []),
    (prop(type="string"), "{}", []),
    (prop(type="integer"), '{"a": 3}', []),
    (prop(type="integer"), '{"a": true}', [("wrong_type", "a")]),
    (prop(type="number"), '{"a": false}', [("wrong_type", "a")]),
    (prop(type="integer"), '{"a": "seventeen"}', [("wrong_type", "a")]),
    (prop(type="integer"), '{"a": "17"}', [("wrong_type", "a")]),
    (prop(type="integer"), '{"a": 1.5}', [("wrong_type", "a")]),
    (prop(type="string"), '{"a": null}', [("wrong_type", "a")]),
    (prop(type=["string", "null"]), '{"a": 1}', [("wrong_type", "a")]),
    ({**prop(type="string"), "required": ["a"]}, "{}", [("absent", "a")]),
    ({**prop(), "required": ["a", "b"]}, "", [("absent", "a"), ("absent", "b")]),
    (prop(type="string", minLength=1), '{"a": ""}', [("blank", "a")]),
    (prop(type="string", minLength=3), '{"a": " \\n"}', [("blank", "a")]),
    (prop(type="string", minLength=1), '{"a": " "}', []),
    (prop(type="string", minLength=3), '{"a": "ab"}', [("out_of_range", "a")]),
    (prop(type="string", maxLength=3), '{"a": "abcd"}', [("out_of_range", "a")]),
    (prop(enum=["x", 1]), '{"a": "z"}', [("not_one_of", "a")]),
    (prop(enum=[1]), '{"a": true}', [("not_one_of", "a")]),
    (prop(const="x"), '{"a": "z"}', [("not_one_of", "a")]),
    (prop(type="integer", minimum=1, maximum=5), '{"a": 6}', [("out_of_range", "a")]),
    (prop(exclusiveMinimum=0), '{"a": 0}', [("out_of_range", "a")]),
    (prop(type="array", maxItems=1), '{"a": [1, 2]}', [("out_of_range", "a")]),
    (prop(type="object", minProperties=1), '{"a": {}}', [("out_of_range", "a")]),
    (prop(pattern="^[a-z]+$"), '{"a": "A1"}', [("pattern", "a")]),
    (prop(multipleOf=5), '{"a": 7}', [("other", "a")]),
    (prop(uniqueItems=True), '{"a": [1, 1]}', [("other", "a")]),
    (prop(type="string"), '{"b": 1, "c": 2}', [("unknown_key", "b"), ("unknown_key", "c")]),
    ({"type": "object"}, '{"b": 1}', []),
    ({"type": "object", "properties": {}}, '{"b": 1}', []),
    ({"type": "object", "additionalProperties": False}, '{"b": 1}', [("unknown_key", "b")]),
    ({**prop(), "additionalProperties": True}, '{"b": 1}', []),
    ({**prop(), "additionalProperties": {"type": "string"}}, '{"b": "x"}', []),
    ({**prop(), "additionalProperties": {"type": "string"}}, '{"b": 1}', [("wrong_type", "b")]),
    ({**prop(), "patternProperties": {"^x-": {}}}, '{"x-1": 1, "y": 2}', [("unknown_key", "y")]),
    ({**prop(), "allOf": [{"properties": {"b": {}}}]}, '{"b": 1}', []),
    (prop(type="object", properties={"b": {}}), '{"a": {"c": 1}}', []),
    (CLOSED, '{"a": {"c d": 1}}', [("unknown_key", "a['c d']")]),
    (LIST, '{"a": [{"b": true}, {}, {"b": 0}]}', [("absent", "a[1].b"), ("wrong_type", "a[2].b")]),
    (OPTIONAL_CHOICE, '{"a": null}', []),
    (OPTIONAL_CHOICE, '{"a": "z"}', [("not_one_of", "a")]),
    (OPTIONAL_CHOICE, '{"a": 1}', [("wrong_type", "a")]),
    (SHAPES, '{"a": {"kind": "circle"}}', [("absent", "a.radius")]),
    (SHAPES, '{"a": {"kind": "text", "body": 1}}', [("wrong_type", "a.body")]),
    (prop(oneOf=[{"type": "integer"}, {"type": "number"}]), '{"a": 1}', [("other", "a")]),
    (REFERENCE, '{"a": "x"}', [("wrong_type", "a")]),
]


@pytest.mark.parametrize(("schema", "text", "expected"), CHECKED)
def test_reasons_are_told_apart(schema: dict[str, Any], text: str, expected: list[tuple[str, str]]) -> None:
    Draft202012Validator.check_schema(schema)
    read = read_arguments(text, schema)
    assert [(problem["reason"], problem["path"]) for problem in read.problems] == expected
    assert read.arguments == json.loads(text or "{}")


def test_a_problem_carries_what_is_accepted() -> None:
    def accepted(schema: dict[str, Any], text: str) -> list[Any]:
        return [value for problem in read_arguments(text, schema).problems for value in problem["accepted"]]

    assert accepted(OPTIONAL_CHOICE, '{"a": "z"}') == ["x", "y"]
    assert accepted(OPTIONAL_CHOICE, '{"a": 1}') == ["string", "null"]
    assert accepted(prop(minimum=1, maximum=5), '{"a": 6}') == ["minimum 1", "maximum 5"]
    assert accepted(prop(pattern="^a"), '{"a": "b"}') == ["^a"]
    assert accepted({"properties": {"a": {}, "b": {}}}, '{"c": 1}') == ["a", "b"]
    assert accepted({**prop(type="integer"), "required": ["a"]}, "{}") == ["integer"]
    assert accepted({**prop(enum=["x"]), "required": ["a"]}, "{}") == ["x"]


@pytest.mark.parametrize(
    ("schema", "text", "line"),
    [
        (prop(type="integer"), '{"a": "seventeen"}', "a: 'seventeen' is not of type integer"),
        (OPTIONAL_CHOICE, '{"a": 5}', "a: 5 is not of type string or null"),
        (OPTIONAL_CHOICE, '{"a": "z"}', "a: 'z' is not accepted; accepted: 'x', 'y'"),
        (prop(enum=[1, None]), '{"a": true}', "a: true is not accepted; accepted: 1, null"),
        (prop(minimum=1, maximum=5), '{"a": 6}', "a: 6 is out of range; accepted: minimum 1, maximum 5"),
        (prop(), '{"b": 1}', "b: is not known; accepted: a"),
        ({**prop(type="integer"), "required": ["a"]}, "", "a: is required; accepted: integer"),
        ({"minProperties": 1}, "", "arguments: {} is out of range; accepted: minProperties 1"),
        (prop(), json.dumps({"x\ny": 1}), "['x\\ny']: is not known; accepted: a"),
    ],
)
def test_the_model_is_told_in_one_line(schema: dict[str, Any], text: str, line: str) -> None:
    assert describe_problems(read_arguments(text, schema).problems) == line


def test_ten_problems_are_told_and_the_rest_counted() -> None:
    read = read_arguments(json.dumps({f"k{n}": 0 for n in range(25)}), prop())
    lines = describe_problems(read.problems).splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("k0: ")
    assert lines[-1] == "and 15 more"
    assert describe_problems([]) == ""


@given(st.lists(st.text(min_size=50), min_size=1, max_size=12))
def test_descriptions_stay_short(texts: list[str]) -> None:
    problems: list[Problem] = []
    for text in texts:
        for value in (text, [text] * 9, {text: text}):
            problems += read_arguments(json.dumps({text: value}), prop()).problems
            problems += read_arguments(json.dumps({"a": value}), prop(type="null")).problems
    described = describe_problems(problems)
    assert len(described.split("\n")) <= 11
    assert max(map(len, described.split("\n"))) < 400


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/never-fetched"},
        prop(**{"$ref": "#/$defs/missing"}),
        prop(**{"$dynamicRef": "http://127.0.0.1:9/never-fetched"}),
        prop(pattern="("),
        prop(type="no-such-type"),
        prop(multipleOf=0),
        prop(minimum="x", enum=3),
        prop(required=[{}], properties=7),
        prop(required=["x"], properties=[1]),
        {"properties": {"a": 7}},
        {"required": 5, "properties": [], "type": "object"},
        {"allOf": 5, "anyOf": {"x": 1}},
    ],
)
def test_a_part_of_a_schema_that_cannot_be_applied_accepts_anything(schema: dict[str, Any]) -> None:
    for value in (1, "x", {"b": 1}, [1]):
        assert read_arguments(json.dumps({"a": value}), schema).problems == []


def test_a_broken_part_leaves_the_rest_checked() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/missing", "type": "integer"}, "b": {"type": "integer"}}}
    read = read_arguments('{"a": "x", "b": "y"}', schema)
    assert [problem["path"] for problem in read.problems] == ["a", "b"]


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}])
def test_a_schema_without_end_is_a_problem(schema: dict[str, Any]) -> None:
    read = read_arguments('{"a": 1}', schema)
    assert [problem["reason"] for problem in read.problems] == ["other"]


@pytest.mark.parametrize(("keyword", "value"), [("allOf", "1"), ("anyOf", '"x"'), ("oneOf", "1")])
def test_a_schema_that_takes_too_long_is_a_problem(keyword: str, value: str) -> None:
    levels: dict[str, Any] = {
        f"n{n}": {keyword: [{"$dynamicRef": f"#/$defs/n{n + 1}"}] * 2} for n in range(40)
    }
    schema = {"properties": {"a": {"$dynamicRef": "#/$defs/n0"}}, "$defs": levels}
    levels["n40"] = {"type": "integer"}
    (problem,) = read_arguments(f'{{"a": {value}}}', schema).problems
    assert (problem["reason"], problem["path"]) == ("other", "")
    assert "takes too long" in describe_problems([problem])


def test_a_set_of_many_objects_is_checked_in_little_time() -> None:
    values = [{"key": number, "tags": [number]} for number in range(20_000)]
    schema = prop(type="array", uniqueItems=True)
    started = time.thread_time()
    assert read_arguments(json.dumps({"a": values}), schema).problems == []
    read = read_arguments(json.dumps({"a": [*values, {"tags": [7.0], "key": 7.0}]}), schema)
    assert time.thread_time() - started < 20
    line = 'a: has {"tags": [7.0], "key": 7.0} twice; each item must be another one'
    assert describe_problems(read.problems) == line


def test_a_pattern_is_looked_for_in_little_time() -> None:
    names = {"patternProperties": {"^(a+)+$": {"pattern": "^(x|x)*$"}}, "additionalProperties": False}
    given = {"a" * 50: "x" * 50 + "!", "a" * 50 + "!": ""}
    started = time.thread_time()
    problems = read_arguments(json.dumps({"a": given}), prop(**names)).problems
    assert time.thread_time() - started < 5
    assert [problem["reason"] for problem in problems] == ["pattern", "unknown_key"]


def test_a_problem_with_a_large_value_is_told_in_little_time() -> None:
    values = [{"key": number} for number in range(200_000)]
    schema = prop(allOf=[{"type": "string"}] * 1000)
    started = time.thread_time()
    problems = read_arguments(json.dumps({"a": values}), schema).problems
    assert time.thread_time() - started < 20
    assert len(problems) == 1000
    assert problems[0]["message"].startswith('[{"key": 0}, {"key": 1}')


def test_a_recursive_schema_is_followed_as_deep_as_arguments_go() -> None:
    schema = {
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}},
    }
    tree: Any = "leaf"
    for _ in range(60):
        tree = {"next": tree}
    problems = read_arguments(json.dumps({"tree": tree}), schema).problems
    assert [problem["path"] for problem in problems] == ["tree" + ".next" * 60]
