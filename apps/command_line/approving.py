"""Asks at the terminal whether tool calls may be done, and reads decisions from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from turnflow.apps.command_line.plain import plain, visible

MAX_SHOWN = 2000
MAX_LINES = 20
"""Characters and lines of a call's arguments that are shown before somebody asks for all of them."""

_FIRST_LINES, _LAST_LINES = 3, 2
"""Of what the tool says of itself, and behind that why somebody is asked."""
_MAX_LINE = 300

_ANY = ("approve", "edit", "reject", "respond")
_KEYS = {
    "y": "approve",
    "yes": "approve",
    "a": "session",
    "always": "session",
    "n": "reject",
    "no": "reject",
    "e": "edit",
    "edit": "edit",
    "r": "respond",
    "respond": "respond",
    "v": "view",
}
_CHOICES = {
    "approve": ["y yes", "a yes, and to all later calls of {name} in this thread, whatever their arguments"],
    "reject": ["n no (a reason may follow)"],
    "edit": ["e edit the arguments"],
    "respond": ["r answer in its place (the text may follow)"],
}

Decision = dict[str, Any]


def is_approval(value: object) -> bool:
    """Whether an interrupt asks for decisions about calls."""
    if not isinstance(value, Mapping) or value.get("type") != "approval":
        return False
    requests = value.get("action_requests")
    return isinstance(requests, list) and bool(requests) and all(map(_is_request, requests))


def _is_request(request: object) -> bool:
    return (
        isinstance(request, Mapping)
        and isinstance(request.get("name"), str)
        and isinstance(request.get("args"), Mapping)
        and isinstance(request.get("description", ""), str)
    )


def ask_approvals(console: Console, value: Mapping[str, Any]) -> dict[str, Any]:
    """Ask about each call of an approval; gives `{"decisions": [...]}` in the order of the calls.

    Nothing is decided by a blank line: a call is approved only by somebody who says so.
    """
    requests = value["action_requests"]
    return {
        "decisions": [
            _ask(console, request, allowed_for(value, place), f"{place + 1} of {len(requests)}")
            for place, request in enumerate(requests)
        ]
    }


def allowed_for(value: Mapping[str, Any], place: int) -> Sequence[str]:
    """What may be decided about the call in this place."""
    request, configs = value["action_requests"][place], value.get("review_configs") or ()
    if len(configs) == len(value["action_requests"]):  # one for each, names may come twice
        configs = configs[place : place + 1]
    for config in configs:
        if config.get("action_name") == request["name"]:
            return [kind for kind in _ANY if kind in config.get("allowed_decisions", _ANY)]
    return _ANY


def show_requests(console: Console, value: Mapping[str, Any]) -> None:
    """Show the calls of an approval that nobody is asked about here, their arguments whole."""
    requests = value["action_requests"]
    for place, request in enumerate(requests):
        _show(console, request, f"{place + 1} of {len(requests)}", _arguments(request["args"]))


def _show(console: Console, request: Mapping[str, Any], place: str, arguments: str) -> None:
    """Show a call: first what is said of it, which may be long, and last what would run."""
    for line in _about(request):
        console.print(f"  {line}", style="dim", markup=False, soft_wrap=True)
    _print_title(console, request, place)
    console.print(arguments, markup=False, soft_wrap=True)


def _print_title(console: Console, request: Mapping[str, Any], place: str) -> None:
    title = f"? May this be done? ({place}) {visible(request['name'])}"
    console.print(title, style="bold yellow", markup=False, soft_wrap=True)


def _about(request: Mapping[str, Any]) -> list[str]:
    """The first and the last lines of a call's description, without the call itself."""
    lines = [
        line for line in request.get("description", "").partition("\n\n")[2].splitlines() if line.strip()
    ]
    left_out = len(lines) - _FIRST_LINES - _LAST_LINES
    if left_out > 0:
        lines[_FIRST_LINES:-_LAST_LINES] = [f"… ({left_out} more lines)"]
    return [visible(line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…") for line in lines]


def _parted(arguments: str) -> tuple[str, str]:
    """What is shown of arguments at once, and the rest."""
    shown = "\n".join(arguments.split("\n", MAX_LINES)[:MAX_LINES])[:MAX_SHOWN]
    return shown, arguments[len(shown) :].removeprefix("\n")


def _ask(console: Console, request: Mapping[str, Any], allowed: Sequence[str], place: str) -> Decision:
    shown, rest = _parted(_arguments(request["args"]))
    _show(console, request, place, shown)
    unseen = rest
    if unseen:
        text = f"  … {len(unseen)} more characters are not shown yet"
        console.print(text, style="bold red", markup=False, soft_wrap=True)
    choices = [text.format(name=visible(request["name"])) for kind in allowed for text in _CHOICES[kind]]
    prompt = escape(f"  {'; '.join(choices + (['v view the rest'] if rest else []))}: ")
    while True:
        word, _, said = console.input(prompt).strip().partition(" ")
        kind = _KEYS.get(word.lower().rstrip(",.:;!"), "")
        if kind == "view" and rest:
            console.print(rest, markup=False, soft_wrap=True)
            _print_title(console, request, place)
            unseen = ""
        elif kind in {"approve", "session"} and said:
            # They may be a condition, which nobody would read.
            console.print("  a yes takes no further words", style="red", markup=False)
        elif kind in {"approve", "session"} and unseen:
            console.print("  a yes needs all of it to be seen: first v", style="red", markup=False)
        elif (kind == "session" and "approve" in allowed) or kind in allowed:
            decision = _decision(console, kind, said.strip(), request)
            if decision is not None:
                return decision
        else:
            console.print("  begin with one of the letters", style="red", markup=False)


def _decision(console: Console, kind: str, said: str, request: Mapping[str, Any]) -> Decision | None:
    """What was decided, or None where it was taken back."""
    if kind == "session":
        return {"type": "approve", "scope": "session"}
    if kind == "reject":
        return {"type": "reject", **({"message": said} if said else {})}
    if kind == "respond":
        text = said or console.input("  the answer in its place: ").strip()
        return {"type": "respond", "message": text} if text else None
    if kind == "edit":
        arguments = _edited(console)
        if arguments is None:
            return None
        return {"type": "edit", "edited_action": {"name": request["name"], "args": arguments}}
    return {"type": "approve"}


def _edited(console: Console) -> dict[str, Any] | None:
    """The arguments that somebody types, asked for until they are JSON; None for a blank line."""
    while True:
        text = console.input("  all arguments as one JSON object (blank: back): ").strip()
        if not text:
            return None
        try:
            return _object(text)
        except ValueError as error:
            console.print(f"  {plain(str(error))}", style="red", markup=False)


def _object(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"that is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("that is no JSON object; write one as {…}")
    return given


def _arguments(args: Mapping[str, Any]) -> str:
    """The arguments as they would run: what a terminal would hide or obey is written out."""
    text = json.dumps(args, ensure_ascii=False, indent=2, default=str)
    return "\n".join(f"  {visible(line)}" for line in text.split("\n"))


def read_decisions(value: Mapping[str, Any], answers: Sequence[str]) -> dict[str, Any]:
    """The decisions that `--answer` gives, one for each call, in order.

    One is `approve`, `approve session`, `reject`, `reject: why`, `respond: text`, or JSON. One answer may
    also give all, as JSON: `{"decisions": [...]}`.

    Raises:
        ValueError: They are not understood, not allowed, or not one for each call; the text says which.
    """
    if len(answers) == 1 and answers[0].lstrip().startswith("{"):
        given = _object(answers[0])
        if "decisions" in given:
            return given
    requests = value["action_requests"]
    if len(answers) != len(requests):
        names = ", ".join(visible(request["name"]) for request in requests)
        raise ValueError(
            f"{len(requests)} calls wait for a decision ({names}); give --answer once for each, in order"
        )
    return {
        "decisions": [
            _read(answer, allowed_for(value, place), requests[place]["name"])
            for place, answer in enumerate(answers)
        ]
    }


def _read(answer: str, allowed: Sequence[str], name: str) -> Decision:
    text = answer.strip()
    if text.startswith("{"):
        decision = _object(text)
    else:
        word, colon, rest = text.partition(":")
        decision = _said(word.strip().lower(), rest.strip() if colon else "")
    if decision.get("type") not in allowed:
        forms = ", ".join(map(_form, allowed))
        raise ValueError(f"'{visible(text)[:80]}' is no decision about {visible(name)}; say {forms}")
    return decision


def _said(word: str, rest: str) -> Decision:
    """The decision in words; {} if it is none."""
    match word:
        case "approve" if not rest:
            return {"type": "approve"}
        case "approve session" if not rest:
            return {"type": "approve", "scope": "session"}
        case "reject":
            return {"type": "reject", **({"message": rest} if rest else {})}
        case "respond" if rest:
            return {"type": "respond", "message": rest}
        case _:
            return {}


def _form(kind: str) -> str:
    """How a kind of decision is written."""
    return {
        "approve": "approve",
        "reject": "reject or reject: why",
        "respond": "respond: text",
        "edit": 'or {"type": "edit", "edited_action": {"name": …, "args": {…}}}',
    }[kind]
