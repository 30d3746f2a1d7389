"""What the screen draws, and how answers are read."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from turnflow.apps.command_line.asking import ask, chosen
from turnflow.apps.command_line.plain import plain
from turnflow.apps.command_line.screen import TurnScreen


def draw(*events: dict[str, Any]) -> str:
    out = io.StringIO()
    with TurnScreen(Console(file=out, width=120, highlight=False)) as screen:
        for event in events:
            screen.show(event)
    return out.getvalue()


def test_text_thoughts_and_rows_stand_on_lines_of_their_own() -> None:
    drawn = draw(
        {"type": "thinking.delta", "text": "Hm."},
        {"type": "content.delta", "text": "Let me "},
        {"type": "content.delta", "text": "see."},
        {"type": "tool.call", "tool_call_id": "1", "name": "add", "args": {"a": 1, "b": "x" * 200}},
        {"type": "tool.started", "tool_call_id": "1", "name": "add"},
        {"type": "tool.result", "tool_call_id": "1", "name": "add", "status": "error", "content": "no\nway"},
        {"type": "nudge", "key": "empty_reply"},
        {"type": "turn.ended", "outcome": {"status": "empty", "stop_reason": "empty_reply"}},
    )
    lines = drawn.splitlines()
    assert lines[:2] == ["Hm.", "Let me see."]
    assert lines[2].startswith("✗ add(a=1, b=xxxx")
    assert lines[2].endswith("… → no way") or "→ no way" in lines[2]
    assert lines[3:] == ["· nudge: empty_reply", "· empty (empty_reply)"]


def test_unknown_events_are_passed_over() -> None:
    assert draw({"type": "something.new"}, {"no": "type"}) == ""


@pytest.mark.parametrize(
    ("given", "answer"), [("1", "red"), (" 2 ", "blue"), ("3", "3"), ("0", "0"), ("green", "green"), ("", "")]
)
def test_an_option_is_chosen_by_its_number(given: str, answer: str) -> None:
    assert chosen(given, ["red", "blue"]) == answer


def test_plain_keeps_text_and_line_breaks() -> None:
    assert plain("a\tb\nc é 你好 🙂") == "a\tb\nc é 你好 🙂"
    assert plain("\x1b[31mred\x1b[0m\r\x00") == "[31mred[0m"


def test_any_interrupt_can_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=80)
    given = iter(["2", "1, free", "yes"])
    monkeypatch.setattr(console, "input", lambda _prompt: next(given))
    one = {"prompt": "A?", "options": ["x", "y"]}
    several = {"prompt": "B?", "options": ["p", "q"], "multi_select": True}
    assert ask(console, {"type": "ask_user", "questions": [one, several]}) == {
        "answers": ["y", ["p", "free"]]
    }
    assert ask(console, {"sign": 1}) == "yes"


def test_an_answer_that_was_never_streamed_is_shown_at_the_end() -> None:
    ended = {"type": "turn.ended", "outcome": {"status": "finished", "stop_reason": "REPLAN"}}
    drawn = draw(
        {"type": "round.started", "phase": "explore"},
        {"type": "content.delta", "text": "One moment."},
        {"type": "round.started", "phase": "explore"},
        {"type": "repair", "key": "missing_label", "times": 2},
        {"type": "degraded", "degradation": "tools", "dialect": "hermes"},
        {**ended, "answer": "The file is gone."},
    )
    assert drawn.splitlines() == [
        "One moment.",
        "· sent back again: missing_label",
        "· the provider takes no tools; going on with them as text",
        "The file is gone.",
    ]
