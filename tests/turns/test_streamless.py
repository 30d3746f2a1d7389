"""Endpoints that do not stream: how they are known, asked for whole replies, and quoted where that fails."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.turns.scripted import Start, says, script
from tests.turns.stage import Stage, add
from turnflow import OpenAICompatibleChat, ProviderProfile, build_turn_graph
from turnflow.graph.model_access import with_profile
from turnflow.nodes.call_llm.streamless import refuses_stream

PAGE = {"error": {"status": 200, "html": "<html><style>b{}</style><b>Web UI</b> of x</html>"}}


def whole(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"error": {"status": 200, "body": {"choices": [{"index": 0, "message": message, **fields}]}}}


def refused(status: int, message: str, **fields: Any) -> openai.APIStatusError:
    request = httpx2.Request("POST", "http://x/v1")
    response = httpx2.Response(status, request=request)
    return openai.APIStatusError(message, response=response, body={"message": message, **fields})


@pytest.mark.parametrize(
    "error",
    [
        refused(400, "Your organization must be verified to stream this model.", param="stream"),
        refused(400, "streaming is not supported"),
        refused(422, "Streaming is currently not supported for this model"),
        refused(501, "This server does not support streaming."),
        refused(400, "unsupported value: stream"),
    ],
    ids=str,
)
def test_a_refusal_of_streams_is_known(error: Exception) -> None:
    assert refuses_stream(error)


@pytest.mark.parametrize(
    "error",
    [
        refused(400, "stream_options is not supported"),
        refused(400, "unknown field", param="stream_options"),
        refused(500, "streaming is not supported"),
        refused(400, "tools are not supported"),
        refused(400, "the downstream service is not available"),
        ValueError("streaming is not supported"),
    ],
    ids=str,
)
def test_other_errors_are_no_refusal_of_streams(error: Exception) -> None:
    assert not refuses_stream(error)


def test_a_page_is_quoted_with_the_mend(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script({**PAGE, "times": 3}))
    model = stage.model(provider)
    object.__setattr__(model, "openai_api_base", provider.base_url.removesuffix("/v1"))
    played = stage.play(build_turn_graph(model, checkpointer=stage.saver), "Hi.")
    assert "a web page in place of a reply: 'Web UI of x'; a base URL usually ends in /v1" in str(
        played.error
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": "overloaded"}, "overloaded"),
        ({"error": {"message": "no such plan", "code": "invalid_request"}}, "no such plan"),
        ({"code": 1113, "msg": "balance is empty"}, "balance is empty"),
        ({"choices": []}, "the reply has no choices"),
        ({"choices": None, "detail": "Not Found"}, "Not Found"),
        ({"hello": "there"}, 'something else in place of a reply: \'{"hello": "there"}\''),
    ],
)
def test_the_endpoints_own_words_are_told(
    stage: Stage, fake_provider: Start, body: dict[str, Any], told: str
) -> None:
    provider = fake_provider(script({"error": {"status": 200, "body": body}, "forever": True}))
    graph = build_turn_graph(
        stage.model(provider), checkpointer=stage.saver, settings={"max_retry_wait": 0.01}
    )
    played = stage.play(graph, "Hi.")
    assert told in str(played.error)


def test_calls_of_a_whole_reply_that_are_no_objects_go_back_to_the_model(
    stage: Stage, fake_provider: Start
) -> None:
    calls = [
        {"id": "c1", "function": {"name": "add", "arguments": "[1]"}},
        {"function": {"name": "add", "arguments": {"a": 1, "b": 2}}},
        {"function": {"name": "add", "arguments": "{broken"}},
    ]
    provider = fake_provider(script(whole({"content": None, "tool_calls": calls}), says("Three.")))
    model = stage.model(provider, provider_profile=ProviderProfile(streaming=False))
    played = stage.play(build_turn_graph(model, [add], checkpointer=stage.saver), "Hi.")
    assert played.answer == "Three."
    results = [str(m.content) for m in played.messages if m.type == "tool"]
    assert len(results) == 3
    assert "3" in results
    assert all(request["stream"] is False for request in provider.requests)


def test_nonsense_in_a_whole_reply_is_left_out(fake_provider: Start) -> None:
    message = {"role": 5, "content": ["Hel", 5, {"type": "text", "text": "lo."}], "tool_calls": 7}
    provider = fake_provider(script(whole(message, finish_reason=["stop"], logprobs=3)))
    model = OpenAICompatibleChat(
        model="m",
        base_url=provider.base_url,
        api_key=SecretStr("k"),
        provider_profile=ProviderProfile(streaming=False),
    )
    reply = model.invoke("Hi.")
    assert isinstance(reply, AIMessage)
    assert reply.content == ["Hel", {"type": "text", "text": "lo."}]
    assert reply.response_metadata["finish_reason"] == "stop"


def test_any_model_is_asked_for_whole_replies() -> None:
    model = FakeListChatModel(responses=["Hello."])
    asked: Any = with_profile(model, ProviderProfile(streaming=False))
    assert (asked.disable_streaming, model.disable_streaming) == (True, False)
    assert next(chunk.content for chunk in asked.stream("Hi.")) == "Hello."


def test_langchains_own_model_gives_up_streaming_too(stage: Stage, fake_provider: Start) -> None:
    reply = whole({"role": "assistant", "content": "Hello."}, finish_reason="stop")
    provider = fake_provider(script({**reply, "times": 3}))
    model = ChatOpenAI(
        model="m", base_url=provider.base_url, api_key=SecretStr("k"), max_retries=0, stream_usage=True
    )
    settings = {"max_retry_wait": 0.01}
    played = stage.play(build_turn_graph(model, checkpointer=stage.saver, settings=settings), "Hi.")
    assert (played.answer, played.outcome["degradations"]) == ("Hello.", ["stream"])
    assert [json.loads(json.dumps(r.get("stream", False))) for r in provider.requests] == [True, True, False]


def test_a_refused_form_of_the_reply_warns_of_nothing(stage: Stage, fake_provider: Start) -> None:
    told = "'response_format' of type 'json_schema' is not supported with this model"
    said = '{"thought": "", "action": "reply", "action_input": "Hello."}'
    provider = fake_provider(
        script({"error": {"status": 400, "message": told, "param": "response_format"}}, says(said))
    )
    profile = ProviderProfile(json_schema=True)
    graph = build_turn_graph(
        stage.model(provider), checkpointer=stage.saver, protocol="json", provider_profile=profile
    )
    played = stage.play(graph, "Hi.")
    assert (played.answer, played.outcome["degradations"]) == ("Hello.", ["response_format"])


@pytest.mark.parametrize("limit", [float("inf"), 1e12])
def test_limits_of_time_may_be_as_long_as_one_likes(stage: Stage, fake_provider: Start, limit: float) -> None:
    call = {"reply": {"tool_calls": [{"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}]}}
    provider = fake_provider(
        script({"error": {"status": 503, "headers": {"retry-after-ms": "5"}}}, call, says("3."))
    )
    names = ("first_token", "idle", "usage", "final", "round", "tool", "contributor")
    settings = {**{f"{name}_timeout": limit for name in names}, "max_retry_wait": limit}
    graph = build_turn_graph(stage.model(provider), [add], checkpointer=stage.saver, settings=settings)
    assert stage.play(graph, "Hi.").answer == "3."
