"""Every rule of strict mode accepts what it should and refuses what it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from tests.apps.fake_provider.asking import ask, request_body
from turnflow.apps.fake_provider.script import Rule, Strictness
from turnflow.apps.fake_provider.strict import RULES, malformed, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]

Message = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}}}


def system(content: Any = "be kind") -> Message:
    return {"role": "system", "content": content}


def user(content: Any = "hello") -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any = "hi") -> Message:
    return {"role": "assistant", "content": content}


def call(call_id: str = "c1", arguments: Any = "{}", name: str = "f") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*call_ids: str) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [call(call_id) for call_id in call_ids]}


def result(call_id: str = "c1", content: Any = "done") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def talk(*messages: Message) -> dict[str, Any]:
    return request_body(messages=list(messages))


def tools(*entries: Any) -> dict[str, Any]:
    return request_body(tools=list(entries))


def with_call(entry: Any) -> dict[str, Any]:
    return talk(user(), {"role": "assistant", "content": None, "tool_calls": [entry]}, result())


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


ACCEPTED: list[tuple[Rule, dict[str, Any]]] = [
    ("unknown_parameter", request_body(temperature=0, max_completion_tokens=9, seed=1)),
    ("stray_parameter", request_body(tools=[TOOL], tool_choice="auto", parallel_tool_calls=False)),
    ("stray_parameter", request_body(stream=True, stream_options={"include_usage": True})),
    ("invalid_tools", tools(TOOL)),
    ("invalid_tools", tools(function(), function(name="g", strict=True))),
    ("invalid_tool_choice", request_body(tools=[TOOL], tool_choice="required")),
    ("invalid_tool_choice", request_body(tools=[TOOL], tool_choice=function())),
    ("unknown_message_field", talk(user() | {"name": "ada"}, assistant() | {"refusal": None}, user())),
    ("system_position", talk(system(), user())),
    ("user_first", talk(system(), user(), assistant(), user())),
    ("user_first", talk(user())),
    ("consecutive_users", talk(user(), assistant(), user())),
    ("consecutive_assistants", talk(user(), calls("c1"), result(), assistant(), user())),
    ("user_after_tool", talk(user(), calls("c1"), result(), assistant(), user())),
    ("last_role", talk(user(), calls("c1"), result())),
    ("content_parts", talk(user([{"type": "image_url", "image_url": {"url": "data:"}}]))),
    ("empty_content", talk(user([{"type": "text", "text": "x"}]))),
    ("empty_content", talk(user(), calls("c1"), result())),
    ("empty_content", talk(user(), calls("c1") | {"content": ""}, result())),
    ("invalid_tool_calls", with_call(call(arguments='{"a": "ü"}'))),
    ("duplicate_call_ids", talk(user(), calls("c1", "c2"), result("c2"), result("c1"))),
    ("unanswered_calls", talk(user(), calls("c1", "c2"), result("c2"), result("c1"), assistant(), user())),
    ("unmatched_results", talk(user(), calls("c1", "c2"), result("c2"), result("c1"))),
]

REFUSED: list[tuple[Rule, dict[str, Any], str]] = [
    ("unknown_parameter", request_body(functions=[]), "functions"),
    ("unknown_parameter", request_body(top_k=4), "top_k"),
    ("stray_parameter", request_body(tool_choice="auto"), "tool_choice"),
    ("stray_parameter", request_body(parallel_tool_calls=True), "parallel_tool_calls"),
    ("stray_parameter", request_body(stream_options={"include_usage": True}), "stream_options"),
    ("invalid_tools", tools(), "tools"),
    ("invalid_tools", request_body(tools=None), "tools"),
    ("invalid_tools", tools(TOOL, TOOL), "tools"),
    ("invalid_tools", tools("f"), "tools[0]"),
    ("invalid_tools", tools({"type": "function"}), "tools[0]"),
    ("invalid_tools", tools(TOOL | {"type": "tool"}), "tools[0]"),
    ("invalid_tools", tools(TOOL, function(name="not a name")), "tools[1]"),
    ("invalid_tools", tools(function(returns="x")), "tools[0]"),
    ("invalid_tools", tools(function(parameters={"type": "string"})), "tools[0]"),
    ("invalid_tool_choice", request_body(tools=[TOOL], tool_choice="any"), "tool_choice"),
    ("invalid_tool_choice", request_body(tools=[TOOL], tool_choice=function(name="g")), "tool_choice"),
    ("unknown_message_field", talk(user() | {"id": "m1"}), "messages[0].id"),
    (
        "unknown_message_field",
        talk(user(), assistant() | {"reasoning": "hm"}, user()),
        "messages[1].reasoning",
    ),
    ("system_position", talk(user(), system(), user()), "messages[1].role"),
    ("system_position", talk(system(), system(), user()), "messages[1].role"),
    ("user_first", talk(system(), assistant(), user()), "messages[1].role"),
    ("user_first", talk(assistant(), user()), "messages[0].role"),
    ("consecutive_users", talk(user(), user()), "messages[1].role"),
    ("consecutive_assistants", talk(user(), assistant(), assistant(), user()), "messages[2].role"),
    ("user_after_tool", talk(user(), calls("c1"), result(), user()), "messages[3].role"),
    ("last_role", talk(user(), assistant()), "messages[1].role"),
    ("last_role", talk(system()), "messages[0].role"),
    ("content_parts", talk(user(7)), "messages[0].content"),
    ("content_parts", talk(user([{"type": "thinking", "thinking": "x"}])), "messages[0].content[0]"),
    ("content_parts", talk(user(["x"])), "messages[0].content[0]"),
    ("empty_content", talk(user(None)), "messages[0].content"),
    ("empty_content", talk(user("")), "messages[0].content"),
    ("empty_content", talk(user(" \n")), "messages[0].content"),
    ("empty_content", talk(user([])), "messages[0].content"),
    ("empty_content", talk(user([{"type": "text", "text": " "}])), "messages[0].content"),
    ("empty_content", talk(user(), assistant(""), user()), "messages[1].content"),
    ("empty_content", talk(user(), calls("c1"), result(content="")), "messages[2].content"),
    ("invalid_tool_calls", with_call(call(arguments='{"a": ')), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", with_call(call(arguments="[1]")), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", with_call(call(arguments="")), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", with_call(call(arguments={})), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", with_call(call(name="")), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", with_call(call(call_id="")), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", with_call(call() | {"index": 0}), "messages[1].tool_calls[0]"),
    ("invalid_tool_calls", talk(user(), assistant() | {"tool_calls": []}, user()), "messages[1].tool_calls"),
    ("duplicate_call_ids", talk(user(), calls("c1"), result(), calls("c1"), result()), "messages"),
    ("unanswered_calls", talk(user(), calls("c1", "c2"), result("c1")), "messages[1].tool_calls"),
    ("unanswered_calls", talk(user(), calls("c1"), user()), "messages[1].tool_calls"),
    ("unanswered_calls", talk(user(), calls("c1"), assistant(), result("c1")), "messages[1].tool_calls"),
    ("unmatched_results", talk(user(), result("c1")), "messages[1].tool_call_id"),
    ("unmatched_results", talk(user(), calls("c1"), result("c1"), result("c1")), "messages[3].tool_call_id"),
    ("unmatched_results", talk(user(), calls("c1"), assistant(), result("c1")), "messages[3].tool_call_id"),
    ("unmatched_results", talk(user(), calls("c1"), result("c1"), result("c9")), "messages[3].tool_call_id"),
]


@pytest.mark.parametrize(("rule", "request_"), ACCEPTED)
def test_what_a_rule_accepts_no_rule_refuses(rule: Rule, request_: dict[str, Any]) -> None:
    assert malformed(request_) is None
    assert list(RULES[rule](request_, Strictness())) == []
    assert violations(request_, Strictness()) == []


@pytest.mark.parametrize(("rule", "request_", "param"), REFUSED)
def test_a_rule_refuses_and_says_where(rule: Rule, request_: dict[str, Any], param: str) -> None:
    found = list(RULES[rule](request_, Strictness()))
    assert [(violation.rule, violation.param) for violation in found] == [(rule, param)]
    assert rule not in [violation.rule for violation in violations(request_, Strictness(allow=[rule]))]


def test_every_rule_is_tested_both_ways() -> None:
    rules = set(get_args(Rule))
    assert {rule for rule, _ in ACCEPTED} == rules == {rule for rule, _, _ in REFUSED} == set(RULES)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ([], "body"),
        (None, "body"),
        ({"messages": [user()]}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": ["hello"]}, "messages[0].role"),
        ({"model": "m", "messages": [user(), {"role": "function", "content": "x"}]}, "messages[1].role"),
        ({"model": "m", "messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
    ],
)
def test_a_request_that_cannot_be_read_is_malformed(request_: object, param: str) -> None:
    problem = malformed(request_)
    assert problem is not None
    assert problem.param == param


def test_settings_make_a_provider_less_strict() -> None:
    request = talk(user(), assistant() | {"reasoning_content": "hm"}, user()) | {"top_k": 4}
    assert [violation.rule for violation in violations(request, Strictness())] == [
        "unknown_parameter",
        "unknown_message_field",
    ]
    assert violations(request, Strictness(parameters=["top_k"], accepts_reasoning=True)) == []


def test_a_violation_is_answered_with_a_400_that_names_place_and_rule(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [{"reply": {"content": "x"}}]}).allow("violations")
    response = ask(provider, messages=[user(), user()])
    assert response.status_code == 400
    assert response.json() == {
        "error": {
            "message": "messages[1].role: Conversation roles must alternate: "
            "a 'user' message directly follows another.",
            "type": "invalid_request_error",
            "param": "messages[1].role",
            "code": "consecutive_users",
        }
    }
    assert provider.violations == [f"request 1: {response.json()['error']['message']} (consecutive_users)"]
    assert provider.steps_left == 1, "a refused request uses no step up"
    assert ask(provider).status_code == 200


def test_strict_mode_can_be_off_in_the_script_or_from_outside(fake_provider: Start) -> None:
    script = {"steps": [{"reply": {"content": "x"}}]}
    assert ask(fake_provider(script | {"strict": False}), messages=[user(), user()]).status_code == 200
    assert ask(fake_provider(script, strict=False), messages=[user(), user()]).status_code == 200


def test_a_body_that_is_no_json_is_refused_in_any_mode(fake_provider: Start) -> None:
    provider = fake_provider({"strict": False, "steps": []}).allow("violations")
    response = ask(provider, messages="hello")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "malformed"
    assert provider.violations == [
        "request 1: messages: Expected an array of at least one message. (malformed)"
    ]
