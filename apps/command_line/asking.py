"""Asks a turn's questions at the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from turnflow.apps.command_line.plain import plain


def ask(console: Console, value: Any) -> Any:
    """Ask what an interrupt asks, and give the answer in the shape that resumes the turn.

    An option is chosen by its number; any other text is a free answer. What a tool asks by an interrupt of
    its own is shown as it is, and answered by a text.
    """
    if isinstance(value, dict) and value.get("type") == "ask_user":
        return {"answers": [_ask(console, question) for question in value["questions"]]}
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _ask(console, {"prompt": shown})


def _ask(console: Console, question: dict[str, Any]) -> str | list[str]:
    console.print(f"? {plain(question['prompt'])}", style="bold yellow", markup=False)
    options = [plain(option) for option in question.get("options") or ()]
    for number, option in enumerate(options, start=1):
        console.print(f"  {number}. {option}", markup=False)
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
