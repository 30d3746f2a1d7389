"""The scenario scripts in tests/scenarios are valid, explained, and call known tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnflow.apps.fake_provider import load_script

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
TOOLS = {"add", "echo", "boom", "ask_user"}


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 30


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_loads_and_says_what_it_shows(path: Path) -> None:
    script = load_script(path)
    assert path.read_text(encoding="utf-8").startswith("# ")
    assert script.note == path.stem
    called = {call.name for step in script.steps if step.reply for call in step.reply.tool_calls}
    assert called <= TOOLS or path.stem == "unknown_tool"
