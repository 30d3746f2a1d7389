"""The routes, as pure functions of the state, and the drawing they give."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Send

from turnflow import build_turn_graph
from turnflow.graph.batch import NO_BATCH
from turnflow.graph.decision import decide
from turnflow.graph.routes import after_assemble, after_classify

DRAWING = """\
	__start__ --> assemble_context;
	assemble_context -. &nbsp;next round&nbsp; .-> call_llm;
	assemble_context -. &nbsp;next wave&nbsp; .-> dispatch_tools;
	assemble_context -. &nbsp;end&nbsp; .-> finalize;
	assemble_context -. &nbsp;fold&nbsp; .-> fold_checkpoint;
	call_llm --> classify_label;
	classify_label -. &nbsp;intermediate, continue&nbsp; .-> assemble_context;
	classify_label -. &nbsp;tool calls&nbsp; .-> dispatch_tools;
	classify_label -. &nbsp;terminal, stop&nbsp; .-> finalize;
	classify_label -. &nbsp;overflow&nbsp; .-> fold_checkpoint;
	classify_label -. &nbsp;violation&nbsp; .-> repair;
	dispatch_tools --> assemble_context;
	fold_checkpoint --> assemble_context;
	repair --> assemble_context;
	finalize --> __end__;
"""


def test_the_drawing_shows_all_seven_nodes_and_their_ways() -> None:
    assert DRAWING in build_turn_graph("any").get_graph().draw_mermaid()


def test_the_readme_shows_the_drawing() -> None:
    from tests.test_packaging import ROOT

    readme = (ROOT / "README.md").read_text("utf-8")
    for line in DRAWING.splitlines():
        arrow = line.strip().rstrip(";").replace("&nbsp;", "")
        assert arrow in readme


def state(decision: Any = None, *calls: Any, **batch: Any) -> Any:
    made = {**NO_BATCH, **batch, "calls": {call["id"]: call for call in calls}}
    turn = {"id": "t", "session_id": "s", "round": 1}
    return {"turn": turn, "decision": decision or {}, "batch": made}


def planned(call_id: str, wave: int, *, done: bool = False, checkpoint: str | None = None) -> Any:
    return {"id": call_id, "wave": wave, "done": done, "checkpoint": checkpoint}


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (state(), "call_llm"),
        (state(decide("stop", "cancelled")), "finalize"),
        (state(decide("terminal", "terminate"), planned("1", 0)), "finalize"),
        (state(None, planned("1", 0, done=True, checkpoint="x"), folded=False), "fold_checkpoint"),
        (state(None, planned("1", 0, done=True, checkpoint="x"), folded=True), "call_llm"),
        (state(None, planned("1", 0, done=True), folded=False), "call_llm"),
    ],
)
def test_after_assemble(given: Any, where: str) -> None:
    assert after_assemble(given) == where


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (state(decide("terminal", "stop")), "finalize"),
        (state(decide("stop", "filtered")), "finalize"),
        (state(decide("continue", "truncated")), "assemble_context"),
        (state(decide("intermediate", "empty_reply")), "assemble_context"),
        (state(decide("violation", "empty_reply")), "repair"),
        (state(decide("overflow")), "fold_checkpoint"),
        (state(decide("tool")), "assemble_context"),
    ],
)
def test_after_classify(given: Any, where: str) -> None:
    assert after_classify(given) == where


def test_a_wave_is_one_task_a_call() -> None:
    calls = [planned("1", 0, done=True), planned("2", 1), planned("3", 1), planned("4", 2)]
    given = state(decide("tool"), *calls)
    for route in (after_assemble, after_classify):
        sends = route(given)
        assert all(isinstance(send, Send) for send in sends)
        assert [send.arg["call"]["id"] for send in sends if isinstance(send, Send)] == ["2", "3"]
