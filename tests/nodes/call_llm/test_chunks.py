"""What a chunk reports: usage."""

from __future__ import annotations

from langchain_core.messages import AIMessageChunk, HumanMessage

from turnflow.graph.outcome import NO_USAGE
from turnflow.nodes.call_llm.chunks import add_usage


def test_usage_of_several_chunks_is_summed() -> None:
    usage = {**NO_USAGE, "requests": 1}
    chunks = [
        AIMessageChunk(
            content="",
            usage_metadata={
                "input_tokens": 10,
                "output_tokens": 1,
                "total_tokens": 11,
                "input_token_details": {"cache_read": 4},
                "output_token_details": {"reasoning": 1},
            },
        ),
        AIMessageChunk(content="text without usage"),
        AIMessageChunk(
            content="",
            usage_metadata={
                "input_tokens": 2,
                "output_tokens": 30,
                "total_tokens": 32,
                "input_token_details": {"cache_read": 1},
                "output_token_details": {"reasoning": 20},
            },
        ),
        AIMessageChunk(content="", usage_metadata={"input_tokens": 0, "output_tokens": 5, "total_tokens": 5}),
        HumanMessage("no chunk of a model"),
    ]
    for chunk in chunks:
        usage = add_usage(usage, chunk)
    assert usage == {"requests": 1, "input": 12, "output": 36, "cached": 5, "reasoning": 21}
