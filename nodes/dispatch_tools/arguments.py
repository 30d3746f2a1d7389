"""Reads a tool call's arguments strictly and checks them against the tool's schema (docs/tools.md). Pure.

Text that is no JSON object is mended at most once, and only where it can mean one thing: every value and
every bracket of the mended object must stand in the text, in that order. Nothing is guessed, and nothing
that could not be read becomes `{}`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypedDict, cast

import json_repair
from jsonschema import Draft202012Validator
from jsonschema.exceptions import UnknownType, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

_MAX_DEPTH = 100
"""Brackets inside each other that are read: what checks and records arguments recurses."""

_MAX_MENDED_CHARS = 100_000
"""Characters of text that may be mended."""

_MAX_PROBLEMS = 1000
_MAX_LINES = 10
_MAX_SHOWN = 80

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


@dataclass(frozen=True)
class ReadArguments:
    """A call's arguments, read and checked."""

    given: dict[str, Any] | None
    """The object as the model wrote it; None if it could not be read."""
    arguments: dict[str, Any] | None
    """What the tool may get: `given` without what only the host may set."""
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with `arguments`; empty if they are valid."""
    unparseable: str = ""
    """Why `given` is None, in the parser's words."""


def read_arguments(text: str, schema: Mapping[str, Any], host_only: Collection[str] = ()) -> ReadArguments:
    """Read the text of a call's arguments and check them.

    Args:
        text: As the model wrote it; blank text means no arguments.
        schema: JSON Schema (draft 2020-12) of the arguments. References outside of it are never fetched; a
            part of it that cannot be applied accepts anything.
        host_only: Names that only the host may set, besides those that begin with `_`; the model's values
            for them are dropped.
    """
    try:
        given = _parse(text)
    except (ValueError, RecursionError) as error:
        return ReadArguments(None, None, unparseable=str(error) or "nested too deeply")
    hidden = {name for name in (*given, *_required(schema)) if name.startswith("_")}.union(host_only)
    arguments = {name: value for name, value in given.items() if name not in hidden}
    return ReadArguments(given, arguments, _check(arguments, schema, hidden))


def describe_problems(problems: Sequence[Problem]) -> str:
    """The problems in words for the model: one line each, at most 10, then how many more there are."""
    lines = [_line(problem) for problem in problems[:_MAX_LINES]]
    more = len(problems) - _MAX_LINES
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


# Parsing


def _parse(text: str) -> dict[str, Any]:
    """The object that the text holds.

    Raises:
        ValueError: The text does not hold one object, or not unambiguously.
        RecursionError: It is nested too deeply.
    """
    if not text.strip():
        return {}
    body = _without_fence(text)
    try:
        value = _load(body)
    except ValueError:
        value = _mend(body)
        if value is None:
            raise
    _refuse_lone_surrogates(value)
    if not isinstance(value, dict):
        raise ValueError(f"arguments are one JSON object, this is {_shown(value)}")  # noqa: TRY004
    return value


def _without_fence(text: str) -> str:
    """The text inside a code fence that holds all of it, else the text."""
    fence, _, body = text.strip().partition("\n")
    is_fenced = fence.startswith("```") and body.endswith("```") and "`" not in fence[3:]
    return body.removesuffix("```") if is_fenced else text


def _load(text: str) -> Any:
    if text.count("{") + text.count("[") > _MAX_DEPTH:
        _refuse_depth(text)
    return json.loads(
        text,
        strict=False,  # a line break that stands in a string as it is has one meaning only
        object_pairs_hook=_unique,
        parse_constant=_refuse_constant,
        parse_float=_finite,
        parse_int=_integer,
    )


_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{\[]|[}\]]', re.DOTALL)


def _refuse_depth(text: str) -> None:
    depth = 0
    for token in _STRINGS_AND_BRACKETS.finditer(text):
        first = token[0][0]
        depth += (first in "{[") - (first in "}]")
        if depth > _MAX_DEPTH:
            raise RecursionError(f"nested more than {_MAX_DEPTH} brackets deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {_shown(key)} is given twice")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {_cut(digits)} is too large")
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"the number {_cut(digits)} has too many digits") from None


def _refuse_lone_surrogates(value: Any) -> None:
    """Half of a character, an escaped d83d alone, can be neither stored nor sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair") from None


# Mending

_Token = tuple[str, Any]
"""A mark (itself and None) or a scalar (the name of its type and its value)."""

_LEXEME = re.compile(
    r"""\s*(?:
        (?P<mark>[{}\[\],:])
      | (?P<text>"(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+')
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?=[\s,\]}]|$)
      | (?P<key>[A-Za-z_][A-Za-z0-9_-]*)(?=\s*:)
      | (?P<word>true|false|null|True|False|None)(?=[\s,\]}]|$)
    )\s*""",
    re.DOTALL | re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


def _mend(text: str) -> Any:
    """What the library makes of the text, or None if it had to drop, invent or guess anything."""
    if len(text) > _MAX_MENDED_CHARS:
        return None
    try:
        written = list(_lexemes(text))
        value = json_repair.loads(text, skip_json_loads=True)
        kept = list(_lexemes(json.dumps(value)))
    except (ValueError, RecursionError):
        return None
    meant = [token for place, token in enumerate(written) if not _is_trailing_comma(written, place)]
    return value if meant == kept else None


def _lexemes(text: str) -> Iterator[_Token]:
    """What stands in the text, piece by piece.

    Raises:
        ValueError: A piece that has no one meaning, an open quote or prose, say.
    """
    place = depth = 0
    while place < len(text):
        lexeme = _LEXEME.match(text, place)
        if lexeme is None:
            raise ValueError
        place, kind, found = lexeme.end(), lexeme.lastgroup, lexeme[lexeme.lastgroup or 0]
        if kind == "mark":
            depth += (found in "{[") - (found in "}]")
            if depth > _MAX_DEPTH:
                raise ValueError
            yield found, None
        elif kind == "text":
            yield _scalar(_quoted(found))
        elif kind == "number":
            yield _scalar(_load(found))
        else:
            yield _scalar(found if kind == "key" else _WORDS[found])


_IN_QUOTES = re.compile(r"""\\.|["]""", re.DOTALL)


def _quoted(text: str) -> str:
    """The text that stands between quotes of either kind; line breaks may stand in it as they are."""
    inner = _IN_QUOTES.sub(lambda m: {"\\'": "'", '"': '\\"'}.get(m[0], m[0]), text[1:-1])
    return str(json.loads(f'"{inner}"', strict=False))


def _is_trailing_comma(tokens: list[_Token], place: int) -> bool:
    if tokens[place][0] != "," or not 0 < place < len(tokens) - 1:
        return False
    return tokens[place + 1][0] in {"}", "]"} and tokens[place - 1][0] not in {"{", "[", ","}


def _scalar(value: Any) -> _Token:
    return type(value).__name__, value


# Checking

_BROKEN = (
    Unresolvable,
    UnknownType,
    re.error,
    TypeError,
    AttributeError,
    LookupError,
    ValueError,
    ArithmeticError,
)
"""What a schema raises that passed as one and still cannot be applied."""

_Check = Callable[[Any, Any, Any, Any], Any]


def _forgiving(check: _Check) -> _Check:
    """The check of a keyword; where the keyword cannot be applied, it accepts anything."""

    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        try:
            yield from check(validator, value, instance, schema) or ()
        except _BROKEN:
            return

    return checked


def _absent(_validator: Any, required: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """As the library's check, but an error's text is the name alone."""
    if isinstance(instance, dict):
        yield from (ValidationError(name) for name in required if name not in instance)


_Validator: Any = cast("Any", extend)(
    Draft202012Validator,
    {
        name: _forgiving(check)
        for name, check in {**Draft202012Validator.VALIDATORS, "required": _absent}.items()
    },
)
_NOTHING_ELSE: Registry[Any] = Registry()
"""Fetches nothing: a schema refers to itself or to nowhere."""

_KEYS_ELSEWHERE = ("additionalProperties", "unevaluatedProperties", "$ref", "allOf", "anyOf", "oneOf", "if")
"""Keywords next to which `properties` may not be all the keys there are."""


def _check(arguments: dict[str, Any], schema: Mapping[str, Any], hidden: Collection[str]) -> list[Problem]:
    validator = _Validator(_strict(schema, hidden), registry=_NOTHING_ELSE)
    problems: list[Problem] = []
    try:
        for error in islice(validator.iter_errors(arguments), _MAX_PROBLEMS):
            problems += _problems(error)
    except RecursionError:
        problems.append(
            {"reason": "other", "path": "", "message": "the tool's schema has no end", "accepted": []}
        )
    except _BROKEN:
        pass
    return problems


def _strict(schema: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """The schema of what the model may give: nothing hidden, and no keys that it does not name."""
    strict = {**schema, "required": [name for name in _required(schema) if name not in hidden]}
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        strict["properties"] = {name: part for name, part in properties.items() if name not in hidden}
        if not any(keyword in schema for keyword in _KEYS_ELSEWHERE):
            strict["additionalProperties"] = False
    return strict


def _required(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


# Problems

_BOUNDS = (
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)


def _problems(error: Any) -> list[Problem]:
    """What an error of the library comes to."""
    keyword, value, shown = error.validator, error.validator_value, _shown(error.instance)
    if keyword in {"anyOf", "oneOf"} and error.context:
        return _of_branches(error)
    if keyword == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        return [_problem(error, "unknown_key", "is not known", known, key=key) for key in _extras(error)]
    if keyword == "required":
        problem = _problem(error, "absent", "is required", _expected(error), key=error.message)
    elif keyword == "type":
        problem = _wrong_type(error, _names(value))
    elif keyword in {"enum", "const"}:
        accepted = value if keyword == "enum" else [value]
        problem = _problem(error, "not_one_of", f"{shown} is not accepted", accepted)
    elif keyword == "pattern":
        problem = _problem(error, "pattern", f"{shown} does not match", [value])
    elif keyword == "minLength" and not error.instance.strip():
        problem = _problem(error, "blank", f"{shown} is blank", _bounds(error))
    elif keyword in _BOUNDS:
        problem = _problem(error, "out_of_range", f"{shown} is out of range", _bounds(error))
    else:
        problem = _problem(error, "other", _cut(error.message, 2 * _MAX_SHOWN), [])
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
    text = f"{_shown(error.instance)} is not of type {' or '.join(kinds)}"
    return _problem(error, "wrong_type", text, kinds)


def _problem(
    error: Any, reason: Reason, message: str, accepted: list[Any], *, key: str | None = None
) -> Problem:
    places = [*error.absolute_path, *([] if key is None else [key])]
    return {"reason": reason, "path": _path(places), "message": message, "accepted": accepted}


def _extras(error: Any) -> list[str]:
    """The keys of an object that its schema does not know."""
    known, patterns = error.schema.get("properties", {}), error.schema.get("patternProperties", {})
    return [
        key
        for key in error.instance
        if key not in known and not any(re.search(pattern, key) for pattern in patterns)
    ]


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


# Words


def _line(problem: Problem) -> str:
    show = _shown if problem["reason"] == "not_one_of" else str
    # The message of a wrong type says already what is accepted.
    accepted = [] if problem["reason"] == "wrong_type" else [show(value) for value in problem["accepted"]]
    line = f"{problem['path'] or 'arguments'}: {problem['message']}"
    return f"{line}; accepted: {_cut(', '.join(accepted), 5 * _MAX_SHOWN)}" if accepted else line


_PLAIN_KEY = re.compile(r"[\w$-]{1,80}")


def _path(places: Sequence[str | int]) -> str:
    path = ""
    for place in places:
        if isinstance(place, str) and _PLAIN_KEY.fullmatch(place):
            path += f".{place}" if path else place
        else:
            path += f"[{_shown(place)}]"
    return path


def _shown(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, str):
        return _cut(repr(value[: _MAX_SHOWN + 1]))
    return _cut(json.dumps(value, ensure_ascii=False, default=repr))


def _cut(text: str, limit: int = _MAX_SHOWN) -> str:
    line = " ".join(text[: limit + 1].split())
    return line if len(text) <= limit else f"{line[: limit - 1]}…"
