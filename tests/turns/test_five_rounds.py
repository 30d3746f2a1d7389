"""One task under each protocol: two tools, a question, a repair, an answer. It comes out the same."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Played, Stage
from tests.turns.written import calls_tool, decides, hermes, labelled
from turnflow import ProviderProfile

ANSWER = "In blue, 17 and 23 are 40, as you said: fine."


def under_labels(text: str) -> dict[str, Any]:
    return labelled("TOOL", text)


TASKS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "native": (
        {},
        [
            calls(call("add", a=17, b=23)),
            calls(call("echo", "c2", text="fine")),
            calls(asks("Which colour?", call_id="c3")),
            says(""),
            says(ANSWER),
        ],
    ),
    "label": (
        {"protocol": "label"},
        [
            calls(call("add", a=17, b=23), content="``TOOL``"),
            calls(call("echo", "c2", text="fine"), content="``TOOL``\nNow the text."),
            calls(asks("Which colour?", call_id="c3"), content="``TOOL``"),
            says(ANSWER),
            labelled("FINISH", ANSWER),
        ],
    ),
    "json": (
        {"protocol": "json"},
        [
            calls_tool("add", a=17, b=23),
            calls_tool("echo", text="fine"),
            decides("clarify", "Which colour?"),
            says("It is 40."),
            decides("reply", ANSWER),
        ],
    ),
    "hermes": (
        {"profile": ProviderProfile(native_tools=False, text_dialects=("hermes",))},
        [
            says(hermes("add", a=17, b=23)),
            says(hermes("echo", text="fine")),
            says(hermes("ask_user", questions=[{"prompt": "Which colour?"}])),
            says(""),
            says(ANSWER),
        ],
    ),
    "label with hermes": (
        {"protocol": "label", "profile": ProviderProfile(native_tools=False)},
        [
            under_labels(hermes("add", a=17, b=23)),
            under_labels("Now the text.\n" + hermes("echo", text="fine")),
            under_labels(hermes("ask_user", questions=[{"prompt": "Which colour?"}])),
            says(ANSWER),
            labelled("FINISH", ANSWER),
        ],
    ),
}


def perform(stage: Stage, fake: Start, name: str) -> tuple[Played, Any]:
    options, steps = TASKS[name]
    provider = fake(script(*steps))
    graph = stage.graph(provider, **options)
    paused = stage.play(graph, "Add 17 and 23, say fine, and paint it.")
    assert paused.status == "paused"
    assert [question["prompt"] for question in paused.interrupts[0].value["questions"]] == ["Which colour?"]
    return stage.play(graph, Command(resume="blue")), provider


@pytest.mark.parametrize("name", TASKS)
def test_the_task_comes_out_the_same(stage: Stage, fake_provider: Start, name: str) -> None:
    played, provider = perform(stage, fake_provider, name)
    assert played.shape() == [
        "human",
        "ai:add",
        "tool",
        "ai:echo",
        "tool",
        "ai:ask_user",
        "tool",
        "ai",
    ]
    assert played.answer == ANSWER
    assert list(played.results().values()) == ["40", "fine", "Which colour? → blue"]
    assert [m.content for m in played.messages if m.type == "ai"] == ["", "", "", ANSWER]
    outcome = {key: value for key, value in played.outcome.items() if key not in {"turn_id", "usage"}}
    assert outcome == {
        "status": "finished",
        "stop_reason": "stop",
        "rounds": 5,
        "tool_calls": 3,
        "degradations": [],
        "sources": [],
        "partial": False,
        "error": None,
    }
    repairs = [*played.of("nudge"), *played.of("repair")]
    assert len(repairs) == 1
    assert provider.errors == []


@pytest.mark.parametrize("name", ["json", "hermes", "label with hermes"])
def test_without_native_calls_everything_is_text(stage: Stage, fake_provider: Start, name: str) -> None:
    _, provider = perform(stage, fake_provider, name)
    last = provider.requests[-1]
    assert "tools" not in last
    assert {m["role"] for m in last["messages"]} == {"system", "user", "assistant"}
    assert not any("tool_calls" in m for m in last["messages"])
    text = "\n".join(str(m["content"]) for m in last["messages"])
    for told in ('<tool_result name="add">\n40\n</tool_result>', '<tool_result name="ask_user">'):
        assert told in text
    system = last["messages"][0]["content"]
    assert "Add two whole numbers." in system
    assert '"properties"' in system
