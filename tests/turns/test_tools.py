"""Tools in a turn: any kind, any result, any failure; limits, order, time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Mode, Played, Stage, add, echo
from turnflow import (
    ToolOutput,
    ToolPolicy,
    TurnContext,
    TurnHooks,
    arun_turn,
    build_turn_graph,
    run_turn,
)


def with_an_injected_argument(secret: Annotated[str, InjectedToolArg]) -> str:
    """Take what nobody gives."""
    return secret


def with_a_host_argument(_key: str) -> str:
    """Take what no model can give."""
    return _key


def one(
    stage: Stage, start: Start, made: Any, /, *, policy: ToolPolicy | None = None, **arguments: Any
) -> Played:
    """Play a turn that calls one tool."""
    name = getattr(made, "name", getattr(made, "__name__", ""))
    provider = start(script(calls(call(name, **arguments)), says("Done.")))
    policies = {name: policy} if policy else None
    return stage.play(stage.graph(provider, tools=[made], policies=policies), "Go.")


def test_coroutine_tool(stage: Stage, fake_provider: Start) -> None:
    async def later(text: str) -> str:
        """Give the text back, later."""
        await asyncio.sleep(0)
        return text

    assert one(stage, fake_provider, later, text="x").results() == {"c1": "x"}


def test_tool_class(stage: Stage, fake_provider: Start) -> None:
    class Double(BaseTool):
        name: str = "double"
        description: str = "Double a number."

        def _run(self, number: int) -> int:
            return number * 2

    assert one(stage, fake_provider, Double(), number=21).results() == {"c1": "42"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": ["ü"]}, '{"a": 1, "b": ["ü"]}'),
        (None, "null"),
        ("", "(no output)"),
        ("  \n", "(no output)"),
        (b"bytes", "bytes"),
        (7, "7"),
    ],
)
def test_any_result_becomes_text(stage: Stage, fake_provider: Start, value: Any, text: str) -> None:
    def give() -> Any:
        """Give a value."""
        return value

    assert one(stage, fake_provider, give).results() == {"c1": text}


def test_long_result_is_cut_in_the_middle(stage: Stage, fake_provider: Start) -> None:
    def give() -> str:
        """Give much text."""
        return "head" + "x" * 100_000 + "tail"

    text = one(stage, fake_provider, give, policy=ToolPolicy(max_result_chars=1000)).results()["c1"]
    assert text.startswith("head")
    assert text.endswith("tail")
    assert len(text) <= 1000
    assert "of 100008 characters left out; read_result(handle=" in text


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), ValueError("no")]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_tool_raises_is_a_result(
    stage: Stage, fake_provider: Start, error: BaseException, *, is_async: bool
) -> None:
    def bad() -> str:
        """Raise."""
        raise error

    async def abad() -> str:
        """Raise."""
        raise error

    played = one(stage, fake_provider, abad if is_async else bad)
    assert type(error).__name__ in played.results()["c1"]
    assert played.answer == "Done."


def test_a_tool_that_hangs_is_given_up(stage: Stage, fake_provider: Start) -> None:
    release = threading.Event()

    def hang() -> str:
        """Never return."""
        release.wait(30)
        return "late"

    started = time.monotonic()
    played = one(stage, fake_provider, hang, policy=ToolPolicy(timeout=0.1))
    release.set()
    assert "no result within 0.1 seconds" in played.results()["c1"]
    assert played.of("tool.result")[0]["status"] == "timeout"
    assert time.monotonic() - started < 10


def test_a_coroutine_that_ignores_its_cancellation_is_given_up(stage: Stage, fake_provider: Start) -> None:
    async def stubborn() -> str:
        """Do not let go."""
        for _ in range(20):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        return "late"

    played = one(stage, fake_provider, stubborn, policy=ToolPolicy(timeout=0.05))
    assert "no result within 0.05 seconds" in played.results()["c1"]


def test_a_blocking_tool_does_not_delay_others(stage: Stage, fake_provider: Start) -> None:
    order: list[str] = []

    def slow() -> str:
        """Take a while."""
        time.sleep(0.3)
        order.append("slow")
        return "slow"

    async def quick() -> str:
        """Take no time."""
        order.append("quick")
        return "quick"

    provider = fake_provider(script(calls(call("slow", "c1"), call("quick", "c2")), says("Done.")))
    played = stage.play(stage.graph(provider, tools=[slow, quick]), "Go.")
    assert order == ["quick", "slow"]
    assert list(played.results().values()) == ["slow", "quick"]


def test_no_more_calls_run_at_once_than_allowed(stage: Stage, fake_provider: Start) -> None:
    lock = threading.Lock()
    running = most = 0

    def work(number: int) -> str:
        """Work for a moment."""
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.03)
        with lock:
            running -= 1
        return "ok"

    batch = calls(*(call("work", f"c{n}", number=n) for n in range(6)))
    graph = stage.graph(
        fake_provider(script(batch, says("Done."))), tools=[work], settings={"max_parallel_tools": 2}
    )
    stage.play(graph, "Go.")
    assert most == 2


def test_unsafe_tools_run_alone_in_the_models_order(stage: Stage, fake_provider: Start) -> None:
    order: list[str] = []

    def note(text: str) -> str:
        """Take a note."""
        time.sleep(0.05 if text == "first" else 0)
        order.append(text)
        return text

    batch = calls(*(call("note", f"c{n}", text=text) for n, text in enumerate(["first", "second", "third"])))
    graph = stage.graph(
        fake_provider(script(batch, says("Done."))), tools=[note], policies={"note": {"parallel_safe": False}}
    )
    stage.play(graph, "Go.")
    assert order == ["first", "second", "third"]


def test_calls_over_the_batch_limit_are_not_run(stage: Stage, fake_provider: Start) -> None:
    batch = calls(*(call("add", f"c{n}", a=n, b=0) for n in range(3)))
    graph = stage.graph(fake_provider(script(batch, says("Done."))), settings={"max_calls_per_batch": 2})
    results = stage.play(graph, "Go.").results()
    assert [results["c0"], results["c1"]] == ["0", "1"]
    assert results["c2"].startswith("Not run, limit: at most 2 calls")


def test_the_batch_that_exceeds_the_turns_limit_finishes_it(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(
            calls(call("add", "c1", a=1, b=1), call("add", "c2", a=1, b=2)),
            calls(call("add", "c3", a=1, b=1), call("add", "c4", a=1, b=2)),
            {"expect": {"no_tools": True}, **says("That is all.")},
        )
    )
    played = stage.play(stage.graph(provider, settings={"max_tool_calls": 3}), "Go.")
    assert (played.status, played.outcome["stop_reason"]) == ("finished_budget", "call_limit")
    assert "at most 3 tool calls" in played.results()["c3"]
    assert played.outcome["tool_calls"] == 2


def test_aliases_and_white_space_in_names(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call(" plus ", "c1", a=1, b=2)), says("Done.")))
    graph = stage.graph(provider, policies={"add": ToolPolicy(aliases=("plus",))})
    played = stage.play(graph, "Go.")
    assert played.results() == {"c1": "3"}
    assert played.messages[1].tool_calls[0]["name"] == "add"


def test_hostile_names_cannot_upset_a_provider(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("functions.add 💥", "c1"), call("", "c2")), says("Done.")))
    played = stage.play(stage.graph(provider), "Go.")
    assert [c["name"] for c in played.messages[1].tool_calls] == ["functions_add_", "unknown"]


def test_host_only_arguments_are_dropped(stage: Stage, fake_provider: Start) -> None:
    @tool
    def who(name: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Say who."""
        return f"{name} {call_id}"

    played = one(stage, fake_provider, who, name="x", call_id="forged", _secret=1)
    assert played.results() == {"c1": "x c1"}


def test_state_store_and_runtime_are_injected(stage: Stage, fake_provider: Start) -> None:
    @tool
    def look(
        text: str,
        messages: Annotated[list[Any], InjectedState("messages")],
        store: Annotated[BaseStore, InjectedStore()],
        runtime: ToolRuntime[Any, Any],
    ) -> str:
        """Look around."""
        runtime.stream_writer({"half": True})
        seen = (
            text,
            messages[0].content,
            type(store).__name__,
            runtime.tool_call_id,
            runtime.context.user_id,
        )
        return " ".join(map(str, seen))

    provider = fake_provider(script(calls(call("look", text="x")), says("Done.")))
    graph = stage.graph(provider, tools=[look], store=InMemoryStore())
    played = stage.play(graph, "Go.", context=TurnContext(user_id="ann"))
    assert played.results() == {"c1": "x Go. InMemoryStore c1 ann"}
    assert played.of("tool.progress")[0]["data"] == {"half": True}


def test_missing_store_is_an_error_result(stage: Stage, fake_provider: Start) -> None:
    @tool
    def keep(store: Annotated[Any, InjectedStore()]) -> str:
        """Keep."""
        return "kept"

    assert "store=" in one(stage, fake_provider, keep).results()["c1"]


def test_artifacts_are_kept_where_they_can_be_stored(stage: Stage, fake_provider: Start) -> None:
    @tool(response_format="content_and_artifact")
    def both(*, storable: bool) -> tuple[str, Any]:
        """Give text and an artifact."""
        return "text", {"rows": [1]} if storable else threading.Lock()

    batch = calls(call("both", "c1", storable=True), call("both", "c2", storable=False))
    played = stage.play(stage.graph(fake_provider(script(batch, says("Done."))), tools=[both]), "Go.")
    assert [m.artifact for m in played.messages[2:4]] == [{"rows": [1]}, None]


def test_a_tool_may_end_the_turn(stage: Stage, fake_provider: Start) -> None:
    def finish(text: str) -> ToolOutput:
        """Finish."""
        return ToolOutput(text, terminate=True, sources=["a"])

    graph = stage.graph(fake_provider(script(calls(call("finish", text="The end.")))), tools=[finish])
    played = stage.play(graph, "Go.")
    assert (played.status, played.outcome["stop_reason"], played.answer) == (
        "finished",
        "terminate",
        "The end.",
    )
    assert played.shape() == ["human", "ai:finish", "tool", "ai"]


def test_a_pause_comes_before_the_termination(stage: Stage, fake_provider: Start) -> None:
    def finish() -> ToolOutput:
        """Finish."""
        return ToolOutput("The end.", terminate=True)

    batch = calls(call("finish", "c1"), call("ask_user", "c2", questions=[{"prompt": "Sure?"}]))
    graph = stage.graph(fake_provider(script(batch)), tools=[finish])
    assert stage.play(graph, "Go.").status == "paused"
    played = stage.play(graph, Command(resume="yes"))
    assert played.answer == "The end."
    assert played.results()["c2"] == "Sure? → yes"


def test_sources_are_collected_without_duplicates(stage: Stage, fake_provider: Start) -> None:
    def search(word: str) -> ToolOutput:
        """Search."""
        return ToolOutput(word, sources=[{"url": "a"}, {"url": word}])

    provider = fake_provider(
        script(
            calls(call("search", "c1", word="b"), call("search", "c2", word="c")),
            calls(call("search", "c3", word="b")),
            says("Ok."),
        )
    )
    played = stage.play(stage.graph(provider, tools=[search]), "Go.")
    assert played.outcome["sources"] == [{"url": "a"}, {"url": "b"}, {"url": "c"}]
    assert [e["sources"] for e in played.of("sources")] == [played.outcome["sources"]]


def test_min_rounds_raise_the_limit(stage: Stage, fake_provider: Start) -> None:
    steps = [calls(call("add", f"c{n}", a=n, b=0)) for n in range(3)]
    graph = stage.graph(
        fake_provider(script(*steps, says("Done."))),
        settings={"max_rounds": 1},
        policies={"add": ToolPolicy(min_rounds=4), "echo": ToolPolicy(min_rounds="many")},
    )
    played = stage.play(graph, "Go.")
    assert (played.status, played.outcome["rounds"]) == ("finished", 4)


def test_tools_exist_only_where_they_are_available(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("add", a=1, b=2)), says("No."), says("Fine.")))
    policies = {"add": ToolPolicy(available=lambda context: context.user_id == "ann")}
    graph = stage.graph(provider, policies=policies)
    played = stage.play(graph, "Go.", context=TurnContext(user_id="bob"))
    assert "no tool named 'add'" in played.results()["c1"]
    stage.play(graph, "Go.", thread="u", context=TurnContext(user_id="ann"))
    offered = [{t["function"]["name"] for t in r["tools"]} for r in provider.requests]
    assert ["add" in names for names in offered] == [False, False, True]


def test_a_tool_may_interrupt_by_itself(stage: Stage, fake_provider: Start) -> None:
    def sign(text: str) -> str:
        """Have a text signed."""
        return f"{text} signed by {interrupt({'sign': text})}"

    graph = stage.graph(fake_provider(script(calls(call("sign", text="x")), says("Done."))), tools=[sign])
    paused = stage.play(graph, "Go.", laws=False)
    assert paused.interrupts[0].value == {"sign": "x"}
    assert paused.of("paused")[0]["values"] == [{"sign": "x"}]
    played = stage.play(graph, Command(resume="ann"))
    assert played.results() == {"c1": "x signed by ann"}
    assert "paused" not in played.types()


def test_hook_on_tool_result_may_add_a_directive(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("add", a=1, b=2)), says("Done.")))
    hooks = TurnHooks(on_tool_result=lambda info: f"Note that {info['name']} gave {info['content']}.")
    played = stage.play(stage.graph(provider), "Go.", context=TurnContext(hooks=hooks))
    assert "Note that add gave 3." in provider.requests[1]["messages"][1]["content"]
    assert "Note that" not in str(played.messages)


def test_same_ids_in_two_turns_do_not_mix(stage: Stage, fake_provider: Start) -> None:
    turn = [calls(call("add", "c1", a=1, b=2)), says("Done.")]
    second = [calls(call("add", "c1", a=3, b=4)), says("Again.")]
    graph = stage.graph(fake_provider(script(*turn, *second)))
    stage.play(graph, "Go.")
    played = stage.play(graph, "Go again.")
    assert [m.content for m in played.messages if m.type == "tool"] == ["3", "7"]


@pytest.mark.parametrize(
    ("tools", "policies", "complaint"),
    [
        ([lambda x: x], None, "cannot become a tool"),
        ([add, add], None, "given twice"),
        ([add], {"sub": {}}, "no tool is named 'sub'"),
        ([add], {"add": {"timeout": -1}}, "timeout"),
        ([add], {"add": {"review": []}}, "review"),
        ([object()], None, "is no tool"),
        ([with_a_host_argument], None, "cannot give the argument '_key'"),
        ([with_an_injected_argument], None, "cannot give the argument 'secret'"),
    ],
)
def test_bad_tools_are_refused_when_the_graph_is_built(tools: Any, policies: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        build_turn_graph("x", tools, policies=policies)


HANGING_TURN = """
import sys, time
from turnflow import OpenAICompatibleChat, build_turn_graph, run_turn

def hang() -> str:
    "Hang."
    time.sleep(60)
    return "late"

model = OpenAICompatibleChat(model="fake", base_url=sys.argv[1], max_retries=0)
print(run_turn(build_turn_graph(model, [hang], policies={"hang": {"timeout": 0.1}}), "Go.").answer)
"""


def test_exit_is_not_held_up_by_a_hanging_tool(fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("hang")), says("Given up.")))
    command = [sys.executable, "-c", HANGING_TURN, provider.base_url]
    done = subprocess.run(command, check=True, timeout=30, capture_output=True, text=True)
    assert done.stdout == "Given up.\n"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (["ann", "bob"], '["ann", "bob"]'),
        ([], "[]"),
        ([{"type": "json", "json": 1}], '[{"type": "json", "json": 1}]'),
        ([{"type": "text", "text": " "}], "(no output)"),
        ([{"type": "text", "text": "hi"}, {"type": "text", "text": ""}], [{"type": "text", "text": "hi"}]),
        ([{"type": "text"}], '[{"type": "text"}]'),
        (ToolOutput(["ann"]), '["ann"]'),
        (ToolOutput(None), "(no output)"),
    ],
)
def test_lists_are_content_blocks_or_json(
    stage: Stage, fake_provider: Start, value: Any, content: Any
) -> None:
    def give() -> Any:
        """Give a value."""
        return value

    played = one(stage, fake_provider, give)
    assert played.messages[2].content == content
    assert played.answer == "Done."


@pytest.mark.parametrize(
    "fields", [{"checkpoint": {"a": 1}}, {"sources": 5}, {"sources": [{("a", 1): 2}]}, {"content": Command()}]
)
def test_an_impossible_output_is_an_error_result(stage: Stage, fake_provider: Start, fields: Any) -> None:
    def give() -> ToolOutput:
        """Give an impossible output."""
        return ToolOutput(**{"content": "x", **fields})

    played = one(stage, fake_provider, give)
    if "content" not in fields:
        assert "failed with TypeError" in played.results()["c1"]
    assert played.answer == "Done."


@pytest.mark.parametrize(
    "arguments",
    ["", "{}", "not json", '{"questions": "Q?"}', '{"questions": [{}]}', '{"questions": null}'],
)
def test_a_broken_question_breaks_no_turn(stage: Stage, fake_provider: Start, arguments: str) -> None:
    broken = {"id": "c1", "name": "ask_user", "arguments": arguments}
    played = stage.play(stage.graph(fake_provider(script(calls(broken), says("Sorry.")))), "Go.")
    assert played.results()["c1"].startswith("The call was not run")
    assert played.status == "finished"


def test_a_blank_question_is_not_asked(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(calls(asks(" \n")), says("Sorry."))))
    assert "questions[0].prompt" in stage.play(graph, "Go.").results()["c1"]


@pytest.mark.parametrize("arguments", ['{"a": 18446744073709551616, "b": 1}', f'{{"x": -{2**63 + 1}}}'])
def test_a_number_that_cannot_be_stored_is_refused(
    stage: Stage, fake_provider: Start, arguments: str
) -> None:
    huge = {"id": "c1", "name": "add", "arguments": arguments}
    played = stage.play(stage.graph(fake_provider(script(calls(huge), says("Sorry.")))), "Go.")
    assert "more than 64 bits" in played.results()["c1"]


def test_sources_that_cannot_be_stored_become_text(stage: Stage, fake_provider: Start) -> None:
    def find() -> ToolOutput:
        """Find something."""
        return ToolOutput("found", sources=[{"id": 2**70, "score": float("nan")}])

    assert one(stage, fake_provider, find).outcome["sources"] == [{"id": str(2**70), "score": "NaN"}]


def test_numbers_that_are_equal_make_equal_calls(stage: Stage, fake_provider: Start) -> None:
    batch = calls(call("add", "c1", a=1, b=2), call("add", "c2", a=1, b=2.0))
    played = stage.play(stage.graph(fake_provider(script(batch, says("Three.")))), "Go.")
    assert played.results() == {"c1": "3", "c2": "The same call as c1; its result stands there."}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_interrupts_of_tools_reach_a_caller_who_hears_events(
    tmp_path: Path, fake_provider: Start, mode: Mode
) -> None:
    stage = Stage(mode, "memory", tmp_path)

    def sign(text: str) -> str:
        """Have it signed."""
        return str(interrupt(text))

    batch = calls(call("sign", "c1", text="a"), call("echo", "c2", text="x"), call("sign", "c3", text="b"))
    graph = stage.graph(fake_provider(script(batch)), tools=[sign, echo])
    if mode == "sync":
        result = run_turn(graph, "Go.", thread_id="t", on_event=lambda _: None)
    else:
        result = stage.run(arun_turn(graph, "Go.", thread_id="t", on_event=lambda _: None))
    assert sorted(i.value for i in result.interrupts) == ["a", "b"]
    assert result.status == "paused"
    stage.close()
