"""The example tool `write_todos` in a turn: the list stays with the session."""

from __future__ import annotations

from typing import Any

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage
from turnflow.apps.example_tools import TODO_POLICY, write_todos


def write(call_id: str, **done: bool) -> dict[str, Any]:
    return call(
        "write_todos", call_id, todos=[{"text": text, "done": is_done} for text, is_done in done.items()]
    )


def test_the_list_outlives_its_turn(stage: Stage, fake_provider: Start) -> None:
    steps = [
        calls(write("c1", pack=False, send=False)),
        says("Begun."),
        calls(write("c2", pack=True)),
        says("Ok."),
    ]
    graph = stage.graph(
        fake_provider(script(*steps)), tools=[write_todos], policies={"write_todos": TODO_POLICY}
    )
    stage.play(graph, "Go.")
    config: Any = {"configurable": {"thread_id": "t"}}
    assert stage.state(graph, config)["session"]["vars"]["todos"] == {
        "1": {"text": "pack", "done": False},
        "2": {"text": "send", "done": False},
    }
    played = stage.play(graph, "On.")
    assert played.results()["c2"] == "1. [x] pack\n(0 of 1 left)"
    assert stage.state(graph, config)["session"]["vars"] == {"todos": {"1": {"text": "pack", "done": True}}}
