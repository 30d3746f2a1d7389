import pytest
from langchain_core.messages import AIMessageChunk
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta

from turnflow.apps.local_model.reply import ReplyReader


def chunk(text: str | None = None, reason: str | None = None) -> ChatCompletionChunk:
    choice = Choice.model_validate({"index": 0, "delta": ChoiceDelta(content=text), "finish_reason": reason})
    return ChatCompletionChunk(id="x", created=0, model="m", object="chat.completion.chunk", choices=[choice])


def read(texts: list[str], reason: str, *, call: bool) -> AIMessageChunk:
    """Feed a reply the way a model's stream adds it up."""
    reader = ReplyReader("m", call=call)
    usage = chunk()
    usage.choices = []
    usage.usage = CompletionUsage(prompt_tokens=5, completion_tokens=2, total_tokens=7)
    whole = AIMessageChunk(content="")
    for one in [*(chunk(text) for text in texts), chunk(None, reason), usage]:
        for generation in reader.read(one):
            assert isinstance(generation.message, AIMessageChunk)
            whole += generation.message
            whole.response_metadata.update(generation.generation_info or {})
    return whole


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_call_becomes_a_tool_call_however_it_is_cut(size: int) -> None:
    text = 'calculate("17 * 23")'

    whole = read([text[at : at + size] for at in range(0, len(text), size)], "stop", call=True)

    assert whole.content == ""
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [
        ("calculate", {"expression": "17 * 23"})
    ]
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    assert whole.usage_metadata == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


def test_a_call_cut_off_by_the_limit_stays_open() -> None:
    whole = read(['calculate("17 * '], "length", call=True)

    assert whole.response_metadata["finish_reason"] == "length"
    assert whole.tool_call_chunks[0]["args"] == '{"expression": "17 * '


def test_text_stays_text() -> None:
    whole = read(["17 * 23", " is 391."], "stop", call=False)

    assert whole.content == "17 * 23 is 391."
    assert whole.tool_calls == []
    assert whole.response_metadata == {"finish_reason": "stop", "model_name": "m"}
