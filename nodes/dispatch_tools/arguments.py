"""Reads a tool call's arguments strictly and checks them against the tool's schema (docs/tools.md). Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnflow.graph.strict_json import read_object
from turnflow.nodes.dispatch_tools.problems import Problem, check_arguments, required_names


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
            part of it that cannot be applied, or not in bounded time, accepts anything.
        host_only: Names that only the host may set, besides those that begin with `_`; the model's values
            for them are dropped.
    """
    try:
        given = read_object(text)
    except (ValueError, RecursionError) as error:
        return ReadArguments(None, None, unparseable=str(error) or "nested too deeply")
    hidden = {name for name in (*given, *required_names(schema)) if name.startswith("_")}.union(host_only)
    arguments = {name: value for name, value in given.items() if name not in hidden}
    return ReadArguments(given, arguments, check_arguments(arguments, schema, hidden))
