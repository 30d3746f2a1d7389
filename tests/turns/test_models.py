"""Any LangChain chat model will do; `OpenAICompatibleChat` in particular."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

from tests.turns.scripted import Start, call, says, script
from tests.turns.stage import Stage, add
from turnflow import OpenAICompatibleChat, ProviderProfile, build_turn_graph


class Whole(BaseChatModel):
    """Gives whole messages, and no stream."""

    replies: Any

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next(self.replies))])

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=tools)


class Blocks(Whole):
    """Streams content as blocks, a thought among them."""

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        thought: Any = [{"type": "thinking", "thinking": "Hm.", "index": 0}]
        text: Any = [{"type": "text", "text": "Hel", "index": 1}]
        more: Any = [{"type": "text", "text": "lo.", "index": 1}]
        for content in (thought, text, more):
            yield ChatGenerationChunk(message=AIMessageChunk(content=content))


class NoTools(Whole):
    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, AIMessage]:
        raise NotImplementedError


def replies() -> Iterator[AIMessage]:
    yield AIMessage("", tool_calls=[{"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}])
    yield AIMessage("It is 3.")


def graph(stage: Stage, model: Any, **options: Any) -> Any:
    return build_turn_graph(model, [add], checkpointer=stage.saver, **options)


def test_a_model_that_does_not_stream(stage: Stage) -> None:
    played = stage.play(graph(stage, Whole(replies=replies())), "Go.")
    assert (played.answer, played.results()) == ("It is 3.", {"c1": "3"})


def test_a_model_with_fallbacks(stage: Stage) -> None:
    model = Whole(replies=iter(())).with_fallbacks([Whole(replies=replies())])
    assert stage.play(graph(stage, model), "Go.").answer == "It is 3."


def test_content_blocks_and_thinking_blocks(stage: Stage) -> None:
    played = stage.play(graph(stage, Blocks(replies=None)), "Go.")
    assert played.answer == "Hello."
    assert "".join(e["text"] for e in played.of("thinking.delta")) == "Hm."


def test_a_model_without_tools_says_what_to_do(stage: Stage) -> None:
    with pytest.raises(ValueError, match="NoTools takes no tools"):
        stage.play(graph(stage, NoTools(replies=replies())), "Go.")
    profile = ProviderProfile(native_tools=False)
    played = stage.play(
        graph(stage, NoTools(replies=iter([AIMessage("Hi.")])), provider_profile=profile), "Go.", thread="u"
    )
    assert played.answer == "Hi."


def test_tracing_sees_the_model_and_all_that_it_said(stage: Stage, fake_provider: Start) -> None:
    class Tracer(BaseCallbackHandler):
        def __init__(self) -> None:
            self.tokens: list[str] = []
            self.ended = 0

        def on_llm_new_token(self, token: Any, **_: Any) -> None:
            self.tokens.append(token)

        def on_llm_end(self, *_: Any, **__: Any) -> None:
            self.ended += 1

    tracer = Tracer()
    turn = stage.graph(fake_provider("think_tags_inline")).with_config(callbacks=[tracer])
    stage.play(turn, "Go.")
    assert "".join(tracer.tokens).startswith("<think>The user greets me.")
    assert tracer.ended == 1


def test_settings_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("TURNFLOW_MODEL", "some-model")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = OpenAICompatibleChat()
    assert (model.model_name, model.openai_api_base) == ("some-model", "http://127.0.0.1:1/v1")
    assert OpenAICompatibleChat(model="other").model_name == "other"


@pytest.mark.parametrize(
    ("named", "sent"), [(None, "max_tokens"), ("max_completion_tokens", "max_completion_tokens")]
)
def test_the_token_limit_goes_under_the_profiles_name(
    stage: Stage, fake_provider: Start, named: Any, sent: str
) -> None:
    provider = fake_provider(script(says("Hi.")))
    profile = ProviderProfile(token_limit_parameter=named)
    stage.play(stage.graph(provider, profile=profile, settings={"max_output_tokens": 77}), "Go.")
    names = {"max_tokens", "max_completion_tokens"} & provider.requests[0].keys()
    assert names == {sent}
    assert provider.requests[0][sent] == 77


def test_a_thought_that_was_cut_off_gets_more_output(stage: Stage, fake_provider: Start) -> None:
    cut = {"reply": {"content": "<think>I wonder", "finish_reason": "length"}}
    provider = fake_provider(script(cut, says("Hi.")))
    played = stage.play(stage.graph(provider, settings={"max_output_tokens": 50}), "Go.")
    assert [request["max_tokens"] for request in provider.requests] == [50, 100]
    assert played.answer == "Hi."


def test_further_request_parameters(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Hi.")))
    profile = ProviderProfile(request_parameters={"temperature": 0.25})
    stage.play(stage.graph(provider, profile=profile), "Go.")
    assert provider.requests[0]["temperature"] == 0.25


def test_blank_text_before_calls_is_not_shown(stage: Stage, fake_provider: Start) -> None:
    blank = {"reply": {"content": "\n\n", "tool_calls": [call("add", a=1, b=2)]}}
    provider = fake_provider(script(blank, says("It is 3.")))
    played = stage.play(stage.graph(provider), "Go.")
    assert played.answer == "It is 3."


def test_blank_reply_is_empty(stage: Stage, fake_provider: Start) -> None:
    played = stage.play(stage.graph(fake_provider(script(says(" \n"), says("Hi.")))), "Go.")
    assert played.answer == "Hi."
    assert [e["key"] for e in played.of("nudge")] == ["empty_reply"]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNFLOW_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="no model is named: pass model="):
        OpenAICompatibleChat(base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ValueError, match="no key: set OPENAI_API_KEY, or OPENAI_BASE_URL"):
        OpenAICompatibleChat(model="m")
    with pytest.raises(ValueError, match="is no address: it begins with http://"):
        OpenAICompatibleChat(model="m", base_url="127.0.0.1/v1")


def test_an_unreachable_endpoint_is_named(stage: Stage) -> None:
    model = OpenAICompatibleChat(model="m", base_url="http://127.0.0.1:9/v1", max_retries=0)
    played = stage.play(build_turn_graph(model, checkpointer=stage.saver), "Go.")
    assert "at http://127.0.0.1:9/v1" in str(played.error)
    assert "refused" in str(played.error) or "failed" in str(played.error)


def test_upper_case_finish_reasons_mean_the_same(stage: Stage, fake_provider: Start) -> None:
    reply = {"reply": {"content": "I", "tool_calls": [call("boom")], "finish_reason": "content_filter"}}
    raw = {"choices": [{"index": 0, "delta": {"content": "I"}, "finish_reason": "CONTENT_FILTER"}]}
    provider = fake_provider(
        {"steps": [{"raw": [f"data: {json.dumps(raw)}\n\n", "data: [DONE]\n\n"]}, reply]}
    )
    graph = stage.graph(provider)
    assert stage.play(graph, "Go.", thread="a").status == "filtered"
    assert stage.play(graph, "Go.", thread="b").status == "filtered"


def test_a_model_that_raises_cancelled_is_a_failure(stage: Stage) -> None:
    class Odd(Whole):
        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            raise asyncio.CancelledError

    assert stage.play(graph(stage, Odd(replies=None)), "Go.").status == "provider_error"
