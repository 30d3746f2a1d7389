"""Text that cannot be stored as it is: from models, tools and users."""

from __future__ import annotations

from langgraph.types import Command

from tests.turns.scripted import Start, asks, calls, says, script
from tests.turns.stage import Stage
from turnflow import ToolOutput, run_turn


def test_a_surrogate_pair_cut_in_two_is_joined(stage: Stage, fake_provider: Start) -> None:
    events = [
        '{"choices": [{"index": 0, "delta": {"content": "Hi \\ud83d"}}]}',
        '{"choices": [{"index": 0, "delta": {"content": "\\ude00 and \\ud83d"}}]}',
        '{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}',
    ]
    raw = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
    played = stage.play(stage.graph(fake_provider({"steps": [{"raw": [raw]}]})), "Go.")
    assert played.answer == "Hi 😀 and \ufffd"


def test_halves_in_tool_results_and_arguments(stage: Stage, fake_provider: Start) -> None:
    def bad(text: str) -> ToolOutput:
        """Give bad text."""
        return ToolOutput(f"{text}\ud800", sources=[{"\udcff": 1}], checkpoint="\ud800")

    good = {"id": "c1", "name": "bad", "arguments": {"text": "x"}}
    half = {"id": "c2", "name": "bad", "arguments": '{"text": "\\ud800"}'}
    provider = fake_provider(script(calls(good, half), says("Done.")))
    played = stage.play(stage.graph(provider, tools=[bad]), "Go.")
    assert played.results()["c1"] == "x\ufffd"
    assert "surrogate" in played.results()["c2"]
    assert played.outcome["sources"] == [{"\ufffd": 1}]


def test_halves_in_what_the_user_says(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks("Which?")), says("Done."))))
    if stage.mode == "sync":
        run_turn(graph, "Go \ud800.", thread_id="t")
        played = stage.play(graph, Command(resume="one \udfff"))
        assert played.results() == {"c1": "Which? → one \ufffd"}
    else:
        stage.play(graph, "Go.")
        stage.play(graph, Command(resume="this"))
