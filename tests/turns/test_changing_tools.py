"""Tools and instructions that come and go between rounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage, add, echo
from turnflow import ToolOutput, ToolPolicy, TurnContext
from turnflow.apps.fake_provider import FakeProvider


def offered(provider: FakeProvider, request: int) -> set[str]:
    return {tool["function"]["name"] for tool in provider.requests[request].get("tools", [])} - {"ask_user"}


def system(provider: FakeProvider, request: int) -> str:
    return str(provider.requests[request]["messages"][0]["content"])


def convert_currency(amount: float) -> str:
    """Convert an amount of money to another currency."""
    return f"{amount * 2} crowns"


def test_deferred_tools_are_found_and_loaded(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(
            calls(call("convert_currency", "c1", amount=1)),
            calls(call("search_tools", "c2", query="money in another currency")),
            calls(call("convert_currency", "c3", amount=1)),
            says("2 crowns."),
        )
    )
    graph = stage.graph(
        provider, tools=[add, convert_currency], policies={"convert_currency": {"deferred": True}}
    )
    played = stage.play(graph, "How much is it?")
    results = played.results()
    assert "no tool named 'convert_currency'" in results["c1"]
    assert "convert_currency: Convert an amount" in results["c2"]
    assert results["c3"] == "2.0 crowns"
    assert offered(provider, 0) == {"add", "search_tools"}
    assert offered(provider, 2) == {"add", "convert_currency"}

    # What is loaded stays so in the thread, and nowhere else.
    later = fake_provider(script(says("Hello."), says("Hello.")))
    graph = stage.graph(
        later, tools=[add, convert_currency], policies={"convert_currency": {"deferred": True}}
    )
    stage.play(graph, "Hello.")
    stage.play(graph, "Hello.", thread="other")
    assert offered(later, 0) == {"add", "convert_currency"}
    assert offered(later, 1) == {"add", "search_tools"}


def test_a_search_that_finds_nothing_says_what_there_is(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("search_tools", query="zebra")), says("No.")))
    graph = stage.graph(provider, tools=[convert_currency], policies={"convert_currency": {"deferred": True}})
    assert "convert_currency" in stage.play(graph, "Go.").results()["c1"]
    assert offered(provider, 1) == {"search_tools"}


def test_a_result_loads_tools_and_instructions(stage: Stage, fake_provider: Start) -> None:
    def open_box(shut: bool = False) -> ToolOutput:  # noqa: FBT001, FBT002 - a tool's argument
        """Open the box, or shut it."""
        if shut:
            return ToolOutput("shut", unload=["echo"], instructions="")
        return ToolOutput("open", load=["echo", "no_such_tool"], instructions="Be careful with the box.")

    provider = fake_provider(
        script(
            calls(call("open_box", "c1")),
            calls(call("echo", "c2", text="x"), call("open_box", "c3", shut=True)),
            says("Done."),
        )
    )
    graph = stage.graph(provider, tools=[open_box, echo], policies={"echo": {"deferred": True}})
    played = stage.play(graph, "Go.")
    assert played.results()["c2"] == "x"
    assert [offered(provider, n) - {"search_tools"} for n in range(3)] == [
        {"open_box"},
        {"open_box", "echo"},
        {"open_box"},
    ]
    assert ["careful with the box" in system(provider, n) for n in range(3)] == [False, True, False]


def test_a_function_gives_the_tools_of_each_step(stage: Stage, fake_provider: Start) -> None:
    tools: list[Any] = [add]

    def grow() -> str:
        """Get another tool."""
        tools.append(echo)
        return "grown"

    tools.append(grow)
    provider = fake_provider(script(calls(call("grow")), calls(call("echo", "c2", text="x")), says("Done.")))
    played = stage.play(stage.graph(provider), "Go.", context=TurnContext(tools=lambda: tools))
    assert [offered(provider, n) for n in range(2)] == [{"add", "grow"}, {"add", "grow", "echo"}]
    assert played.results()["c2"] == "x"


def test_a_tool_that_vanishes_is_answered_like_one_that_never_was(stage: Stage, fake_provider: Start) -> None:
    tools: list[Any] = [add, echo]

    def vanish() -> str:
        """Take a tool away."""
        tools.remove(echo)
        return "gone"

    tools.append(vanish)
    batch = calls(call("vanish", "c1"), call("echo", "c2", text="x"))
    graph = stage.graph(fake_provider(script(batch, says("Done."))))
    context = TurnContext(tools=lambda: tools, policies={"vanish": ToolPolicy(parallel_safe=False)})
    played = stage.play(graph, "Go.", context=context)
    assert "no tool named 'echo'" in played.results()["c2"]


def test_what_is_no_list_of_tools_is_refused(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script()))
    with pytest.raises(ValueError, match=r"TurnContext\.tools must give a list of tools"):
        stage.play(graph, "Go.", context=TurnContext(tools=lambda: 7), laws=False)


def test_a_tool_reports_that_it_waits_for_a_permission_elsewhere(stage: Stage, fake_provider: Start) -> None:
    from langgraph.prebuilt import ToolRuntime

    def agent(runtime: ToolRuntime) -> str:
        """Ask another agent."""
        runtime.stream_writer({"type": "permission", "action": "rm -rf /tmp/x", "options": ["yes", "no"]})
        runtime.stream_writer({"percent": 50})
        return "It was allowed."

    agent.__annotations__["runtime"] = ToolRuntime
    graph = stage.graph(fake_provider(script(calls(call("agent")), says("Done."))), tools=[agent])
    played = stage.play(graph, "Go.")
    (asked,) = played.of("permission")
    assert asked["request"] == {"action": "rm -rf /tmp/x", "options": ["yes", "no"]}
    assert (asked["source"], asked["tool_call_id"]) == ("tool", "c1")
    assert [e["data"] for e in played.of("tool.progress")] == [{"percent": 50}]
    assert played.status == "finished"


def test_a_provider_reports_that_it_waits_for_a_permission_elsewhere(
    stage: Stage, fake_provider: Start
) -> None:
    asked = {"tool": "shell", "command": "make"}
    provider = fake_provider(script({"reply": {"permission": asked, "content": "All built."}}))
    played = stage.play(stage.graph(provider), "Build.")
    (event,) = played.of("permission")
    assert (event["source"], event["request"]) == ("provider", asked)
    assert played.answer == "All built."
