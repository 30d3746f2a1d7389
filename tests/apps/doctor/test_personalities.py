"""The doctor on ten kinds of providers: what it finds, and a turn with the profile that it wrote."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from turnflow import OpenAICompatibleChat, TurnSettings, build_turn_graph, run_turn
from turnflow.apps.doctor import Examination, examine
from turnflow.apps.doctor.report import profile_fields
from turnflow.apps.fake_provider import FakeProvider, load_script
from turnflow.apps.fake_provider.personality import personality, personality_names

PROFILES: dict[str, dict[str, Any]] = {
    "openai_reasoning": {
        "json_schema": True,
        "token_limit_parameter": "max_completion_tokens",
        "unsupported_parameters": ["temperature", "top_p"],
    },
    "deepseek": {"reasoning_field": "reasoning_content", "images": False},
    "qwen_vllm": {"json_schema": True},
    "mistral": {
        "json_schema": True,
        "stream_usage": False,
        "strict_messages": True,
        "call_ids": "alnum9",
        "unsupported_parameters": ["reasoning_effort"],
    },
    "gemma_llamacpp": {
        "native_tools": False,
        "json_schema": True,
        "grammar": True,
        "images": False,
        "system_role": False,
    },
    "ollama": {"json_schema": True, "images": False},
    "glm": {"reasoning_field": "reasoning_content", "images": False},
    "kimi": {
        "json_schema": True,
        "reasoning_field": "reasoning_content",
        "unsupported_parameters": ["temperature"],
    },
    "openrouter": {"json_schema": True, "reasoning_field": "reasoning", "images": False},
    "broken_gateway": {
        "stream_usage": False,
        "images": False,
        "strict_messages": True,
        "unsupported_parameters": ["reasoning_effort", "parallel_tool_calls"],
    },
}

FOUND: dict[str, dict[str, Any]] = {
    "openai_reasoning": {
        "reasoning": False,
        "usage": "own_chunk",
        "token_limit": ["max_completion_tokens"],
        "call_deltas": [],
        "unknown_parameter": False,
        "name_fields": True,
    },
    "deepseek": {
        "reasoning": "reasoning_content",
        "reasoning_back": True,
        "think_tags": False,
        "json_schema": False,
        "null_content": True,
    },
    "qwen_vllm": {"think_tags": "think", "starts_thinking": False, "reasoning": False, "grammar": False},
    "mistral": {
        "usage": "refused",
        "call_ids": "alnum9",
        "call_deltas": ["whole", "together"],
        "consecutive_users": False,
        "system_after_user": False,
        "user_after_tool": False,
        "empty_content": False,
        "name_fields": False,
        "token_limit": ["max_tokens"],
    },
    "gemma_llamacpp": {
        "native_tools": False,
        "call_ids": None,
        "system_role": False,
        "consecutive_users": False,
        "system_after_user": None,
        "unknown_parameter": True,
    },
    "ollama": {
        "call_deltas": ["index_zero", "whole"],
        "usage": "own_chunk",
        "unknown_parameter": True,
        "grammar": False,
        "parallel_calls": True,
    },
    "glm": {"parallel_calls": False, "usage": "with_choices", "call_deltas": ["whole"], "json_schema": False},
    "kimi": {"reasoning": "reasoning_content", "empty_content": False, "call_ids": "any"},
    "openrouter": {"reasoning": "reasoning", "reasoning_back": True, "stream_end": "complete"},
    "broken_gateway": {
        "usage": "none",
        "stream_end": "held",
        "call_deltas": ["index_zero", "repeat_ids"],
        "null_content": False,
        "parallel_parameter": False,
    },
}


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@cache
def examined(name: str) -> Examination:
    with FakeProvider(personality(name)) as provider:
        examination = asyncio.run(examine(provider.base_url))
        assert provider.errors == []
        return examination


def test_all_personalities_are_examined() -> None:
    assert sorted(PROFILES) == sorted(FOUND) == personality_names()
    assert len(PROFILES) == 10


@pytest.mark.parametrize("name", PROFILES)
def test_a_personality_says_what_it_is(name: str) -> None:
    path = personality(name)
    script = load_script(path)
    assert script.note == name
    assert script.strict
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("name", PROFILES)
def test_the_profile_is_exactly_this(name: str) -> None:
    assert profile_fields(examined(name)) == PROFILES[name]


@pytest.mark.parametrize("name", PROFILES)
def test_the_findings(name: str) -> None:
    findings = examined(name).findings
    assert {probe: findings[probe].value for probe in FOUND[name]} == FOUND[name]
    assert all(finding.evidence for finding in findings.values())
    # Where nothing hangs, a probe that is not known is one that had nothing to look at.
    unknown = {probe for probe, finding in findings.items() if finding.value is None}
    assert "window" in unknown
    assert len(findings) == 27


@pytest.mark.parametrize("name", PROFILES)
def test_it_asks_little(name: str) -> None:
    examination = examined(name)
    assert 15 <= examination.requests <= 30
    assert examination.seconds < 20


@pytest.mark.parametrize("name", PROFILES)
def test_turns_with_this_profile_are_never_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(profile_fields(examined(name))))
    with FakeProvider(personality(name)) as provider:
        # With what a program sets: a temperature, and a limit of tokens.
        model = OpenAICompatibleChat(
            model=provider.script.models[0], base_url=provider.base_url, temperature=0.2
        )
        graph = build_turn_graph(
            model,
            [add],
            provider_profile=file,
            settings=TurnSettings(max_output_tokens=500),
            instructions="Be brief.",
            checkpointer=InMemorySaver(),
        )
        for turn in (1, 2):
            result = run_turn(graph, "Use the tool add to work out 17 + 25.", thread_id="t")
            assert (result.answer, result.status) == ("It is 42.", "finished")
            assert result.outcome["degradations"] == []
            assert result.outcome["tool_calls"] == 1
            assert len(provider.requests) == 2 * turn
    assert (provider.violations, provider.refusals, provider.errors) == ([], [], [])
