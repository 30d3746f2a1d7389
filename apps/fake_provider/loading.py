"""Reading scripts from files and dicts, with errors in one readable line."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from turnflow.apps.fake_provider import script as script_models
from turnflow.apps.fake_provider.script import Script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

_FIELDS = frozenset(
    name
    for model in vars(script_models).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
    for name in model.model_fields
)


class ScriptError(ValueError):
    """A script cannot be read. The text is one line: the file, the step, the field, what is wrong."""


def load_script(path: str | Path) -> Script:
    """Read a script from a YAML or JSON file.

    Args:
        path: The file; JSON is read as the YAML that it is.

    Raises:
        ScriptError: The file cannot be read, is no YAML, or is no script.
    """
    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScriptError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ScriptError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise ScriptError(f"{path}:{place} {error.problem or 'not YAML'}") from error
    except yaml.YAMLError as error:
        raise ScriptError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise ScriptError(f"{path}: a script is a mapping with 'steps', this is a {type(data).__name__}")
    return parse_script(data, name=str(path))


def parse_script(data: Mapping[str, Any], *, name: str = "script") -> Script:
    """Validate a script given as a dict.

    Args:
        data: The script's fields, as in a file.
        name: What error messages call the script.

    Raises:
        ScriptError: A field is missing, unknown or wrong.
    """
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        raise ScriptError(f"{name}: {_one_line(error)}") from error


def _one_line(error: ValidationError) -> str:
    # Of a union's branches the one that got deepest into the data is the one that was meant.
    problems = sorted(error.errors(include_url=False), key=lambda problem: -len(_place(problem)))
    first = problems[0]
    where = _written(_place(first))
    text = f"{where}: {_what(first)}" if where else _what(first)
    others = {_place(problem) for problem in problems} - {_place(first)}
    return f"{text} (and {len(others)} more)" if others else text


def _place(problem: ErrorDetails) -> tuple[str | int, ...]:
    location = problem["loc"]
    place = tuple(part for part in location if isinstance(part, int) or part in _FIELDS)
    if problem["type"] == "extra_forbidden" and location[-1] not in place[-1:]:
        place += (location[-1],)
    return place


def _written(place: tuple[str | int, ...]) -> str:
    if len(place) > 1 and place[0] == "steps" and isinstance(place[1], int):
        field = ".".join(map(str, place[2:]))
        return f"step {place[1] + 1}" + (f": {field}" if field else "")
    return ".".join(map(str, place))


def _what(problem: ErrorDetails) -> str:
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(problem["loc"][-1]), _FIELDS, n=1)
        return f"unknown field; did you mean '{near[0]}'?" if near else "unknown field"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] in {"missing", "value_error"}:
        return message
    return f"{message}, got {str(problem['input'])[:80]!r}"
