"""The task list that the model keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from turnflow.apps.example_tools import TODO_POLICY, write_todos
from turnflow.apps.example_tools.todos import MAX_TODOS, TODOS
from turnflow.graph.state import merge_session
from turnflow.graph.tool_registry import ToolRegistry


def write(todos: Any, session: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the model reads, and the session afterwards."""
    runtime: Any = SimpleNamespace(state={"session": {"vars": session.get("vars", {})}})
    output = write_todos(todos, runtime)
    return str(output.content), merge_session(session, {"vars": dict(output.variables)})


def todo(text: str, *, done: bool = False) -> dict[str, Any]:
    return {"text": text, "done": done}


def test_a_list_is_written_and_shown() -> None:
    shown, session = write([todo("Pack", done=True), todo("Send")], {})
    assert shown == "1. [x] Pack\n2. [ ] Send\n(1 of 2 left)"
    assert session["vars"][TODOS] == {"1": todo("Pack", done=True), "2": todo("Send")}


def test_a_list_takes_the_place_of_the_one_before() -> None:
    _, session = write([todo("Pack"), todo("Send"), todo("Rest")], {"vars": {"form": {"step": 1}}})
    shown, session = write([todo("Rest")], session)
    assert shown == "1. [ ] Rest\n(1 of 1 left)"
    assert session["vars"] == {"form": {"step": 1}, TODOS: {"1": todo("Rest")}}


def test_an_empty_list_takes_it_away() -> None:
    _, session = write([todo("Pack")], {})
    assert write([], session) == ("The list is empty.", {"vars": {}})


@pytest.mark.parametrize(
    "todos",
    [
        [{"text": "", "done": False}],
        [{"text": "x" * 501, "done": False}],
        [todo("x")] * (MAX_TODOS + 1),
        ["x"],
    ],
)
def test_arguments_are_bounded(todos: Any) -> None:
    registered = ToolRegistry([write_todos], {"write_todos": TODO_POLICY}).find("write_todos")
    assert registered is not None
    schema: Any = registered.tool.args_schema
    with pytest.raises(ValidationError):
        schema.model_validate({"todos": todos, "runtime": None})


def test_the_model_is_not_told_of_the_runtime() -> None:
    registered = ToolRegistry([write_todos], {}).find("write_todos")
    assert registered is not None
    assert list(registered.definition["function"]["parameters"]["properties"]) == ["todos"]
