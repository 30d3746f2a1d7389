"""Agent loops without LangGraph: no graph, no saver, async only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, RunResult, Usage, function_tool
from agents.items import ToolCallOutputItem
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import messages as parts
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.run import AgentRunResult

from tests.benchmarks.cases import ANSWER, QUESTION, SYSTEM, Case
from tests.benchmarks.fake_model import TOOL
from tests.benchmarks.variants import Seen, Variant, adouble


def other_variants(case: Case) -> list[Variant]:
    """The loops of other libraries."""
    return [_pydantic_ai(case), _openai_agents(case)]


def _pydantic_ai(case: Case) -> Variant:
    def reply(messages: list[parts.ModelMessage], _info: AgentInfo) -> parts.ModelResponse:
        done = sum(isinstance(message, parts.ModelResponse) for message in messages)
        if done >= case.rounds:
            return parts.ModelResponse(parts=[parts.TextPart(ANSWER)])
        calls = [
            parts.ToolCallPart(TOOL, {"number": n}, tool_call_id=f"c{done}-{n}") for n in range(case.calls)
        ]
        return parts.ModelResponse(parts=calls)

    agent = PydanticAgent(FunctionModel(reply), instructions=SYSTEM)
    agent.tool_plain(name=TOOL)(adouble)

    def read(result: AgentRunResult[str]) -> Seen:
        results = [
            part
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, parts.ToolReturnPart)
        ]
        return Seen(len(results), result.output)

    return Variant("pydantic-ai", lambda _: agent.run(QUESTION), read)


class _InstantModel(Model):
    """The fake model in the form that openai-agents calls."""

    def __init__(self, case: Case) -> None:
        self._case = case

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002 - the name in `Model`
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        results = sum(item.get("type") == "function_call_output" for item in items)
        output = self._calls(results) if results < self._case.results else [_answer()]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def _calls(self, results: int) -> list[Any]:
        return [
            ResponseFunctionToolCall(
                type="function_call",
                call_id=f"c{results}-{n}",
                name=TOOL,
                arguments=json.dumps({"number": n}),
            )
            for n in range(self._case.calls)
        ]


def _answer() -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
    return ResponseOutputMessage(
        id="answer", type="message", role="assistant", status="completed", content=[text]
    )


def _openai_agents(case: Case) -> Variant:
    agent = Agent(
        name="agent",
        instructions=SYSTEM,
        tools=[function_tool(adouble, name_override=TOOL)],
        model=_InstantModel(case),
    )
    config = RunConfig(tracing_disabled=True)

    def read(result: RunResult) -> Seen:
        results = sum(isinstance(item, ToolCallOutputItem) for item in result.new_items)
        return Seen(results, result.final_output)

    def run(_thread_id: str) -> Any:
        return Runner.run(agent, QUESTION, max_turns=case.rounds + 1, run_config=config)

    return Variant("openai-agents", run, read)
