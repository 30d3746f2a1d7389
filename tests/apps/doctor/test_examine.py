"""Examining endpoints that are odd in one way."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from tests.apps.doctor.endpoints import doctor_of, refuses, says, streams
from turnflow.apps.doctor import DoctorError, contact, examine
from turnflow.apps.doctor.tool_probes import SHORT_ID
from turnflow.apps.fake_provider import FakeProvider

CALL = [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{}"}}]
MODELS = {"/v1/models": {"data": [{"id": "small"}, {"id": "large"}]}}


def calls() -> httpx.Response:
    return says(None, tool_calls=CALL)


def with_tools(request: dict[str, Any]) -> httpx.Response:
    return calls() if "tools" in request else says()


def assistant(request: dict[str, Any]) -> dict[str, Any] | None:
    """The message with calls, in a request that has one."""
    return next((message for message in request["messages"] if message.get("tool_calls")), None)


def test_a_plain_endpoint_needs_no_profile() -> None:
    examination = doctor_of(with_tools)
    assert examination.profile.model_dump(exclude_defaults=True) == {}
    assert examination.findings["native_tools"].value is True
    assert examination.findings["parallel_calls"].value is False


def test_an_orphan_closer_says_that_the_prompt_opened_the_thought() -> None:
    examination = doctor_of(lambda _: says("17 and 25 make 42.\n</think>\n\n42"))
    assert examination.findings["think_tags"].value == "think"
    assert examination.profile.starts_thinking


def test_a_model_that_thinks_gets_room() -> None:
    limits = []

    def answer(request: dict[str, Any]) -> httpx.Response:
        limits.append(request.get("max_tokens"))
        if request.get("max_tokens") == 512:
            cut = {"choices": [{"delta": {"reasoning_content": "Hm"}, "finish_reason": "length"}]}
            return streams(json.dumps(cut), "[DONE]")
        return says(reasoning_content="Hm.")

    examination = doctor_of(answer)
    assert examination.findings["reasoning"].value == "reasoning_content"
    assert limits[0] == 512
    assert set(limits[1:]) == {2048, None}


def test_tools_that_are_passed_over() -> None:
    examination = doctor_of(lambda _: says("I cannot call tools."))
    assert examination.profile.native_tools is False
    assert "taken and not called" in examination.findings["native_tools"].evidence
    assert examination.findings["call_ids"].evidence == "skipped: native_tools is no"


def test_a_model_that_calls_only_when_made_to() -> None:
    examination = doctor_of(lambda request: calls() if request.get("tool_choice") else says())
    assert examination.findings["native_tools"].value is True
    assert examination.findings["native_tools"].evidence == "only when made to: called add"


def test_a_named_choice_that_is_refused_is_tried_as_a_word() -> None:
    def answer(request: dict[str, Any]) -> httpx.Response:
        choice = request.get("tool_choice")
        return refuses(400) if isinstance(choice, dict) else calls() if choice == "required" else says()

    assert doctor_of(answer).findings["native_tools"].value is True


def test_choices_that_are_refused_leave_it_open() -> None:
    examination = doctor_of(lambda request: refuses(400) if "tool_choice" in request else says())
    assert examination.findings["native_tools"].value is None
    assert examination.profile.native_tools


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ('<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>', "hermes"),
        ("<｜DSML｜function_calls>", "deepseek"),
        ("<｜tool▁calls▁begin｜>", "deepseek_tokens"),
    ],
)
def test_calls_that_come_as_text(text: str, dialect: str) -> None:
    examination = doctor_of(lambda request: says(text if "tools" in request else "42"))
    assert examination.findings["text_dialect"].value == dialect
    assert examination.profile.text_dialects == (dialect,)
    assert examination.profile.native_tools is False


def test_a_field_with_thoughts_that_is_needed_with_calls() -> None:
    def answer(request: dict[str, Any]) -> httpx.Response:
        said = assistant(request)
        if said is not None and "reasoning_content" not in said:
            return refuses(400, "thinking is enabled but reasoning_content is missing")
        return (
            says(None, tool_calls=CALL, reasoning_content="Hm.")
            if "tools" in request
            else says(reasoning_content="Hm.")
        )

    examination = doctor_of(answer)
    assert examination.profile.model_dump(exclude_defaults=True) == {"reasoning_field": "reasoning_content"}
    assert "not without" in examination.findings["call_ids"].evidence


def test_a_field_with_thoughts_that_is_not_taken_back() -> None:
    def answer(request: dict[str, Any]) -> httpx.Response:
        if "reasoning_content" in (assistant(request) or {}):
            return refuses(400)
        return (
            says(None, tool_calls=CALL, reasoning_content="Hm.")
            if "tools" in request
            else says(reasoning_content="Hm.")
        )

    examination = doctor_of(answer)
    assert examination.findings["reasoning_back"].value is False
    assert examination.profile.reasoning_field is None


def test_a_conversation_with_calls_that_is_refused_in_any_form() -> None:
    examination = doctor_of(
        lambda request: refuses(400, "no tools here") if assistant(request) else with_tools(request)
    )
    assert examination.findings["call_ids"].value is None
    assert "refused in any form: 400: no tools here" in examination.findings["call_ids"].evidence
    assert examination.findings["null_content"].evidence == "skipped: call_ids is not known"
    assert examination.profile.call_ids == "any"


def test_later_probes_use_the_id_that_is_taken() -> None:
    seen = []

    def answer(request: dict[str, Any]) -> httpx.Response:
        said = assistant(request)
        if said is None:
            return with_tools(request)
        seen.append(said["tool_calls"][0]["id"])
        return (
            says()
            if seen[-1] == SHORT_ID
            else refuses(400, "Tool call id must be a-z, A-Z, 0-9, of length 9")
        )

    assert doctor_of(answer).profile.call_ids == "alnum9"
    assert seen[1:] == [SHORT_ID] * 3


def test_both_names_of_the_limit_refused() -> None:
    limits = {"max_tokens", "max_completion_tokens"}
    examination = doctor_of(lambda request: refuses(400) if limits & set(request) else with_tools(request))
    assert examination.findings["token_limit"].value == []
    assert examination.profile.unsupported_parameters == ("max_tokens", "max_completion_tokens")


def test_at_openai_the_default_name_is_the_other_one() -> None:
    examination = doctor_of(
        lambda request: refuses(400) if "max_completion_tokens" in request else with_tools(request),
        base_url="https://api.openai.com/v1",
    )
    assert examination.profile.model_dump(exclude_defaults=True) == {"token_limit_parameter": "max_tokens"}


def test_parameters_that_are_refused_together_only() -> None:
    examination = doctor_of(
        lambda request: refuses(400) if {"temperature", "top_p"} <= set(request) else with_tools(request)
    )
    assert examination.findings["refused_parameters"].value == []
    assert examination.profile.unsupported_parameters == ()


def test_an_endpoint_that_does_not_stream() -> None:
    def answer(request: dict[str, Any]) -> httpx.Response:
        if request["stream"]:
            return refuses(400, "streaming is not supported")
        message = {"content": None, "tool_calls": CALL} if "tools" in request else {"content": "42"}
        return httpx.Response(200, json={"choices": [{"message": message, "finish_reason": "stop"}]})

    examination = doctor_of(answer)
    assert examination.findings["streaming"].value is False
    assert examination.findings["usage"].evidence == "skipped: streaming is no"
    assert examination.findings["native_tools"].value is True
    assert examination.findings["token_limit"].value == ["max_tokens", "max_completion_tokens"]


def test_a_reply_that_comes_whole_though_a_stream_was_asked_for() -> None:
    whole = httpx.Response(200, json={"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]})
    examination = doctor_of(lambda _: whole)
    assert examination.findings["streaming"].value is False
    assert examination.findings["streaming"].evidence == "the reply came whole, in one JSON body"
    assert examination.profile.streaming is False


def test_a_busy_endpoint_is_asked_again_and_one_by_one() -> None:
    times: list[float] = []

    def answer(request: dict[str, Any]) -> httpx.Response:
        times.append(time.monotonic())
        if len(times) == 2:
            return httpx.Response(
                429, headers={"retry-after": "0.2"}, json={"error": {"message": "slow down"}}
            )
        return with_tools(request)

    examination = doctor_of(answer)
    assert examination.profile.model_dump(exclude_defaults=True) == {}
    assert [name for name, f in examination.findings.items() if "429" in f.evidence] == []


def test_an_endpoint_that_stays_busy_teaches_nothing() -> None:
    asked = 0

    def answer(request: dict[str, Any]) -> httpx.Response:
        nonlocal asked
        asked += 1
        return (
            says() if asked == 1 else httpx.Response(429, headers={"retry-after": "0.01"}, text="slow down")
        )

    examination = doctor_of(answer)
    assert examination.profile.model_dump(exclude_defaults=True) == {}
    assert examination.findings["images"].evidence == "429: slow down"


@pytest.mark.parametrize(
    "answer",
    [
        refuses(500, "boom"),
        httpx.Response(200, text="<html>hello</html>"),
        streams("{broken"),
        streams("[]", "3", '{"choices": 7}', '{"choices": [null]}', '{"choices": [{"delta": [1]}]}'),
        httpx.Response(200, json=[1]),
        httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"\xff\xfe\x00"),
    ],
)
def test_nonsense_after_the_first_reply_teaches_nothing(answer: httpx.Response) -> None:
    asked = 0

    def reply(_: dict[str, Any]) -> httpx.Response:
        nonlocal asked
        asked += 1
        return says() if asked == 1 else answer

    examination = doctor_of(reply)
    assert examination.profile.model_dump(exclude_defaults=True) == {}
    later = [
        f.value for name, f in examination.findings.items() if name in {"usage", "images", "native_tools"}
    ]
    assert later == [None] * 3


def test_a_broken_connection_teaches_nothing() -> None:
    asked = 0

    def answer(_: dict[str, Any]) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise httpx.ReadError("reset")
        return says()

    examination = doctor_of(answer)
    assert examination.profile.model_dump(exclude_defaults=True) == {}
    assert examination.findings["images"].evidence == "reset"


def test_what_the_time_does_not_allow_is_not_known() -> None:
    steps = [
        {"when": {"last_contains": "17 + 25? Answer"}, "reply": {"content": "42"}, "forever": True},
        {"reply": {"content": "never"}, "fault": {"kind": "hang", "after": "headers"}, "forever": True},
    ]
    with FakeProvider({"steps": steps}) as provider:
        begun = time.monotonic()
        examination = asyncio.run(examine(provider.base_url, "m", timeout=1.5))
    assert time.monotonic() - begun < 4
    unknown = {name for name, finding in examination.findings.items() if finding.value is None}
    assert {"usage", "images", "native_tools", "window"} <= unknown
    assert "the time was over" in {finding.evidence for finding in examination.findings.values()}
    assert examination.profile.images


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (refuses(401, "bad key"), "401: http://endpoint/v1 refuses the key (401: bad key): set MY_KEY"),
        (refuses(404, "Not Found"), "404: there is no http://endpoint/v1/chat/completions"),
        (refuses(404, "The model `m` does not exist", code="model_not_found"), "there is no model 'm'"),
        (refuses(400, "model 'm' not found"), "it has: small, large"),
        (refuses(429, "quota"), "takes no more requests now: 429: quota"),
        (refuses(500, "boom"), "gives no reply: 500: boom"),
        (refuses(400, "I take nothing"), "refuses the plainest request: 400: I take nothing"),
        (httpx.Response(200, text="<html>"), "gives no reply: the answer is no chat completion"),
    ],
)
def test_an_endpoint_that_gives_no_reply(answer: httpx.Response, told: str) -> None:
    pages = MODELS if "it has" in told else None
    with pytest.raises(DoctorError) as caught:
        doctor_of(lambda _: answer, pages, key_name="MY_KEY")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("answer", [refuses(404), httpx.Response(200, text="<html>a web UI</html>")])
def test_the_hint_about_v1(answer: httpx.Response) -> None:
    with pytest.raises(DoctorError, match="a base URL usually ends in /v1"):
        doctor_of(lambda _: answer, base_url="http://endpoint")


def test_an_address_that_is_none() -> None:
    with pytest.raises(DoctorError, match="is no address: its port is no number"):
        doctor_of(with_tools, base_url="http://a:99999/v1")


def test_a_model_that_is_not_listed() -> None:
    with pytest.raises(DoctorError, match=r"there is no model 'm' at .*; it has: small, large"):
        doctor_of(lambda _: refuses(404), MODELS)


def test_models_of_any_number_and_length_are_listed_in_short() -> None:
    pages = {"/v1/models": {"data": [{"id": f"{number}" + "x" * 10_000} for number in range(50)]}}
    with pytest.raises(DoctorError, match=r"it has: 0x+…, 1x+….* and 38 more$") as caught:
        doctor_of(lambda _: refuses(404), pages, model="y" * 100_000)
    assert len(str(caught.value)) < 1500
    with pytest.raises(DoctorError, match=r"with --model; it lists: 0x+….* and 38 more$") as caught:
        doctor_of(with_tools, pages, model=None)
    assert len(str(caught.value)) < 1500


def test_a_model_is_not_taken_from_a_list_under_a_name_without_end() -> None:
    with pytest.raises(DoctorError, match="name the model of") as caught:
        doctor_of(with_tools, {"/v1/models": {"data": [{"id": "x" * 100_000}]}}, model=None)
    assert len(str(caught.value)) < 300


def test_the_only_model_need_not_be_named() -> None:
    pages = {"/v1/models": {"data": [{"id": "only"}]}}
    assert doctor_of(with_tools, pages, model=None).model == "only"
    with pytest.raises(DoctorError, match=r"name the model .* it lists: small, large"):
        doctor_of(with_tools, MODELS, model=None)
    with pytest.raises(DoctorError, match=r"name the model of http://endpoint/v1 with --model$"):
        doctor_of(with_tools, model=None)


def test_the_key_goes_along() -> None:
    keys = set()

    def handle(request: httpx.Request) -> httpx.Response:
        keys.add(request.headers.get("authorization"))
        return says() if request.method == "POST" else httpx.Response(404)

    asyncio.run(examine("http://endpoint/v1/", "m", api_key="k", transport=httpx.MockTransport(handle)))
    assert keys == {"Bearer k"}


@pytest.mark.parametrize("pause", ["nan", "inf", "-1", "Wed, 21 Oct 2015 07:28:00 GMT", "99999"])
def test_an_odd_pause_holds_nothing_up(pause: str) -> None:
    busy = httpx.Response(429, headers={"retry-after": pause}, text="slow down")
    begun = time.monotonic()
    with pytest.raises(DoctorError, match="takes no more requests now"):
        doctor_of(lambda _: busy, timeout=0.5)
    assert time.monotonic() - begun < 3


def test_answers_that_are_too_deep_or_too_long() -> None:
    pages = {
        "/v1/models": httpx.Response(200, text="[" * 100_000),
        "/props": httpx.Response(200, text="x" * 3_000_000),
    }
    asked = 0

    def answer(request: dict[str, Any]) -> httpx.Response:
        nonlocal asked
        asked += 1
        return (
            with_tools(request)
            if asked == 1
            else streams("[" * 100_000)
            if asked % 2
            else streams("x" * 3_000_000)
        )

    examination = doctor_of(answer, pages)
    assert examination.profile.model_dump(exclude_defaults=True) == {}
    assert examination.findings["window"].value is None


def test_an_endpoint_that_is_too_slow_for_several_is_asked_one_thing_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its replies take as long as there are requests under way, as on a server with one slot."""
    monkeypatch.setattr(contact, "REQUEST_SECONDS", 0.5)
    under_way = most = 0

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        if request.method == "GET":
            return httpx.Response(404)
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.sleep(0.02 if under_way == 1 else 60)
        finally:
            under_way -= 1
        return with_tools(json.loads(request.content))

    examination = asyncio.run(examine("http://endpoint/v1", "m", transport=httpx.MockTransport(handle)))
    assert most == 3
    assert [name for name, finding in examination.findings.items() if "no end" in finding.evidence] == []
    assert examination.profile.model_dump(exclude_defaults=True) == {}
