"""The installed openai SDK talks to the fake provider as to a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnflow.apps.fake_provider import FakeProvider

    Start = Callable[..., FakeProvider]
    Client = Callable[[FakeProvider], openai.OpenAI]


@pytest.fixture
def client() -> Iterator[Client]:
    opened: list[openai.OpenAI] = []

    def connect(provider: FakeProvider) -> openai.OpenAI:
        opened.append(openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def test_a_streamed_reply_with_a_call_and_usage(fake_provider: Start, client: Client) -> None:
    call = {"id": "c1", "name": "add", "arguments": {"a": 17, "b": 23}}
    provider = fake_provider({"steps": [{"reply": {"content": "Let me see.", "tool_calls": [call]}}]})
    stream = client(provider).chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    text, arguments, names, finish, usage = "", "", [], None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for delta in choice.delta.tool_calls or []:
                assert delta.function is not None
                names += [delta.function.name] if delta.function.name else []
                arguments += delta.function.arguments or ""
    assert (text, names, arguments, finish) == ("Let me see.", ["add"], '{"a": 17, "b": 23}', "tool_calls")
    assert usage is not None
    assert usage.total_tokens > 0


def test_a_whole_reply(fake_provider: Start, client: Client) -> None:
    provider = fake_provider("plain_answer")
    reply = client(provider).chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert reply.choices[0].message.content == "Forty-two is the answer."
    assert reply.choices[0].finish_reason == "stop"


def test_the_models(fake_provider: Start, client: Client) -> None:
    provider = fake_provider({"steps": []})
    assert [model.id for model in client(provider).models.list()] == ["fake-model"]


def test_errors_are_the_sdks_own(fake_provider: Start, client: Client) -> None:
    provider = fake_provider(
        {"steps": [{"error": {"status": 429, "message": "slow", "headers": {"Retry-After": "1"}}}]}
    )
    with pytest.raises(openai.RateLimitError) as caught:
        client(provider).chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.response.headers["retry-after"] == "1"
