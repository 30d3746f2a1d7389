"""Fields that a caller gives for a model of pydantic's: taken, or refused in one line that names the mend."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, ValidationInfo, field_validator

_MOST_PROBLEMS = 5
_LONGEST_NAME = 100
"""Characters of a name for which a like one is looked for."""


class GivenFields(BaseModel):
    """A model that takes no switch for a number: `True` is refused there, and not read as 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and _takes_a_number(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError("it is a number")
        return value


Fields = TypeVar("Fields", bound=BaseModel)


def validated(kind: type[Fields], what: str, given: Mapping[str, Any]) -> Fields:
    """A model made of given fields.

    Args:
        kind: The model.
        what: What an error calls it.
        given: The fields.

    Raises:
        ValueError: A field is unknown or wrong; the text, one line, names it, its value and the mend.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise ValueError(f"{what}: {_problems(error, kind)}") from error


def meant(name: str, names: Collection[str]) -> str:
    """The hint at the name that was meant, behind one that there is not; '' where none is like it."""
    close = get_close_matches(name, names, n=1) if len(name) <= _LONGEST_NAME else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def _problems(error: ValidationError, kind: type[BaseModel]) -> str:
    names = kind.model_fields
    found = error.errors(include_url=False)
    told = list(dict.fromkeys(_problem(problem, names) for problem in found))
    more = len(told) - _MOST_PROBLEMS
    text = "; ".join(told[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    is_unknown = any(problem["type"] in {"extra_forbidden", "invalid_key"} for problem in found)
    return f"{text}; the fields are: {', '.join(names)}" if is_unknown else text


def _problem(found: Mapping[str, Any], names: Collection[str]) -> str:
    """One thing that is wrong, on one line."""
    name = str(found["loc"][0]) if found["loc"] else ""
    if found["type"] in {"extra_forbidden", "invalid_key"}:
        return f"there is no field {name!r:.80}{meant(name, names)}"
    message = str(found["msg"]).removeprefix("Value error, ").removeprefix(f"{name}: ")
    return f"{name}: {message[:1].lower()}{message[1:]}, not {found['input']!r:.80}"


def _takes_a_number(annotation: Any) -> bool:
    """Whether a field of this type takes whole or broken numbers, and no switch."""
    parts = getattr(annotation, "__args__", (annotation,))
    return bool not in parts and (int in parts or float in parts)
