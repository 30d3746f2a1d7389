"""Checks arguments against a tool's schema, and says what is wrong with them (docs/tools.md). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypedDict

from turnflow.graph.shown import MAX_SHOWN, cut, shown
from turnflow.nodes.dispatch_tools.checking import BROKEN, TooMuchWorkError, errors_of

_MAX_PROBLEMS = 1000
_MAX_LINES = 10

Reason = Literal[
    "absent", "blank", "wrong_type", "not_one_of", "out_of_range", "unknown_key", "pattern", "other"
]


class Problem(TypedDict):
    """One thing that is wrong with the arguments.

    `path` names the value (`a.b[0]`; the key itself where it is absent or unknown; "" for the whole
    object), `message` says what is wrong with it, `accepted` lists what would be right, if that is known.
    """

    reason: Reason
    path: str
    message: str
    accepted: list[Any]


def describe_problems(problems: Sequence[Problem]) -> str:
    """The problems in words for the model: one line each, at most 10, then how many more there are."""
    lines = [_line(problem) for problem in problems[:_MAX_LINES]]
    more = len(problems) - _MAX_LINES
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


_KEYS_ELSEWHERE = ("additionalProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf", "if")
"""Keywords next to which `properties` may not be all the keys there are."""


def check_arguments(
    arguments: dict[str, Any], schema: Mapping[str, Any], hidden: Collection[str]
) -> list[Problem]:
    """What is wrong with the arguments; `hidden` names are none of the model's business."""
    problems: list[Problem] = []
    try:
        for error in islice(errors_of(arguments, _strict(schema, hidden)), _MAX_PROBLEMS):
            problems += _problems(error)
    except RecursionError:
        problems.append(_general("the tool's schema has no end"))
    except TooMuchWorkError:
        problems.append(_general("it takes too long to check them; give fewer or smaller values"))
    except BROKEN:  # a part of the schema, looked at for what would be right
        pass
    return problems


def _general(message: str) -> Problem:
    return {"reason": "other", "path": "", "message": message, "accepted": []}


def _strict(schema: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """The schema of what the model may give: nothing hidden, and no keys that it does not name."""
    strict = {**schema, "required": [name for name in required_names(schema) if name not in hidden]}
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        strict["properties"] = {name: part for name, part in properties.items() if name not in hidden}
        if not any(keyword in schema for keyword in _KEYS_ELSEWHERE):
            strict["additionalProperties"] = False
    return strict


def required_names(schema: Mapping[str, Any]) -> list[str]:
    """Names that a schema requires."""
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


_BOUNDS = (
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)


def _problems(error: Any) -> list[Problem]:
    """What an error of the library comes to."""
    keyword, value = error.validator, error.validator_value
    if keyword in {"anyOf", "oneOf"} and error.context:
        return _of_branches(error)
    if keyword == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        return [_problem(error, "unknown_key", "is not known", known, key=error.message)]
    if keyword == "required":
        problem = _problem(error, "absent", "is required", _expected(error), key=error.message)
    elif keyword == "type":
        problem = _wrong_type(error, _names(value))
    elif keyword in {"enum", "const"}:
        accepted = value if keyword == "enum" else [value]
        problem = _problem(error, "not_one_of", f"{_given(error)} is not accepted", accepted)
    elif keyword == "pattern":
        problem = _problem(error, "pattern", f"{_given(error)} does not match", [value])
    elif keyword == "minLength" and not error.instance.strip():
        problem = _problem(error, "blank", f"{_given(error)} is blank", _bounds(error))
    elif keyword in _BOUNDS:
        problem = _problem(error, "out_of_range", f"{_given(error)} is out of range", _bounds(error))
    else:
        problem = _problem(error, "other", cut(error.message, 2 * MAX_SHOWN), [])
    return [problem]


def _of_branches(error: Any) -> list[Problem]:
    """The problems of the alternative that was most likely meant.

    An alternative of another type was not meant if any has the right one (`null` in `Optional[...]`), nor
    one whose mark (a constant inside of it) is another's; of the rest, the one with fewest problems was.
    """
    branches: dict[int, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    others = [
        e for found in branches.values() for e in found if e.validator == "type" and not e.relative_path
    ]
    wrong = {e.schema_path[0] for e in others}
    if len(wrong) == len(branches):
        kinds = dict.fromkeys(kind for e in others for kind in _names(e.validator_value))
        return [_wrong_type(error, list(kinds))]
    candidates = [found for branch, found in branches.items() if branch not in wrong]
    meant = min(candidates, key=lambda found: (any(map(_is_mark, found)), len(found)))
    return [problem for inner in meant for problem in _problems(inner)]


def _is_mark(error: Any) -> bool:
    return error.validator in {"const", "enum"} and bool(error.relative_path)


def _wrong_type(error: Any, kinds: list[str]) -> Problem:
    text = f"{_given(error)} is not of type {' or '.join(kinds)}"
    return _problem(error, "wrong_type", text, kinds)


def _problem(
    error: Any, reason: Reason, message: str, accepted: list[Any], *, key: str | None = None
) -> Problem:
    places = [*error.absolute_path, *([] if key is None else [key])]
    return {"reason": reason, "path": _path(places), "message": message, "accepted": accepted}


def _given(error: Any) -> str:
    """What the value is, in one short line; a long value is not written out for that."""
    if not isinstance(error.instance, dict | list):
        return shown(error.instance)
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=repr).iterencode(error.instance):
        text += piece
        if len(text) > MAX_SHOWN:
            break
    return cut(text)


def _bounds(error: Any) -> list[str]:
    return [f"{keyword} {error.schema[keyword]}" for keyword in _BOUNDS if keyword in error.schema]


def _expected(error: Any) -> list[Any]:
    """What the absent key of an error takes, as far as its schema says it in place."""
    schema = error.schema.get("properties", {}).get(error.message, {})
    if not isinstance(schema, dict):
        return []
    branches = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return schema.get("enum") or [kind for branch in branches for kind in _names(branch.get("type", []))]


def _names(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _line(problem: Problem) -> str:
    show = shown if problem["reason"] == "not_one_of" else str
    # The message of a wrong type says already what is accepted.
    accepted = [] if problem["reason"] == "wrong_type" else [show(value) for value in problem["accepted"]]
    line = f"{problem['path'] or 'arguments'}: {problem['message']}"
    return f"{line}; accepted: {cut(', '.join(accepted), 5 * MAX_SHOWN)}" if accepted else line


_PLAIN_KEY = re.compile(r"[\w$-]{1,80}")


def _path(places: Sequence[str | int]) -> str:
    path = ""
    for place in places:
        if isinstance(place, str) and _PLAIN_KEY.fullmatch(place):
            path += f".{place}" if path else place
        else:
            path += f"[{shown(place)}]"
    return path
