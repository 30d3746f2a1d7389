"""Applies a JSON Schema (draft 2020-12) to a value in bounded time. Pure.

The checks of the keywords are the library's, but for those that can take more than linear time. What cannot
be applied, or not in bounded time, accepts anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import UndefinedTypeCheck, ValidationError

from turnflow.graph.json_schema import referred
from turnflow.graph.patterns import read_pattern
from turnflow.graph.shown import shown
from turnflow.graph.text import canonical

MAX_STEPS = 500_000
"""Steps of about 5 microseconds that checking may take."""
_MAX_STEPS_OF_A_MATCH = MAX_STEPS // 10
_MAX_UNEVALUATED = 100
"""Entries of what `unevaluatedProperties` and `unevaluatedItems` look at: the library takes the square."""
_MAX_MESSAGE = 1000
_CHARS_OF_A_STEP = 25
"""Characters of canonical JSON that are written in one step."""


class TooMuchWorkError(Exception):
    """Checking took all steps there are."""


@dataclass
class Work:
    """What has been done to check a value."""

    schema: Mapping[str, Any]
    """The whole schema, which references refer into."""
    left: int = MAX_STEPS
    """Steps that may still be taken."""
    skipped: int = 0
    """Parts of the schema that could not be applied."""
    known: dict[int, Any] = field(default_factory=dict)
    """What was found out about a part of the schema, by the part's id."""
    patterns: set[str] = field(default_factory=set)
    """Patterns that were read."""

    def take(self, steps: int) -> None:
        """Count steps.

        Raises:
            TooMuchWorkError: There are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooMuchWorkError

    def matches(self, pattern: str, text: str) -> bool | None:
        """Whether a pattern matches anywhere in a text; None where that cannot be found out in short time."""
        found = read_pattern(pattern)
        steps = found.steps(text) if found else 0
        if found is None or steps > _MAX_STEPS_OF_A_MATCH:
            self.take(1)
            self.skipped += 1
            return None
        self.take(steps if pattern in self.patterns else steps + found.size)
        self.patterns.add(pattern)
        return found.is_in(text)


def errors_of(value: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
    """What is wrong with a value, as the library says it; the text of a key that is wrong is its name.

    Raises:
        TooMuchWorkError: Checking took too many steps.
        RecursionError: The schema has no end, or value or schema are nested too deeply.
    """
    return _Validator(Work(schema), schema).iter_errors(value)


BROKEN = (UndefinedTypeCheck, TypeError, AttributeError, LookupError, ValueError, ArithmeticError)
"""What a schema raises that passed as one and still cannot be applied."""

_REVERSED = ("not", "oneOf", "if", "contains", "unevaluatedProperties", "unevaluatedItems")
"""Keywords that may refuse a value because a part of them accepts it."""


_LOOKED_THROUGH = ("properties", "required", "dependentRequired", "dependentSchemas")
"""Keywords whose names are all looked for in a value, even in an empty one."""


@dataclass
class _Validator:
    """What the library's checks ask of a validator."""

    work: Work
    schema: Any

    def evolve(self, schema: Any) -> _Validator:
        """The same with another schema."""
        return _Validator(self.work, schema)

    def is_type(self, instance: Any, name: str) -> bool:
        """Whether a value is of a type that JSON Schema names."""
        return bool(Draft202012Validator.TYPE_CHECKER.is_type(instance, name))

    def is_valid(self, instance: Any) -> bool:
        """Whether nothing is wrong with a value."""
        return next(self.iter_errors(instance), None) is None

    def iter_errors(self, instance: Any) -> Iterator[ValidationError]:
        """What is wrong with a value."""
        return self.descend(instance, self.schema)

    def descend(
        self, instance: Any, schema: Any, path: str | int | None = None, schema_path: str | int | None = None
    ) -> Iterator[ValidationError]:
        """What is wrong with a part of the value by a part of the schema, and where both are."""
        self.work.take(1)
        places = [] if path is None else [path]
        schema_places = [] if schema_path is None else [schema_path]
        if schema is False:
            yield ValidationError("is not allowed", "", places, schema_path=schema_places or [""])
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            self.work.skipped += 1
            return
        inner = self.evolve(schema)
        for keyword, value, check in [(k, v, _CHECKS[k]) for k, v in schema.items() if k in _CHECKS]:
            skipped = self.work.skipped
            try:
                self.work.take(1 + len(value) // 20 if keyword in _LOOKED_THROUGH else 1)
                for error in check(inner, value, instance, schema) or ():
                    if self.work.skipped > skipped and keyword in _REVERSED and not error.context:
                        continue
                    self._place(error, keyword, value, instance, schema)
                    error.path.extendleft(places)
                    error.schema_path.extendleft(schema_places)
                    yield error
            except BROKEN:
                self.work.skipped += 1

    def _place(self, error: ValidationError, keyword: str, value: Any, instance: Any, schema: Any) -> None:
        """Say in an error whose it is, unless it comes from further inside."""
        self.work.take(1)
        if not error.schema_path:
            self.work.take(len(error.message) // 200)
            error.message = error.message[:_MAX_MESSAGE]
            error.validator, error.validator_value = keyword, value
            error.instance, error.schema = instance, schema
        error.schema_path.appendleft(keyword)


_Found = Iterable[ValidationError]


def _refer(validator: _Validator, reference: str, instance: Any, _schema: Any) -> _Found:
    validator.work.take(len(reference) // 20)
    return validator.descend(instance, referred(validator.work.schema, reference))


def _type(validator: _Validator, names: str | list[str], instance: Any, _schema: Any) -> _Found:
    if not any(validator.is_type(instance, name) for name in ([names] if isinstance(names, str) else names)):
        yield ValidationError("is of another type")


def _enum(validator: _Validator, values: list[Any], instance: Any, _schema: Any) -> _Found:
    work = validator.work
    if id(values) not in work.known:
        texts = [canonical(value) for value in values]
        work.take(sum(map(len, texts)) // _CHARS_OF_A_STEP)
        work.known[id(values)] = frozenset(texts)
    text = canonical(instance)
    work.take(len(text) // _CHARS_OF_A_STEP)
    if text not in work.known[id(values)]:
        yield ValidationError("is not accepted")


def _unique_items(validator: _Validator, is_wanted: Any, instance: Any, _schema: Any) -> _Found:
    if not is_wanted or not isinstance(instance, list):
        return
    found: set[str] = set()
    for item in instance:
        text = canonical(item)
        validator.work.take(1 + len(text) // _CHARS_OF_A_STEP)
        if text in found:
            yield ValidationError(f"has {shown(item)} twice; each item must be another one")
            return
        found.add(text)


def _required(_validator: _Validator, names: list[str], instance: Any, _schema: Any) -> _Found:
    if isinstance(instance, dict):
        yield from (ValidationError(name) for name in names if name not in instance)


def _pattern(validator: _Validator, pattern: str, instance: Any, _schema: Any) -> _Found:
    if isinstance(instance, str) and validator.work.matches(pattern, instance) is False:
        yield ValidationError("does not match")


def _pattern_properties(
    validator: _Validator, parts: Mapping[str, Any], instance: Any, _schema: Any
) -> _Found:
    if isinstance(instance, dict):
        for pattern, part in parts.items():
            for key in instance:
                if validator.work.matches(pattern, key):
                    yield from validator.descend(instance[key], part, path=key, schema_path=pattern)


def _additional_properties(
    validator: _Validator, part: Any, instance: Any, schema: Mapping[str, Any]
) -> _Found:
    if not isinstance(instance, dict):
        return
    validator.work.take(len(instance) // 20)
    patterns = schema.get("patternProperties", {})
    properties = schema.get("properties", {})
    for key, value in instance.items():
        # What is not known of a pattern is taken as a match.
        if key in properties or any(validator.work.matches(name, key) is not False for name in patterns):
            continue
        if part is False:
            yield ValidationError(key)
        else:
            yield from validator.descend(value, part, path=key)


def _unevaluated(keyword: str) -> Callable[..., Any]:
    """The library's check, where it takes little time and applies no patterns by itself."""
    check = Draft202012Validator.VALIDATORS[keyword]

    def bounded(validator: _Validator, part: Any, instance: Any, schema: Mapping[str, Any]) -> _Found:
        if not isinstance(instance, dict | list):
            return
        if len(instance) > _MAX_UNEVALUATED or _has_patterns(schema, validator.work):
            validator.work.skipped += 1
            return
        yield from check(cast("Any", validator), part, instance, schema)

    return bounded


def _has_patterns(schema: Mapping[str, Any], work: Work) -> bool:
    if id(schema) not in work.known:
        work.known[id(schema)] = _names_patterns(schema)
    return bool(work.known[id(schema)])


def _names_patterns(part: Any) -> bool:
    if isinstance(part, dict):
        return "patternProperties" in part or any(map(_names_patterns, part.values()))
    return isinstance(part, list) and any(map(_names_patterns, part))


_CHECKS: dict[str, Callable[..., Any]] = {
    **{name: check for name, check in Draft202012Validator.VALIDATORS.items() if name != "format"},
    "$ref": _refer,
    "$dynamicRef": _refer,
    "type": _type,
    "enum": _enum,
    "uniqueItems": _unique_items,
    "required": _required,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated("unevaluatedProperties"),
    "unevaluatedItems": _unevaluated("unevaluatedItems"),
}
