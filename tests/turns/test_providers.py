"""What a turn does about a provider's ways that no single fault shows: wrappers, memory, usage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.types import Command
from pydantic import SecretStr

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage, add
from turnflow import ProviderProfile, TurnContext, build_turn_graph
from turnflow.graph.learned import known_refusals, learn_refusals
from turnflow.graph.model_access import endpoint_of, name_of

PICTURE = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
]


def graph(stage: Stage, model: Any, **options: Any) -> Any:
    return build_turn_graph(model, [add], checkpointer=stage.saver, **options)


def refuses(message: str, **error: Any) -> dict[str, Any]:
    return {"error": {"status": 400, "message": message, **error}}


@pytest.mark.parametrize("wrapper", ["config", "fallbacks"])
def test_a_wrapped_model_is_spoken_to_in_another_form(
    stage: Stage, fake_provider: Start, wrapper: str
) -> None:
    provider = fake_provider(
        {
            "refuses": ["stream_options", "temperature"],
            "steps": [says("Hello.")],
        }
    )
    model: Any = stage.model(provider, temperature=0.2)
    model = model.with_config(tags=["x"]) if wrapper == "config" else model.with_fallbacks([model])
    played = stage.play(graph(stage, model), "Hi.")
    assert (played.status, played.answer) == ("finished", "Hello.")
    assert sorted(played.outcome["degradations"]) == ["stream_options", "temperature"]
    assert len(provider.refusals) == (2 if wrapper == "config" else 4)


def test_a_graphs_profile_reaches_a_wrapped_model(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider({"refuses": ["stream_options"], "steps": [says("Hello.")]})
    model: Any = stage.model(provider).with_config(tags=["x"])
    profile = ProviderProfile(stream_usage=False)
    played = stage.play(graph(stage, model, provider_profile=profile), "Hi.")
    assert (played.status, played.outcome["degradations"]) == ("finished", [])


def test_models_behind_wrappers_are_known_by_their_names() -> None:
    azure: Any = AzureChatOpenAI(
        azure_deployment="dep",
        azure_endpoint="https://a.example",
        api_version="1",
        api_key=SecretStr("k"),
    )
    assert (name_of(azure), endpoint_of(azure)) == ("dep", "https://a.example")
    plain: Any = ChatOpenAI(model="m", api_key=SecretStr("k"))
    assert (name_of(plain), endpoint_of(plain)) == ("m", "https://api.openai.com/v1")
    assert name_of(plain.with_fallbacks([azure])) == "m"
    build_turn_graph(azure)


def test_nothing_is_remembered_of_a_model_that_does_not_say_where_it_is() -> None:
    learn_refusals(None, ["tools"])
    assert known_refusals(None) == ()


def test_what_was_left_out_in_vain_is_taken_back(stage: Stage, fake_provider: Start) -> None:
    told = "temperature: bad value"
    provider = fake_provider(
        script(
            refuses(told, param="temperature"),
            refuses(told, param="temperature"),
            says("Hello."),
        )
    )
    built = graph(stage, stage.model(provider, temperature=0.2))
    first = stage.play(built, "Hi.")
    assert first.error is not None
    assert first.outcome["degradations"] == []
    played = stage.play(built, "Again.")
    assert played.answer == "Hello."
    assert provider.requests[-1]["temperature"] == 0.2


def test_one_bad_picture_is_not_remembered(stage: Stage, fake_provider: Start) -> None:
    bad = refuses("Invalid image data")
    provider = fake_provider(script(bad, says("A cat?"), says("A dog.")))
    built = graph(stage, stage.model(provider))
    first = stage.play(built, {"messages": [{"role": "user", "content": PICTURE}]})
    assert (first.status, first.outcome["degradations"]) == ("finished_degraded", ["images"])
    second = stage.play(built, {"messages": [{"role": "user", "content": PICTURE}]}, thread="another")
    assert second.status == "finished"
    assert any(isinstance(m["content"], list) for m in provider.requests[2]["messages"])


def test_what_the_model_itself_sends_in_its_body_stays(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        {
            "strictness": {"parameters": ["chat_template_kwargs"]},
            "steps": [says('{"thought": "", "action": "reply", "action_input": "Hello."}')],
        }
    )
    model = stage.model(provider, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    profile = ProviderProfile(json_schema=True)
    played = stage.play(graph(stage, model, protocol="json", provider_profile=profile), "Hi.")
    assert played.answer == "Hello."
    (request,) = provider.requests
    assert request["chat_template_kwargs"] == {"enable_thinking": False}
    assert "response_format" in request


def test_usage_that_runs_along_is_not_added_up(stage: Stage, fake_provider: Start) -> None:
    def piece(text: str, used: int, reason: str | None = None) -> str:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
        usage = {"prompt_tokens": 100, "completion_tokens": used, "total_tokens": 100 + used}
        body = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return f"data: {json.dumps({**body, 'choices': [choice], 'usage': usage})}\n\n"

    raw = [piece("One", 1), piece(" two", 2), piece(".", 3, "stop"), "data: [DONE]\n\n"]
    played = stage.play(graph(stage, stage.model(fake_provider({"steps": [{"raw": raw}]}))), "Hi.")
    assert played.answer == "One two."
    assert (played.outcome["usage"]["input"], played.outcome["usage"]["output"]) == (100, 3)


def test_attempts_that_failed_do_not_change_how_tokens_are_counted(
    stage: Stage, fake_provider: Start
) -> None:
    thinks = {
        "reply": {"reasoning_content": "Hm. " * 5, "content": "Hello.", "usage": None},
        "fault": {"kind": "reset", "after": 3},
    }
    provider = fake_provider(script(thinks, says("Hello.")))
    played = stage.play(graph(stage, stage.model(provider), settings={"max_retry_wait": 0.01}), "Hi.")
    assert (played.answer, played.outcome["usage"]["requests"]) == ("Hello.", 2)
    once = stage.play(graph(stage, stage.model(fake_provider(script(says("Hello."))))), "Hi.", thread="b")
    assert played.outcome["usage"]["input"] == once.outcome["usage"]["input"]


def test_a_call_as_text_that_broke_off_behind_text_is_no_text(stage: Stage, fake_provider: Start) -> None:
    broken = {
        "reply": {"content": ["Let me add. ", "<tool_call>\n", '{"name": "add", "argum']},
        "fault": {"kind": "reset", "after": 3},
    }
    provider = fake_provider(script(broken, says("It is 3.")))
    profile = ProviderProfile(native_tools=False)
    played = stage.play(graph(stage, stage.model(provider), provider_profile=profile), "Add 1 and 2.")
    assert played.status == "finished_degraded"
    assert played.answer == "Let me add. It is 3."
    assert "<tool_call>" not in provider.requests[1]["messages"][-2]["content"]


def test_no_message_form_is_refused_twice(stage: Stage, fake_provider: Start) -> None:
    told = {"error": {"status": 503, "message": "messages: the content must not be empty"}}
    provider = fake_provider(script(calls(call("add", a=1, b=2)), told, told, says("It is 3.")))
    profile = ProviderProfile(strict_messages=True)
    settings = {"max_retry_wait": 0.01}
    played = stage.play(
        graph(stage, stage.model(provider), provider_profile=profile, settings=settings), "Add."
    )
    assert (played.status, played.answer, played.outcome["degradations"]) == ("finished", "It is 3.", [])


def test_an_empty_and_a_broken_stream_of_another_openai_model(stage: Stage, fake_provider: Start) -> None:
    empty = {"raw": ["data: [DONE]\n\n"]}
    broken = {"reply": {"content": ["One ", "two ", "three."]}, "fault": {"kind": "truncate", "after": 2}}
    provider = fake_provider(script(empty, broken, says("three.")))
    model: Any = ChatOpenAI(
        model="m", base_url=provider.base_url, api_key=SecretStr("k"), max_retries=0, stream_usage=True
    )
    built = graph(stage, model, settings={"max_retry_wait": 0.01})
    played = stage.play(built, "Count.")
    assert (played.status, played.answer) == ("finished_degraded", "One two three.")
    assert len(played.of("retry")) == 1


def test_what_one_model_refused_is_not_held_against_another(stage: Stage, fake_provider: Start) -> None:
    ask = calls(call("ask_user", "q", questions=[{"prompt": "Which?"}]))
    first = fake_provider({"refuses": ["temperature"], "steps": [ask]})
    second = fake_provider(script(says("That one.")))
    built = graph(stage, stage.model(first, temperature=0.2))
    assert stage.play(built, "Hi.").status == "paused"
    context = TurnContext(model=stage.model(second, temperature=0.2))
    played = stage.play(built, Command(resume="this"), context=context)
    assert played.answer == "That one."
    assert second.requests[0]["temperature"] == 0.2


def test_content_that_a_client_cannot_send_is_a_typed_error(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script())
    content = [{"type": "text", "text": "Hi."}, {"type": "image", "base64": "AAAA"}]
    played = stage.play(
        graph(stage, stage.model(provider)),
        {"messages": [{"role": "user", "content": content}]},
    )
    assert played.error is not None
    assert played.types()[-1] == "turn.ended"
