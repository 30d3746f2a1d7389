"""Typical usage, for the type checker alone: it must need no cast and no ignore."""

from __future__ import annotations

from langgraph.types import Command

from turnflow import (
    CancelToken,
    OpenAICompatibleChat,
    ProviderProfile,
    ToolOutput,
    ToolPolicy,
    TurnContext,
    TurnError,
    TurnHooks,
    TurnResult,
    TurnSettings,
    arun_turn,
    build_turn_graph,
    open_saver,
    run_turn,
)


def search(query: str) -> ToolOutput:
    """Search for something."""
    return ToolOutput(query, sources=[{"url": "https://example.org"}])


def use() -> str:
    with open_saver("threads.sqlite") as saver:
        graph = build_turn_graph(
            OpenAICompatibleChat(model="m", provider_profile=ProviderProfile(starts_thinking=True)),
            [search],
            policies={"search": ToolPolicy(timeout=5, parallel_safe=False)},
            settings=TurnSettings(max_rounds=3),
            checkpointer=saver,
        )
        context = TurnContext(cancel=CancelToken(), hooks=TurnHooks(before_round=lambda info: None))
        try:
            result: TurnResult = run_turn(graph, "hello", thread_id="t1", context=context)
        except TurnError as error:
            return error.outcome["stop_reason"]
        if result.interrupts:
            result = run_turn(graph, Command(resume="yes"), thread_id=result.thread_id)
        return result.answer


async def ause() -> str:
    graph = build_turn_graph("gpt-4o-mini", [search])
    result = await arun_turn(graph, "hello", on_event=lambda event: print(event["type"]))  # noqa: T201
    output = await graph.ainvoke({"messages": []})
    return result.status + str(output)
