"""Reads a whole reply as one JSON decision, and says what is wrong with it (docs/protocols.md). Pure."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from typing_extensions import TypedDict

from turnflow.graph.json_calls import written_calls
from turnflow.graph.json_object import FoundObject, find_object, without_cut_escape
from turnflow.graph.protocol import JSON_ACTIONS
from turnflow.graph.shown import cut, shown
from turnflow.graph.strict_json import read_object
from turnflow.graph.text import storable, storable_json
from turnflow.graph.text_call import TextCall

_INPUT = re.compile(r"""(?<![\\\w])["'“‘]?action_input["'”’]?\s*:\s*""")

_TAIL = " \t\n\r`"
"""What may stand behind a text that was cut off."""

_QUOTES = tuple("\"'“‘")

_SHAPES = {
    "reply": "the text of the reply, a string that is not blank",
    "call_tool": 'an object {"tool_name": string, "parameters": object}, or a list of those',
    "clarify": 'the question, a string that is not blank, or {"question": string, "options": [string]}',
}


class JsonDecision(TypedDict):
    """What a reply asks for. With a violation it asks for nothing: no text, no calls and no question."""

    action: str
    """One of `JSON_ACTIONS`; with `unknown_action` what stands there; "" if there is none."""
    thought: str
    text: str
    """The reply's text."""
    calls: list[TextCall]
    question: str
    options: list[str]
    violation: str
    """"", `invalid_json`, `schema:<key>`, `unknown_action` or `wrong_input_shape`."""
    problem: str
    """What is wrong, in one short line."""


def read_decision(text: str) -> JsonDecision:
    """The decision of a reply, its thinking left out. Takes linear time and raises for no text."""
    found = find_object(text)
    if found is None:
        return _decision(violation="invalid_json", problem="there is no JSON object that can be read")
    decision = _decide(found, text)
    if decision["action"] not in {"", "reply"} and not decision["violation"] and _goes_on(found, text):
        # Which of them is meant? The first may be one that was only quoted.
        problem = "there is more than one decision; send one"
        return _decision(thought=decision["thought"], violation="invalid_json", problem=problem)
    return decision


def is_alone(text: str) -> bool:
    """Whether the text ends with its first object, strict JSON; blanks and a fence's end may follow."""
    found = find_object(text)
    return found is not None and found.end >= 0 and not text[found.end :].strip(_TAIL)


def _goes_on(found: FoundObject, text: str) -> bool:
    """Whether another decision follows."""
    following = find_object(text[found.end :]) if found.end >= 0 else None
    return following is not None and "action" in following.values


def shown_reply(thought: str, text: str) -> JsonDecision:
    """The decision to reply with a text that has been shown; a violation if the text is blank."""
    values = {"thought": thought, "action": "reply", "action_input": text}
    return {**_decide(FoundObject(values), ""), "text": text}


def _decide(found: FoundObject, text: str) -> JsonDecision:
    thought, action = found.values.get("thought"), found.values.get("action")
    decision = _decision(
        thought=storable(thought) if isinstance(thought, str) else "",
        action=storable(_action(action)) if isinstance(action, str) else "",
    )
    if problem := _schema_problem(found.values):
        decision["violation"], decision["problem"] = problem
    elif decision["action"] not in JSON_ACTIONS:
        decision["violation"] = "unknown_action"
        decision["problem"] = f"{shown(action)} is not one of: {', '.join(JSON_ACTIONS)}"
    elif not _take_input(decision, text, found):
        decision["violation"] = "wrong_input_shape"
        shape = _SHAPES[decision["action"]]
        decision["problem"] = f'"action_input" of {decision["action"]} is {shape}'
    return decision


def _decision(*, action: str = "", thought: str = "", violation: str = "", problem: str = "") -> JsonDecision:
    return {
        "action": action,
        "thought": thought,
        "text": "",
        "calls": [],
        "question": "",
        "options": [],
        "violation": violation,
        "problem": problem,
    }


def _action(name: str) -> str:
    """The action of this name, in any case and with blanks around it; else the name, shortened."""
    action = name.strip().lower()
    return action if action in JSON_ACTIONS else cut(name.strip())


def _schema_problem(values: dict[str, Any]) -> tuple[str, str] | None:
    for key in ("thought", "action"):
        if not isinstance(values.get(key), str):
            problem = f'"{key}" is a string, this is {shown(values[key])}' if key in values else _missing(key)
            return f"schema:{key}", problem
    if "action_input" not in values:
        return "schema:action_input", _missing("action_input")
    return None


def _missing(key: str) -> str:
    return f'the key "{key}" is missing'


def _take_input(decision: JsonDecision, text: str, found: FoundObject) -> bool:
    """Put what the action is about into the decision; whether it has the action's shape."""
    value = found.values["action_input"]
    if decision["action"] == "call_tool":
        decision["calls"] = _calls(text, found.input_at, value)
        return bool(decision["calls"])
    if decision["action"] == "clarify":
        decision["question"], decision["options"] = _question(value)
        return bool(decision["question"])
    if not isinstance(value, str) or not value.strip():
        return False
    decision["text"] = storable(value)
    return True


def _question(value: Any) -> tuple[str, list[str]]:
    """A question and what can be answered; ("", []) if the value is none."""
    options: Any = None
    if isinstance(value, dict):
        options = value.get("options")
        value = next((value[key] for key in ("question", "prompt") if key in value), None)
    if not isinstance(value, str) or not value.strip():
        return "", []
    if not isinstance(options, list | None) or not all(isinstance(option, str) for option in options or ()):
        return "", []
    return storable(value.strip()), [storable(option) for option in options or () if option.strip()]


def _calls(text: str, at: int, value: Any) -> list[TextCall]:
    """The calls as they stand in the text at `at`, or what the value says of them if that is in doubt."""
    if not isinstance(value, dict | list):
        return []
    if at >= 0:
        return written_calls(text, at) or []
    meant = _meant(value)
    if meant and _is_cut_off(text, meant[-1]["name"]):
        meant.pop()
    places = list(islice(_INPUT.finditer(text), 2))
    written = written_calls(text, places[0].end()) if len(places) == 1 else None
    if not written:
        return meant
    return written if _agree(written, meant) else [{**each, "complete": False} for each in written]


def _is_cut_off(text: str, name: str) -> bool:
    """Whether the text ends in the name, without the quote that would close it."""
    end = without_cut_escape(text).rstrip(_TAIL)
    return end.endswith(name) and end.removesuffix(name)[-1:] in _QUOTES


def _meant(value: dict[str, Any] | list[Any]) -> list[TextCall]:
    """The calls of a mended value. None of them is complete: its end may be made up."""
    calls: list[TextCall] = []
    for each in value if isinstance(value, list) else [value]:
        name = each.get("tool_name") if isinstance(each, dict) else None
        parameters = each.get("parameters") if isinstance(each, dict) else None
        if not isinstance(name, str) or not name.strip() or not isinstance(parameters, dict | str | None):
            return []
        if not isinstance(parameters, str):
            parameters = json.dumps(storable_json(parameters or {}), ensure_ascii=False)
        calls.append({"name": storable(name.strip()), "arguments": storable(parameters), "complete": False})
    return calls


def _agree(written: list[TextCall], meant: list[TextCall]) -> bool:
    """Whether what was found in the text is what mending it gave, as far as the arguments can be read."""
    return len(written) == len(meant) and all(
        one["name"] == other["name"] and _have_same_arguments(one, other)
        for one, other in zip(written, meant, strict=True)
    )


def _have_same_arguments(written: TextCall, meant: TextCall) -> bool:
    try:
        arguments = read_object(written["arguments"])
    except (ValueError, RecursionError):
        return True  # whoever runs the call refuses them too
    try:
        return arguments == read_object(meant["arguments"])
    except (ValueError, RecursionError):
        return False
