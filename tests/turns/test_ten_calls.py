"""Ten calls in one reply, each with its own fate: ten results, in the model's order, and the turn goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage, add, boom, echo

TEN = calls(
    call("add", "c0", a=1, b=2),
    call("fly", "c1", to="the moon"),
    {"id": "c2", "name": "add", "arguments": '{"a": 1, "b'},
    call("add", "c3", a="one", b=2),
    call("add", "c4", b=2, a=1),
    call("boom", "c5"),
    call("slow", "c6"),
    {"id": "c7", "name": "ping", "arguments": ""},
    call("later", "c8", text="hi"),
    call("echo", "c9", text="bye"),
)
IDS = [f"c{n}" for n in range(10)]
STARTS = {
    "c0": "3",
    "c1": "There is no tool named 'fly'.",
    "c2": "The call was not run: its arguments could not be read (Unterminated string",
    "c3": "The call was not run: its arguments do not fit the tool.\na: 'one' is not of type integer",
    "c4": "The same call as c0; its result stands there.",
    "c5": "The tool failed with RuntimeError: the boiler is cold",
    "c6": "slow",
    "c7": "pong",
    "c8": "hi",
    "c9": "bye",
}


def tools(ran: list[str]) -> list[Callable[..., Any]]:
    """The tools of the ten calls; what has run to its end is noted."""
    pinged = threading.Event()

    def slow() -> str:
        """Take as long as `ping` does, which the model calls behind it."""
        assert pinged.wait(30)
        ran.append("slow")
        return "slow"

    def ping() -> str:
        """Need nothing."""
        ran.append("ping")
        pinged.set()
        return "pong"

    async def later(text: str) -> str:
        """Give the text back, later."""
        await asyncio.sleep(0)
        return text

    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        ran.append("add")
        return a + b

    return [slow, ping, later, add, echo, boom]


@pytest.mark.parametrize("style", [[], ["interleaved"], ["together"]], ids="".join)
def test_ten_calls_have_ten_results_in_the_models_order(
    stage: Stage, fake_provider: Start, style: list[str]
) -> None:
    ran: list[str] = []
    provider = fake_provider(
        script({**TEN, "stream": {"call_style": style}}, says("All done."), says("Still here."))
    )
    graph = stage.graph(provider, tools=tools(ran))
    played = stage.play(graph, "Go.")
    results = played.results()
    assert list(results) == IDS
    assert {call_id: text[: len(STARTS[call_id])] for call_id, text in results.items()} == STARTS
    assert sorted(ran) == ["add", "ping", "slow"]
    assert ran.index("ping") < ran.index("slow")
    assert (played.status, played.answer) == ("finished", "All done.")
    stage.play(graph, "And now?")
    for request in provider.requests[1:]:
        sent = [m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"]
        assert sent == IDS
        told = [c["id"] for m in request["messages"] for c in m.get("tool_calls", ())]
        assert told == IDS


def test_each_call_that_ran_or_did_not_is_told_of_once(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(TEN, says("All done.")))
    played = stage.play(stage.graph(provider, tools=tools([])), "Go.")
    ended = [event["tool_call_id"] for event in played.of("tool.result")]
    assert sorted(ended) == IDS
    started = {event["tool_call_id"] for event in played.of("tool.started")}
    assert started == {"c0", "c5", "c6", "c7", "c8", "c9"}


@pytest.mark.parametrize("limit", [1, 4])
def test_limits_leave_no_call_without_a_result(stage: Stage, fake_provider: Start, limit: int) -> None:
    ten = calls(*(call("add", f"c{n}", a=n, b=0) for n in range(10)))
    provider = fake_provider(script(ten, says("All done.")))
    graph = stage.graph(provider, tools=[add], settings={"max_calls_per_batch": limit})
    results = stage.play(graph, "Go.").results()
    assert list(results) == IDS
    assert [text for text in results.values() if not text.startswith("Not run")] == [
        str(n) for n in range(limit)
    ]
