"""Results that are too long: shown in part, kept whole, read on."""

from __future__ import annotations

import re
from typing import Any

from langgraph.store.memory import InMemoryStore

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import ToolOutput, build_turn_graph

TEXT = "".join(f"line {number}\n" for number in range(5000))


def report() -> str:
    """Give a long report."""
    return TEXT


def handle_in(text: str) -> tuple[str, int]:
    found = re.search(r"read_result\(handle=(\w+), offset=(\d+)\)", text)
    assert found
    return found[1], int(found[2])


def offered(provider: Any, request: int) -> set[str]:
    return {tool["function"]["name"] for tool in provider.requests[request].get("tools", [])}


def test_a_long_result_can_be_read_on(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("report")), says("Long.")))
    graph = stage.graph(provider, tools=[report], settings={"max_result_chars": 2000})
    first = stage.play(graph, "Report.")
    handle, offset = handle_in(first.results()["c1"])
    assert "read_result" not in offered(provider, 0)
    assert "read_result" in offered(provider, 1)

    # In a later turn of the thread too.
    reads = calls(call("read_result", "c2", handle=handle, offset=offset, limit=500))
    later = fake_provider(script(reads, says("I see.")))
    graph = stage.graph(later, tools=[report], settings={"max_result_chars": 2000})
    played = stage.play(graph, "Go on.")
    header, _, slice_ = played.results()["c2"].partition("\n")
    assert header == f"[characters {offset} to {offset + 500} of {len(TEXT)}]"
    assert slice_ == TEXT[offset : offset + 500]
    assert "read_result" in offered(later, 0)


def test_a_handle_of_another_thread_leads_nowhere(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("report")), says("Long.")))
    graph = stage.graph(provider, tools=[report], settings={"max_result_chars": 2000})
    handle, _ = handle_in(stage.play(graph, "Report.").results()["c1"])
    reads = (
        calls(call("report", "c1"), call("echo", "c2", text="x")),
        calls(call("read_result", "c3", handle=handle)),
    )
    other = stage.graph(
        fake_provider(script(*reads, says("No."))), settings={"max_result_chars": 200}, tools=[report]
    )
    played = stage.play(other, "Spy.", thread="other")
    # The other thread has a result of its own to read on in, so the tool is there.
    assert handle not in played.results()["c1"]
    assert "no result with the handle" in played.results()["c3"]


def test_a_store_keeps_what_a_foreign_saver_cannot(stage: Stage, fake_provider: Start) -> None:
    store = InMemoryStore()
    model = stage.model(fake_provider(script(calls(call("report")), says("Long."))))
    graph = build_turn_graph(
        model, [report], settings={"max_result_chars": 2000}, checkpointer=stage.saver, store=store
    )
    handle, _ = handle_in(stage.play(graph, "Report.").results()["c1"])
    kept = store.search(("turnflow",))
    is_ours = hasattr(stage.saver, "find_result")
    assert [item.key for item in kept] == ([] if is_ours else [handle])
    if is_ours:
        assert stage.saver.find_result("t", handle) == TEXT


def test_keeping_can_be_switched_off(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("report")), says("Long.")))
    settings = {"max_result_chars": 2000, "read_results": False}
    played = stage.play(stage.graph(provider, tools=[report], settings=settings), "Report.")
    assert "read_result" not in played.results()["c1"]
    assert "read_result" not in offered(provider, 1)


def test_the_answer_of_a_terminating_tool_is_never_cut(stage: Stage, fake_provider: Start) -> None:
    def finish() -> ToolOutput:
        """Finish."""
        return ToolOutput(TEXT, terminate=True)

    graph = stage.graph(
        fake_provider(script(calls(call("finish")))), tools=[finish], settings={"max_result_chars": 200}
    )
    assert stage.play(graph, "Go.").answer == TEXT


def test_a_picture_goes_where_the_provider_takes_it(stage: Stage, fake_provider: Start) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)

    def draw() -> bytes:
        """Draw a picture."""
        return png

    provider = fake_provider(script(calls(call("draw")), says("Pretty.")))
    stage.play(stage.graph(provider, tools=[draw]), "Draw.")
    sent = provider.requests[1]["messages"]
    result = next(m for m in sent if m["role"] == "tool")
    assert "(attachment 1, image: in the next user message)" in str(result["content"])
    picture = next(b for b in sent[-1]["content"] if b["type"] == "image_url")
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")
