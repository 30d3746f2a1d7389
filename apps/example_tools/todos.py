"""A task list that the model keeps; folding never takes an open task away (docs/sessions.md)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.prebuilt import ToolRuntime
from pydantic import Field
from typing_extensions import TypedDict

from turnflow.graph.tool_policy import ToolOutput, ToolPolicy

TODOS = "todos"
"""Namespace of the session's variables that the list stands in: `{"text", "done"}` by id."""

MAX_TODOS = 100

TODO_POLICY = ToolPolicy(read_only=True, parallel_safe=False)
"""What it changes is the thread, which it leaves to the graph."""


class Todo(TypedDict):
    """One task."""

    text: Annotated[str, Field(min_length=1, max_length=500, description="What is to be done.")]
    done: Annotated[bool, Field(description="Whether it is done.")]


def write_todos(
    todos: Annotated[
        list[Todo],
        Field(max_length=MAX_TODOS, description="The whole list, tasks that are done included, in order."),
    ],
    runtime: ToolRuntime,
) -> ToolOutput:
    """Write down the tasks of a longer piece of work, and mark those that are done.

    The list takes the place of the one before; an empty one takes it away. Write it before you begin, and
    again whenever a task is done or a new one comes up.
    """
    new: dict[str, Any] = {str(number): dict(todo) for number, todo in enumerate(todos, start=1)}
    old = runtime.state["session"]["vars"].get(TODOS, {})
    gone = dict.fromkeys(key for key in old if key not in new)
    return ToolOutput(_shown(todos), variables={TODOS: {**gone, **new}})


def _shown(todos: list[Todo]) -> str:
    if not todos:
        return "The list is empty."
    lines = [
        f"{number}. [{'x' if todo['done'] else ' '}] {todo['text']}"
        for number, todo in enumerate(todos, start=1)
    ]
    left = sum(not todo["done"] for todo in todos)
    return "\n".join([*lines, f"({left} of {len(todos)} left)"])
