"""Whatever an endpoint sends becomes a chunk and a reply that LangChain reads, without a warning."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from openai._models import construct_type
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import SecretStr

from turnflow import OpenAICompatibleChat
from turnflow.nodes.call_llm.clean_chunks import clean_chunk, clean_reply
from turnflow.nodes.call_llm.plain_client import plain_body

EXAMPLES = int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300"))
MODEL = OpenAICompatibleChat(model="m", base_url="http://127.0.0.1:9/v1", api_key=SecretStr("none"))
NAMES = st.sampled_from(
    [
        "role",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "index",
        "id",
        "usage",
        "logprobs",
        "finish_reason",
        "prompt_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "reasoning",
        "model",
        "function_call",
        "choices",
        "delta",
        "message",
        "service_tier",
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.sampled_from(["", "tool", "x"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "index": VALUES,
        "delta": st.dictionaries(NAMES, VALUES) | VALUES,
        "message": st.dictionaries(NAMES, VALUES) | VALUES,
        "finish_reason": VALUES,
        "logprobs": VALUES,
    },
)
BODIES = VALUES | st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, min_size=1, max_size=2), "usage": VALUES}
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(BODIES, BODIES)
def test_any_chunks_are_read_and_added_up(first: Any, second: Any) -> None:
    total = None
    for sent in (first, second):
        chunk = plain_body(construct_type(type_=ChatCompletionChunk, value=sent))
        read = MODEL._convert_chunk_to_generation_chunk(chunk, AIMessageChunk, {})
        assert read is not None
        total = read if total is None else total + read
    assert total is not None
    assert total.message.type == "AIMessageChunk"


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.fixed_dictionaries({"choices": st.lists(CHOICES, min_size=1, max_size=2), "usage": VALUES}))
def test_any_whole_reply_is_read(sent: Any) -> None:
    response = construct_type(type_=ChatCompletion, value=sent)
    (generation,) = MODEL._create_chat_result(response).generations
    assert generation.message.type == "ai"
    assert isinstance((generation.generation_info or {})["finish_reason"], str)


def test_what_is_right_stays() -> None:
    call = {"id": "c1", "index": 0, "function": {"name": "add", "arguments": "{}"}}
    said = {"role": "assistant", "content": "Hi.", "tool_calls": [call]}
    usage = {"prompt_tokens": 9, "completion_tokens": 3.0, "prompt_tokens_details": {"cached_tokens": 4}}
    chunk = {"id": "1", "model": "m", "choices": [{"delta": said, "finish_reason": "stop"}], "usage": usage}
    clean = clean_chunk(chunk)
    assert clean["choices"][0] | {"index": 0, "logprobs": None} == clean["choices"][0]
    assert clean["choices"][0]["delta"] == said
    assert clean["usage"] == usage
    assert (clean["id"], clean["model"]) == ("1", "m")
    whole = clean_reply({"choices": [{"message": said}]})
    assert whole is not None
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
