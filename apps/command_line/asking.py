"""Asks at the terminal what a turn asks, and reads answers from the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from turnflow.apps.command_line.approving import ask_approvals, is_approval, read_decisions, show_requests
from turnflow.apps.command_line.plain import plain


def ask(console: Console, value: Any) -> Any:
    """Ask what an interrupt asks, and give the answer in the shape that resumes the turn.

    An option is chosen by its number; any other text is a free answer. What a tool asks by an interrupt of
    its own is shown as it is, and answered by a text.
    """
    if is_approval(value):
        return ask_approvals(console, value)
    if _is_question(value):
        return {"answers": [_ask(console, question) for question in value["questions"]]}
    return _ask(console, _as_question(value))


def show(console: Console, value: Any) -> None:
    """Show what an interrupt asks, without asking it."""
    if is_approval(value):
        show_requests(console, value)
        return
    for question in value["questions"] if _is_question(value) else [_as_question(value)]:
        _show(console, question)


def read_answers(value: Any, answers: Sequence[str]) -> Any:
    """What `--answer` says to an interrupt, in the shape that resumes the turn.

    Raises:
        ValueError: The answers do not fit what is asked; the text says how.
    """
    if is_approval(value):
        return read_decisions(value, answers)
    if _is_question(value):
        return {"answers": list(answers)}
    if len(answers) > 1:
        raise ValueError("a tool asks one thing; give one --answer")
    return answers[0]


def _is_question(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "ask_user"


def _as_question(value: Any) -> dict[str, Any]:
    """What a tool asks by an interrupt of its own."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return {"prompt": shown}


def _show(console: Console, question: dict[str, Any]) -> list[str]:
    """Show a question; gives its options as they are shown."""
    console.print(f"? {plain(question['prompt'])}", style="bold yellow", markup=False)
    options = [plain(option) for option in question.get("options") or ()]
    for number, option in enumerate(options, start=1):
        console.print(f"  {number}. {option}", markup=False)
    return options


def _ask(console: Console, question: dict[str, Any]) -> str | list[str]:
    options = _show(console, question)
    several = bool(question.get("multi_select")) and bool(options)
    given = console.input("  numbers, with commas: " if several else "  answer: ")
    if several:
        return [chosen(part, options) for part in given.split(",") if part.strip()]
    return chosen(given, options)


def chosen(given: str, options: Sequence[str]) -> str:
    """The option that a number stands for, else the text itself."""
    text = given.strip()
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return options[int(text) - 1]
    return text
