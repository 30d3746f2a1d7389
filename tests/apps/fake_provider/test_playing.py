from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.apps.fake_provider.asking import USER, ask
from turnflow.apps.fake_provider import FakeProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[..., FakeProvider]

TOOL = {"type": "function", "function": {"name": "add"}}


def says(text: str, **step: Any) -> dict[str, Any]:
    return {"reply": {"content": text}, **step}


def answer(provider: FakeProvider, text: str = "hello", **fields: Any) -> str:
    response = ask(provider, messages=[{"role": "user", "content": text}], **fields)
    content: str = response.json()["choices"][0]["message"]["content"]
    return content


def test_steps_are_played_in_order_and_requests_are_kept(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [says("one"), says("two")]})
    assert provider.steps_left == 2
    assert [answer(provider, "a"), answer(provider, "b")] == ["one", "two"]
    assert [request["messages"][0]["content"] for request in provider.requests] == ["a", "b"]
    assert provider.steps_left == 0


def test_a_request_too_many_is_an_error(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [says("one")]}).allow("errors")
    answer(provider)
    response = ask(provider)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "script_exhausted"
    assert provider.errors == ["request 2: none of the script's 1 steps is left for it"]


def test_a_step_can_be_played_several_times_or_forever(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [says("twice", times=2), says("always", forever=True)]})
    assert [answer(provider) for _ in range(4)] == ["twice", "twice", "always", "always"]


def test_a_script_can_repeat(fake_provider: Start) -> None:
    provider = fake_provider({"repeat": True, "steps": [says("one"), says("two")]})
    assert [answer(provider) for _ in range(3)] == ["one", "two", "one"]


def test_steps_can_be_for_certain_requests_only(fake_provider: Start) -> None:
    steps = [
        says("for ada", when={"contains": "ada"}),
        says("for bob", when={"contains": "bob"}),
        says("for ada again", when={"contains": "ada"}),
    ]
    provider = fake_provider({"steps": steps})
    assert [answer(provider, text) for text in ("bob", "ada", "ada")] == [
        "for bob",
        "for ada",
        "for ada again",
    ]


def test_threads_at_once_each_get_one_answer(fake_provider: Start) -> None:
    provider = fake_provider({"steps": [says(str(number)) for number in range(24)]})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: answer(provider), range(24)))
    assert sorted(answers, key=int) == [str(number) for number in range(24)]


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ({"last_role": "tool"}, "the last message should be from 'tool', it is from 'user'"),
        ({"last_contains": "bye"}, "the last message should contain 'bye', it is 'hello'"),
        ({"contains": ["hello", "bye"]}, "some message should contain 'bye'"),
        ({"not_contains": "ell"}, "no message should contain 'ell'"),
        ({"roles": ["system", "user"]}, "the roles should be ['system', 'user'], they are ['user']"),
        ({"messages": 2}, "there should be 2 messages, there are 1 (user)"),
        ({"tools": ["add", "mul"]}, "the tools offered should be ['add', 'mul'], they are ['add']"),
        ({"no_tools": True}, "no tools should be offered, there are ['add']"),
        ({"has": "seed"}, "the parameter 'seed' should be there"),
        ({"lacks": "temperature"}, "the parameter 'temperature' should not be there, it is 0"),
        ({"parameters": {"temperature": 1}}, "the parameter 'temperature' should be 1, it is 0"),
        ({"parameters": {"seed": None}}, "the parameter 'seed' should be None, it is None"),
    ],
)
def test_a_request_that_is_not_expected_is_an_error(
    fake_provider: Start, expect: dict[str, Any], complaint: str
) -> None:
    provider = fake_provider({"steps": [says("x", expect=expect)]}).allow("errors", "steps_left")
    response = ask(provider, tools=[TOOL], temperature=0)
    assert response.status_code == 417
    assert response.json()["error"]["code"] == "expectation_failed"
    assert provider.errors == [f"request 1: not what step 1 expects: {complaint}"]
    assert provider.steps_left == 1


def test_a_request_that_is_expected_is_answered(fake_provider: Start) -> None:
    expect = {
        "last_role": "tool",
        "last_contains": "40",
        "contains": ["hello", "c1", "17", "in parts"],
        "not_contains": "bye",
        "roles": ["user", "assistant", "tool"],
        "messages": 3,
        "tools": ["add"],
        "has": ["tools", "temperature"],
        "lacks": "seed",
        "parameters": {"temperature": 0},
    }
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 17}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hello in parts"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "40"},
    ]
    provider = fake_provider({"steps": [says("x", expect=expect), says("y", expect={"no_tools": True})]})
    assert ask(provider, messages=messages, tools=[TOOL], temperature=0).status_code == 200
    assert answer(provider) == "y"


@pytest.mark.parametrize(
    ("name", "fields", "param", "code"),
    [
        ("temperature", {"temperature": 0}, "temperature", "unsupported_parameter"),
        ("system", {"messages": [{"role": "system", "content": "x"}, USER]}, "messages", "unsupported_value"),
        (
            "images",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
                ]
            },
            "messages",
            "unsupported_value",
        ),
    ],
)
def test_a_provider_can_refuse_what_it_does_not_know(
    fake_provider: Start, name: str, fields: dict[str, Any], param: str, code: str
) -> None:
    provider = fake_provider({"refuses": [name], "steps": [says("without it, then")]})
    response = ask(provider, **fields)
    assert response.status_code == 400
    assert (response.json()["error"]["param"], response.json()["error"]["code"]) == (param, code)
    assert provider.refusals == [name]
    assert answer(provider) == "without it, then"


def test_a_report_names_everything_that_was_not_clean() -> None:
    script = {
        "note": "demo",
        "steps": [says("x", expect={"contains": "bye"}), says("y", note="the second", times=2)],
    }
    with FakeProvider(script) as provider:
        ask(provider)
        ask(provider, top_k=1)
    with pytest.raises(AssertionError) as caught:
        provider.assert_clean()
    assert str(caught.value).splitlines() == [
        "fake provider (demo) after 2 requests:",
        "  request 2: top_k: Unknown parameter: 'top_k'. (unknown_parameter)",
        "  request 1: not what step 1 expects: some message should contain 'bye'",
        "  step 1 (reply) was played 0 of 1 times",
        "  step 2 (the second) was played 0 of 2 times",
    ]
    provider.allow("violations", "errors", "steps_left").assert_clean()


def test_waiting_for_requests_that_do_not_come_times_out(fake_provider: Start) -> None:
    provider = fake_provider({"steps": []})
    with pytest.raises(TimeoutError, match="0 of 1 requests arrived"):
        provider.wait_for_requests(1, timeout=0.01)
