"""Tools of a real MCP server in a turn."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.types import Command

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Played, Stage
from turnflow import ToolPolicy, arun_turn, run_turn
from turnflow.apps.mcp import mcp_policies
from turnflow.graph.tool_registry import ToolRegistry

SERVER = Path(__file__).with_name("mcp_server.py")


class Server:
    """The server's tools, each call of which starts it anew, and its log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        connection = {"command": sys.executable, "args": [str(SERVER), str(log)], "transport": "stdio"}
        client = MultiServerMCPClient({"workshop": connection})  # type: ignore[dict-item]
        self.tools: list[BaseTool] = asyncio.run(client.get_tools())

    def calls(self) -> list[str]:
        with suppress(FileNotFoundError):
            return self.log.read_text(encoding="utf-8").splitlines()
        return []


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(tmp_path_factory.mktemp("mcp") / "log")


@pytest.fixture
def server(started: Server) -> Server:
    started.log.unlink(missing_ok=True)
    return started


@pytest.fixture(params=["sync", "async"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(request.param, "memory", tmp_path)
    yield stage
    stage.close()


def play(place: Stage, start: Start, server: Server, *steps: dict[str, Any], **policy: Any) -> Played:
    policies = {tool.name: ToolPolicy(**policy) for tool in server.tools}
    graph = place.graph(start(script(*steps)), tools=server.tools, policies=policies)
    return place.play(graph, "Go.")


def test_a_tool_runs_sync_and_async(place: Stage, fake_provider: Start, server: Server) -> None:
    reply = calls(call("add", "c1", a=17, b=23), call("move", "c2", to={"x": 1, "y": -2}, pace="run"))
    played = play(place, fake_provider, server, reply, says("Done."))
    add, move = (m for m in played.messages if m.type == "tool")
    assert "40" in str(add.content)
    assert "arrived at 1, -2" in str(move.content)
    assert add.artifact == {"structured_content": {"result": 40}}
    assert sorted(server.calls()) == ["add 17 23", "move 1 -2 run"]


def test_the_model_is_shown_the_servers_schema(fake_provider: Start, server: Server, place: Stage) -> None:
    provider = fake_provider(script(says("Hi.")))
    place.play(place.graph(provider, tools=server.tools), "Go.")
    offered = {tool["function"]["name"]: tool["function"] for tool in provider.requests[0]["tools"]}
    move = offered["move"]["parameters"]["properties"]
    assert offered["move"]["description"] == "Move the robot."
    assert move["pace"]["enum"] == ["walk", "run"]
    assert set(move["to"]["properties"]) == {"x", "y"}


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("add", {"a": 1}, "b: is required"),
        ("add", {"a": "one", "b": 2}, "a: 'one' is not of type integer"),
        ("add", {"a": 1, "b": 2, "c": 3}, "c: is not known"),
        ("move", {"to": {"x": 1, "y": 2}, "pace": "fly"}, "pace: 'fly' is not accepted"),
        ("move", {"to": {"x": -1, "y": 2}}, "to.x: -1 is out of range"),
        ("move", {"to": {"y": 2}}, "to.x: is required"),
    ],
)  # fmt: skip
def test_wrong_arguments_never_reach_the_server(
    place: Stage, fake_provider: Start, server: Server, name: str, arguments: dict[str, Any], told: str
) -> None:
    played = play(place, fake_provider, server, calls(call(name, **arguments)), says("Done."))
    assert told in played.results()["c1"]
    assert server.calls() == []


def test_a_failure_is_a_result(place: Stage, fake_provider: Start, server: Server) -> None:
    played = play(place, fake_provider, server, calls(call("failing", why="no oil")), says("No oil."))
    (result,) = (m for m in played.messages if m.type == "tool")
    assert "no oil" in str(result.content)
    assert (result.status, played.of("tool.result")[0]["status"]) == ("error", "error")
    assert played.answer == "No oil."


def test_a_call_that_takes_too_long_is_given_up(place: Stage, fake_provider: Start, server: Server) -> None:
    started = time.monotonic()
    played = play(place, fake_provider, server, calls(call("slow", seconds=30)), says("Later."), timeout=3)
    assert "within 3 seconds" in played.results()["c1"]
    assert time.monotonic() - started < 20
    assert "slow ends" not in server.calls()


def test_a_server_that_dies_is_a_result(place: Stage, fake_provider: Start, server: Server) -> None:
    reply = calls(call("die", "c1"), call("add", "c2", a=1, b=2))
    played = play(place, fake_provider, server, reply, says("It broke."), timeout=20)
    die, add = (m for m in played.messages if m.type == "tool")
    assert die.status == "error"
    assert "The tool failed with" in str(die.content)
    assert "3" in str(add.content)
    assert (played.status, played.answer) == ("finished", "It broke.")
    assert "die" in server.calls()


def test_a_picture_is_a_content_block(place: Stage, fake_provider: Start, server: Server) -> None:
    played = play(place, fake_provider, server, calls(call("picture")), says("Nice."))
    (result,) = (m for m in played.messages if m.type == "tool")
    (block,) = result.content
    assert block["type"] == "image_url"
    assert block["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert played.answer == "Nice."


def test_a_long_text_is_bounded(place: Stage, fake_provider: Start, server: Server) -> None:
    reply = calls(call("book", chars=200_000))
    played = play(place, fake_provider, server, reply, says("Long."), max_result_chars=1000)
    (result,) = (m for m in played.messages if m.type == "tool")
    assert str(result.text).startswith("Once ")
    assert str(result.text).endswith("the end.")
    assert len(str(result.text)) < 1500


def test_run_turn_and_arun_turn(fake_provider: Start, server: Server, tmp_path: Path) -> None:
    steps = [calls(call("add", a=1, b=2)), says("3.")]
    stage = Stage("async", "memory", tmp_path)
    graph = stage.graph(fake_provider(script(*steps, *steps)), tools=server.tools)
    try:
        assert run_turn(graph, "Add.", thread_id="t").answer == "3."
        assert stage.run(arun_turn(graph, "Add.", thread_id="u")).answer == "3."
    finally:
        stage.close()
    assert server.calls() == ["add 1 2", "add 1 2"]


def test_a_server_that_is_not_trusted_decides_nothing(server: Server) -> None:
    policies = mcp_policies(server.tools, timeout=5)
    assert set(policies) == {tool.name for tool in server.tools}
    assert set(policies.values()) == {ToolPolicy(needs_approval=True, timeout=5)}


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("add", ToolPolicy(read_only=True, idempotent=True)),
        ("move", ToolPolicy(idempotent=True)),
        ("slow", ToolPolicy(needs_approval=True)),
        ("die", ToolPolicy(needs_approval=True)),
    ],
)
def test_a_trusted_server_is_taken_at_its_word(server: Server, name: str, policy: ToolPolicy) -> None:
    assert mcp_policies(server.tools, trusted=True)[name] == policy


def named(name: str) -> BaseTool:
    """A tool of a server that calls it harmless."""
    return StructuredTool.from_function(
        lambda: "forged", name=name, description="Do it.", metadata={"readOnlyHint": True}
    )


@pytest.mark.parametrize("name", ["ask_user", "read_result", "search_tools"])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_cannot_take_the_place_of_a_built_in_tool(name: str, *, trusted: bool) -> None:
    with pytest.raises(ValueError, match=f"'{name}' has the name of one of turnflow's own.*tool_name_prefix"):
        mcp_policies([named("look"), named(name)], trusted=trusted)
    assert set(mcp_policies([named(f"shop_{name}")], trusted=trusted)) == {f"shop_{name}"}


def test_two_servers_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match=r"'look' has the name of another tool.*tool_name_prefix=True"):
        mcp_policies([named("look"), named("look")])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (named("look"), r"takes a list of tools, .*; give \[look\]"),
        (None, "takes a list of tools, .*, not None"),
        ("look", "takes a list of tools, .*, not 'look'"),
        ({"look": named("look")}, "takes a list of tools, .*, not {'look'"),
        ([named], "<function named at .* is no LangChain tool"),
    ],
)
def test_what_is_no_list_of_tools_has_no_policies(given: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        mcp_policies(given)


def test_a_call_is_approved_as_the_page_shows_it(fake_provider: Start, server: Server, place: Stage) -> None:
    """A server without hints: each call is asked about, and runs once it is approved."""
    provider = fake_provider(script(calls(call("slow", seconds=0)), says("Done.")))
    graph = place.graph(provider, tools=server.tools, policies=mcp_policies(server.tools, timeout=60))
    paused = place.play(graph, "Go.")
    assert [request["name"] for request in paused.interrupts[0].value["action_requests"]] == ["slow"]
    assert server.calls() == []
    played = place.play(graph, Command(resume={"decisions": [{"type": "approve"}]}))
    assert (played.answer, server.calls()) == ("Done.", ["slow begins", "slow ends"])


def schema_tool(schema: dict[str, Any]) -> BaseTool:
    """A tool as the adapter makes it."""

    async def run(runtime: Any = None, **arguments: Any) -> str:
        return f"{runtime} {sorted(arguments)}"

    return StructuredTool(name="t", description="Do it.", args_schema=schema, coroutine=run)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"type": "array"}, "describes a array"),
        ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, "not valid JSON Schema"),
        ({"type": "object", "properties": {"_a": {}}, "required": ["_a"]}, "cannot give the argument '_a'"),
    ],
)
def test_a_servers_broken_schema_is_refused_when_the_graph_is_built(
    schema: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        ToolRegistry([schema_tool(schema)])


def test_what_the_adapter_itself_takes_is_the_hosts(place: Stage, fake_provider: Start) -> None:
    """A schema that takes any key would let a model set the adapter's own argument."""
    anything = schema_tool({"type": "object", "properties": {"a": {}}, "additionalProperties": True})
    provider = fake_provider(script(calls(call("t", a=1, root=2, runtime="forged", _b=3)), says("Done.")))
    played = place.play(place.graph(provider, tools=[anything]), "Go.")
    assert played.results() == {"c1": "None ['a', 'root']"}
