"""What a script's provider does not take, and in whose words it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import openai
import pytest

from tests.apps.fake_provider.asking import USER, ask, events
from tests.apps.fake_provider.test_strict import TOOL, assistant, calls, result, system, user
from turnflow.apps.fake_provider import ScriptError, parse_script
from turnflow.apps.fake_provider.script import PickyRule, Rule, Wording

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]

HELLO = {"reply": {"content": "x"}}
SEED_DETAIL = {
    "type": "extra_forbidden",
    "loc": ["body", "seed"],
    "msg": "Extra inputs are not permitted",
    "input": 7,
}
PLAIN = {"type": "invalid_request_error", "param": None, "code": None}


def refusing(*refusals: Any, **fields: Any) -> dict[str, Any]:
    return {"refuses": list(refusals), "steps": [HELLO], **fields}


def refuse(start: Start, refusal: Any, **fields: Any) -> Any:
    """The JSON body of the refusal; the same request without what is refused is answered."""
    provider = start(refusing(refusal, strict=False))
    response = ask(provider, **fields)
    assert response.status_code == (refusal.get("status", 400) if isinstance(refusal, dict) else 400)
    assert len(provider.refusals) == 1
    assert ask(provider).status_code == 200
    return response.json()


BODIES: dict[Wording, Any] = {
    "openai": {
        "error": {
            "message": "Unsupported parameter: 'seed' is not supported with this model.",
            "type": "invalid_request_error",
            "param": "seed",
            "code": "unsupported_parameter",
        }
    },
    "vllm": {
        "object": "error",
        "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), "
        "'msg': 'Extra inputs are not permitted', 'input': 7}]",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    "pydantic": {"detail": [SEED_DETAIL]},
    "serde": {
        "error": {
            **PLAIN,
            "message": "Failed to deserialize the JSON body into the target type: unknown field `seed`, "
            "expected one of `messages`, `model`, `stream` at line 1 column 42",
            "code": "invalid_request_error",
        }
    },
    "go": {"error": {**PLAIN, "message": 'json: unknown field "seed"'}},
    "mistral": {"object": "error", **PLAIN, "message": {"detail": [SEED_DETAIL]}},
    "llama": {"error": {"code": 400, "message": "Unsupported param: seed", "type": "invalid_request_error"}},
    "bare": {"error": {"message": "seed is not supported"}},
}


@pytest.mark.parametrize("wording", BODIES)
def test_a_parameter_is_refused_in_many_words(fake_provider: Start, wording: Wording) -> None:
    assert refuse(fake_provider, {"what": "seed", "wording": wording}, seed=7) == BODIES[wording]


def test_a_parameter_is_refused_in_plain_text(fake_provider: Start) -> None:
    provider = fake_provider(refusing({"what": "seed", "wording": "text", "status": 422})).allow("steps_left")
    response = ask(provider, seed=7)
    assert (response.status_code, response.text) == (422, "seed is not supported")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


def test_every_wording_is_tested() -> None:
    assert {*BODIES, "text"} == set(get_args(Wording))


VALUES: dict[Wording, str] = {
    "openai": "Unsupported value: 'temperature' does not support 0.7 with this model. "
    "Only the default (1) value is supported.",
    "vllm": "[{'type': 'value_error', 'loc': ('body', 'temperature'), "
    "'msg': 'Value error, temperature does not support this', 'input': 0.7}]",
    "go": "invalid value for temperature: 0.7",
    "llama": "Unsupported value for param temperature: 0.7",
    "bare": "temperature does not support 0.7",
}


@pytest.mark.parametrize("wording", VALUES)
def test_a_refusal_can_hold_for_other_values_than_those_taken(fake_provider: Start, wording: Wording) -> None:
    refusal = {"what": "temperature", "taken": [1], "wording": wording}
    provider = fake_provider(refusing(refusal))
    body = ask(provider, temperature=0.7).json()
    assert body.get("error", body)["message"] == VALUES[wording]
    assert ask(provider, temperature=1).status_code == 200
    assert provider.refusals == ["temperature"]


def test_a_refusal_can_hold_for_single_values(fake_provider: Start) -> None:
    provider = fake_provider(refusing({"what": "tool_choice", "values": ["required"]}))
    assert ask(provider, tools=[TOOL], tool_choice="required").json()["error"] == {
        "message": "Unsupported value: 'tool_choice' does not support \"required\" with this model.",
        "type": "invalid_request_error",
        "param": "tool_choice",
        "code": "unsupported_value",
    }
    assert ask(provider, tools=[TOOL], tool_choice="auto").status_code == 200


IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
ABOUT_MESSAGES: list[tuple[str, Wording, int, list[Any], str]] = [
    ("system_role", "openai", 400, [system(), USER], "System role is not supported by this model."),
    ("system_role", "vllm", 400, [system(), USER], "System role not supported"),
    ("system", "bare", 400, [system(), USER], "System role is not supported by this model."),
    (
        "alternation",
        "vllm",
        400,
        [USER, assistant(), assistant(), USER],
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ),
    (
        "alternation",
        "llama",
        500,
        [USER, USER],
        "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...",
    ),
    (
        "silent_calls",
        "serde",
        422,
        [USER, calls("c1"), result()],
        "Failed to deserialize the JSON body into the target type: messages[1]: missing field `content`",
    ),
    (
        "call_ids",
        "mistral",
        400,
        [USER, calls("call_1"), result("call_1")],
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
    ),
    ("images", "vllm", 400, [IMAGE], "m is not a multimodal model"),
    ("images", "llama", 500, [IMAGE], "image input is not supported - hint: "),
    (
        "images",
        "serde",
        400,
        [IMAGE],
        "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`",
    ),
    ("user_after_tool", "mistral", 400, [USER, calls("c1"), result(), USER], "Unexpected role 'user' after"),
    ("unanswered_calls", "openai", 400, [USER, calls("c1"), USER], "An assistant message with 'tool_calls'"),
]


@pytest.mark.parametrize(("what", "wording", "status", "messages", "text"), ABOUT_MESSAGES)
def test_messages_are_refused_by_a_rule(
    fake_provider: Start, what: str, wording: Wording, status: int, messages: list[Any], text: str
) -> None:
    refusal = {"what": what, "wording": wording, "status": status}
    body = refuse(fake_provider, refusal, messages=messages)
    assert body.get("error", body)["message"].startswith(text)


def test_mistral_has_codes_of_its_own(fake_provider: Start) -> None:
    ids = refuse(
        fake_provider, {"what": "call_ids", "wording": "mistral"}, messages=[USER, calls("c"), result("c")]
    )
    order = refuse(fake_provider, {"what": "consecutive_users", "wording": "mistral"}, messages=[USER, USER])
    assert (ids["type"], ids["code"]) == ("invalid_function_call", "3280")
    assert (order["type"], order["code"]) == ("invalid_request_message_order", "3230")


def test_a_place_in_the_messages_is_reported_as_pydantic_does(fake_provider: Start) -> None:
    refusal = {"what": "names", "wording": "pydantic", "status": 422}
    body = refuse(fake_provider, refusal, messages=[user() | {"name": "ada"}])
    assert body["detail"][0]["loc"] == ["body", "messages", 0, "name"]


@pytest.mark.parametrize("rule", [*get_args(Rule), *get_args(PickyRule)])
def test_every_rule_can_be_a_refusal_that_a_good_request_does_not_meet(
    fake_provider: Start, rule: str
) -> None:
    assert ask(fake_provider(refusing(rule, strict=False))).status_code == 200


OWN_WORDS: list[tuple[str, Wording, str]] = [
    ("tools", "go", "m does not support tools"),
    ("tools", "llama", "tools param requires --jinja flag"),
    ("tools", "vllm", '"auto" tool choice requires --enable-auto-tool-choice'),
    ("max_tokens", "openai", "Unsupported parameter: 'max_tokens' is not supported with this model. Use"),
]


@pytest.mark.parametrize(("what", "wording", "text"), OWN_WORDS)
def test_some_parameters_are_refused_in_words_of_their_own(
    fake_provider: Start, what: str, wording: Wording, text: str
) -> None:
    body = refuse(fake_provider, {"what": what, "wording": wording}, tools=[TOOL], max_tokens=9)
    assert body.get("error", body)["message"].startswith(text)


@pytest.mark.parametrize("wording", get_args(Wording))
def test_a_refusal_can_be_the_first_event_of_a_stream(fake_provider: Start, wording: Wording) -> None:
    provider = fake_provider(refusing({"what": "seed", "wording": wording, "in_stream": True}))
    with openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hello"}], stream=True, seed=7
        )
        with pytest.raises(openai.APIError) as caught:
            list(stream)
    told = BODIES.get(wording, {"error": "seed is not supported"})
    assert caught.value.body == told.get("error", told)
    assert not isinstance(caught.value, openai.APIStatusError)
    assert ask(provider, seed=7).status_code == 400, "without a stream it is a response"
    assert events(provider)


@pytest.mark.parametrize("rule", ["consecutive_users", "names"])
def test_a_rule_that_is_refused_by_is_no_violation(fake_provider: Start, rule: str) -> None:
    provider = fake_provider(refusing({"what": rule, "wording": "go"}, strictness={"also": ["names"]}))
    messages = [USER, USER] if rule == "consecutive_users" else [USER | {"name": "ada"}]
    assert "code" in ask(provider, messages=messages).json()["error"]
    assert (provider.refusals, provider.violations) == ([rule], [])
    assert ask(provider).status_code == 200


def test_a_refusal_can_have_a_body_of_its_own(fake_provider: Start) -> None:
    assert refuse(fake_provider, {"what": "seed", "body": {"detail": "no seeds"}}, seed=7) == {
        "detail": "no seeds"
    }


def test_refusals_combine_and_each_is_recorded(fake_provider: Start) -> None:
    provider = fake_provider(refusing("seed", {"what": "top_p", "wording": "go"}))
    assert ask(provider, seed=7, top_p=0.5).json()["error"]["param"] == "seed"
    assert 'unknown field "top_p"' in ask(provider, top_p=0.5).json()["error"]["message"]
    assert ask(provider).status_code == 200
    assert provider.refusals == ["seed", "top_p"]


@pytest.mark.parametrize(
    ("refusal", "complaint"),
    [
        ({"what": "seed", "word": "go"}, "refuses.0.word: unknown field; did you mean 'wording'?"),
        ({"what": "seed", "wording": "rust"}, "refuses.0.wording: Input should be 'openai', "),
        ({"wording": "go"}, "refuses.0.what: Field required"),
        ({"what": "seed", "values": [1], "taken": [2]}, "'values' and 'taken' exclude each other"),
        ({"what": "seed", "body": {}, "wording": "go"}, "'body' and 'wording' exclude each other"),
        ({"what": "names", "taken": [1]}, "'values' and 'taken' go with a parameter, not with rule 'names'"),
        ({"what": "seed", "status": 200}, "refuses.0.status: Input should be greater than"),
    ],
)
def test_a_refusal_that_makes_no_sense_is_an_error(refusal: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script({"refuses": [refusal], "steps": []})
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
