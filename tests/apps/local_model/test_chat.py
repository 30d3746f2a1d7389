"""The embedded model itself, through the public chat model: answers repeat, so they can be named."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool

from turnflow.apps.example_tools import calculate, now
from turnflow.apps.local_model import TOY_NOTICE, TOY_NOTICE_ZH, LocalChatModel, LocalModelServer

QUESTION = "What is 17 * 23?"


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"fine in {city}"


@pytest.mark.parametrize("notice", [TOY_NOTICE, TOY_NOTICE_ZH])
def test_the_notice_is_one_line_that_points_at_a_real_model(notice: str) -> None:
    assert "\n" not in notice
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNFLOW_MODEL", "--base-url", "--model"):
        assert name in notice


@pytest.fixture(scope="module")
def model() -> Iterator[LocalChatModel]:
    with LocalModelServer() as server:
        yield LocalChatModel(server=server)


def bound(model: LocalChatModel) -> Runnable[LanguageModelInput, AIMessage]:
    return model.bind_tools([weather, calculate, now])


def turn(model: LocalChatModel, question: str) -> list[BaseMessage]:
    """Run a question to its answer with the calculator at hand."""
    messages: list[BaseMessage] = [
        SystemMessage("You are a helpful assistant. " * 40),
        HumanMessage(question),
    ]
    for _ in range(2):
        reply = bound(model).invoke(messages)
        messages.append(reply)
        messages += [calculate.invoke(dict(call)) for call in reply.tool_calls]
        if not reply.tool_calls:
            break
    return messages


@pytest.mark.local_model
class TestDemo:
    def test_it_calls_the_calculator_and_says_the_result(self, model: LocalChatModel) -> None:
        _, _, call, result, answer = turn(model, QUESTION)

        assert isinstance(call, AIMessage)
        assert [(made["name"], made["args"]) for made in call.tool_calls] == [
            ("calculate", {"expression": "17 * 23"})
        ]
        assert call.response_metadata["finish_reason"] == "tool_calls"
        assert result.text == "391"
        assert answer.text == "17 * 23 is 391."

    def test_it_does_so_whatever_was_asked_before(self, model: LocalChatModel) -> None:
        answers = set()
        for before in ("Hello!", "17 17 17 23"):
            model.invoke(before)
            answers.add(turn(model, QUESTION)[-1].text)

        assert answers == {"17 * 23 is 391."}

    @pytest.mark.parametrize(
        ("question", "result"),
        [
            ("what's 12+30", "42"),
            ("Compute 144 / 12", "12"),
            ("What is (3 + 4) * 5?", "35"),
            ("Please multiply 6 by 7", "42"),
            ("2^10", "1024"),
        ],
    )
    def test_it_manages_other_sums(self, model: LocalChatModel, question: str, result: str) -> None:
        assert result in turn(model, question)[-1].text

    @pytest.mark.parametrize("question", ["Hello!", "Who are you?"])
    def test_a_greeting_is_answered_without_a_call(self, model: LocalChatModel, question: str) -> None:
        *_, answer = turn(model, question)

        assert isinstance(answer, AIMessage)
        assert answer.text
        assert answer.response_metadata["finish_reason"] == "stop"


@pytest.mark.local_model
class TestStreams:
    def test_a_call_streams_in_pieces(self, model: LocalChatModel) -> None:
        chunks = list(bound(model).stream(QUESTION))

        whole = AIMessageChunk(content="")
        for chunk in chunks:
            assert isinstance(chunk, AIMessageChunk)
            whole += chunk
        assert sum(bool(chunk.tool_call_chunks) for chunk in chunks if isinstance(chunk, AIMessageChunk)) > 3
        assert whole.tool_call_chunks[0]["args"] == '{"expression": "17 * 23"}'
        assert whole.usage_metadata is not None
        assert whole.usage_metadata["output_tokens"] > 5

    def test_text_streams_word_by_word(self, model: LocalChatModel) -> None:
        texts = [chunk.text for chunk in model.stream("Hello!") if chunk.text]

        assert len(texts) > 1
        assert "".join(texts) == model.invoke("Hello!").text

    async def test_async_gives_the_same(self, model: LocalChatModel) -> None:
        streamed = [chunk async for chunk in bound(model).astream(QUESTION)]
        invoked = await bound(model).ainvoke(QUESTION)

        assert invoked.tool_calls[0]["args"] == {"expression": "17 * 23"}
        assert len(streamed) > 3

    def test_it_works_in_one_event_loop_after_another(self, model: LocalChatModel) -> None:
        first = asyncio.run(model.ainvoke("Hello!"))
        second = asyncio.run(model.ainvoke("Hello!"))

        assert first.text == second.text

    async def test_a_cancelled_answer_frees_the_model(self, model: LocalChatModel) -> None:
        long = LocalChatModel(server=model.server, max_tokens=3000)
        started = asyncio.Event()

        async def talk() -> None:
            async for _ in long.astream("Count to one thousand", extra_body={"ignore_eos": True}):
                started.set()

        task = asyncio.create_task(talk())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (await asyncio.wait_for(model.ainvoke("Hello!"), 90)).text

    def test_a_stream_left_early_frees_the_model(self, model: LocalChatModel) -> None:
        long = LocalChatModel(server=model.server, max_tokens=3000)
        for _ in long.stream("Count to one thousand", extra_body={"ignore_eos": True}):
            break

        assert model.invoke("Hello!").text


@pytest.mark.local_model
def test_a_conversation_longer_than_its_memory_is_answered() -> None:
    talk = [HumanMessage(f"{number} 你好 " + "lorem ipsum 12345 " * 20) for number in range(20)]

    with LocalModelServer(context_tokens=1024) as server:
        reply = LocalChatModel(server=server).invoke([*talk, HumanMessage("Hello!")])

    assert reply.text
    assert reply.usage_metadata is not None
    assert 200 < reply.usage_metadata["input_tokens"] < 1024


@pytest.mark.local_model
def test_a_schema_is_kept_to(model: LocalChatModel) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}

    answer = json.loads(model.invoke("The sky?", response_format=form).text)

    assert answer in ({"colour": "red"}, {"colour": "blue"})


def test_tools_are_bound_as_the_api_has_them() -> None:
    assert isinstance(weather, BaseTool)
    bound_model = LocalChatModel().bind_tools([weather], tool_choice="none")

    assert bound_model.kwargs["tools"][0]["function"]["name"] == "weather"  # type: ignore[attr-defined]
    assert bound_model.kwargs["tool_choice"] == "none"  # type: ignore[attr-defined]
