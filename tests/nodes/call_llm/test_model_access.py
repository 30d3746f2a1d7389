"""`OpenAICompatibleChat` made from a name: its endpoint, its connections, its token limit."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from tests.turns.scripted import Start, says, script
from turnflow import OpenAICompatibleChat, ProviderProfile, arun_turn, build_turn_graph, run_turn


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return monkeypatch


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_graph_outlives_its_event_loop(endpoint: pytest.MonkeyPatch, fake_provider: Start) -> None:
    provider = fake_provider(script({**says("Hello."), "times": 3}))
    endpoint.setenv("OPENAI_BASE_URL", provider.base_url)
    graph = build_turn_graph("fake")
    answers = [asyncio.run(arun_turn(graph, "Go.")).answer for _ in range(3)]
    gc.collect()  # the connections of loops that are gone
    assert answers == ["Hello."] * 3


def test_a_changed_address_is_honoured(endpoint: pytest.MonkeyPatch, fake_provider: Start) -> None:
    first, second = fake_provider(script(says("First."))), fake_provider(script(says("Second.")))
    graph = build_turn_graph("fake")
    answers = []
    for provider in (first, second):
        endpoint.setenv("OPENAI_BASE_URL", provider.base_url)
        answers.append(run_turn(graph, "Go.").answer)
    assert answers == ["First.", "Second."]


@pytest.mark.parametrize(
    ("base_url", "named", "sent"),
    [
        ("https://api.openai.com/v1", None, "max_completion_tokens"),
        (None, None, "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_tokens", "max_tokens"),
        ("http://127.0.0.1:1/v1", None, "max_tokens"),
        ("https://api.openai.com.example.org/v1", None, "max_tokens"),
        ("http://127.0.0.1:1/v1", "max_completion_tokens", "max_completion_tokens"),
    ],
)
def test_the_token_limit_is_named_as_the_address_wants_it(
    endpoint: pytest.MonkeyPatch, base_url: str | None, named: Any, sent: str
) -> None:
    endpoint.delenv("OPENAI_BASE_URL", raising=False)
    model = OpenAICompatibleChat(
        model="m", base_url=base_url, provider_profile=ProviderProfile(token_limit_parameter=named)
    )
    payload = model._get_request_payload([HumanMessage("Go.")], max_tokens=7)
    assert {name: payload[name] for name in ("max_tokens", "max_completion_tokens") if name in payload} == {
        sent: 7
    }
