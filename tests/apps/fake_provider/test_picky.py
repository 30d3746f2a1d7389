"""Rules that only some providers have: off by default, each accepts and refuses what it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from tests.apps.fake_provider.asking import ask
from tests.apps.fake_provider.test_strict import assistant, calls, result, system, talk, user
from turnflow.apps.fake_provider.picky import PICKY
from turnflow.apps.fake_provider.script import PickyRule, Strictness
from turnflow.apps.fake_provider.strict import violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]

IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
TEXT = {"type": "text", "text": "hello"}
SAYING = {"content": "I look."}

ACCEPTED: list[tuple[PickyRule, dict[str, Any]]] = [
    ("system_role", talk(user())),
    ("alternation", talk(system(), user(), assistant(), user())),
    ("alternation", talk(user())),
    ("silent_calls", talk(user(), calls("c1") | SAYING, result())),
    ("names", talk(system(), user())),
    ("call_ids", talk(user(), calls("abcDEF123"), result("abcDEF123"))),
    ("images", talk(user([TEXT]))),
    ("text_blocks", talk(user([TEXT, IMAGE]))),
]
REFUSED: list[tuple[PickyRule, dict[str, Any], list[str]]] = [
    ("system_role", talk(system(), user()), ["messages[0].role"]),
    ("system_role", talk({"role": "developer", "content": "x"}, user()), ["messages[0].role"]),
    ("alternation", talk(system(), user(), calls("c1"), result()), ["messages[3].role"]),
    ("silent_calls", talk(user(), calls("c1"), result()), ["messages[1].content"]),
    ("silent_calls", talk(user(), calls("c1") | {"content": " "}, result()), ["messages[1].content"]),
    ("names", talk(user() | {"name": "ada"}), ["messages[0].name"]),
    ("call_ids", talk(user(), calls("call_1"), result("call_1")), ["messages[1]", "messages[2]"]),
    ("call_ids", talk(user(), calls("abcDEF12_"), result("abcDEF12_")), ["messages[1]", "messages[2]"]),
    ("images", talk(user([TEXT, IMAGE])), ["messages[0].content[1]"]),
    ("images", talk(user([SOUND])), ["messages[0].content[0]"]),
    ("text_blocks", talk(user([TEXT, TEXT])), ["messages[0].content"]),
]


@pytest.mark.parametrize(("rule", "request_"), ACCEPTED)
def test_what_a_picky_rule_accepts(rule: PickyRule, request_: dict[str, Any]) -> None:
    assert violations(request_, Strictness(also=[rule])) == []


@pytest.mark.parametrize(("rule", "request_", "params"), REFUSED)
def test_a_picky_rule_refuses_only_where_it_is_asked_for(
    rule: PickyRule, request_: dict[str, Any], params: list[str]
) -> None:
    assert violations(request_, Strictness()) == []
    found = violations(request_, Strictness(also=[rule]))
    assert [(violation.rule, violation.param) for violation in found] == [(rule, param) for param in params]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([user(), assistant(), assistant(), user()], "messages[2].role"),
        ([system(), assistant(), user()], "messages[1].role"),
        ([user(), system()], "messages[1].role"),
    ],
)
def test_alternation_names_the_first_message_out_of_turn(messages: list[Any], param: str) -> None:
    found = list(PICKY["alternation"](talk(*messages), Strictness()))
    assert [violation.param for violation in found] == [param]


def test_every_picky_rule_is_tested_both_ways() -> None:
    rules = set(get_args(PickyRule))
    assert {rule for rule, _ in ACCEPTED} == rules == {rule for rule, _, _ in REFUSED} == set(PICKY)


def test_a_script_asks_for_a_rule_and_it_is_recorded_as_a_violation(fake_provider: Start) -> None:
    provider = fake_provider(
        {"strictness": {"also": ["names"]}, "steps": [{"reply": {"content": "x"}}]}
    ).allow("violations")
    response = ask(provider, messages=[user() | {"name": "ada"}])
    assert (response.status_code, response.json()["error"]["code"]) == (400, "names")
    assert [line.rpartition(" ")[2] for line in provider.violations] == ["(names)"]
    assert ask(provider).status_code == 200
