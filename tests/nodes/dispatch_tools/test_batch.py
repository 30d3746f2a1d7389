"""Planning a reply's calls: which run side by side, which wait, and what a refusal says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnflow import ToolPolicy, TurnSettings
from turnflow.graph.batch import PlannedBatch
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.resources import Registries, TurnResources
from turnflow.nodes.dispatch_tools import ask_user_tool, plan_batch
from turnflow.prompts import Prompts

TURN = {"id": "turn-1", "unavailable": [], "tool_calls": 0, "asks": 0}
ASK = {"questions": [{"prompt": "Which?"}]}


def look() -> str:
    """Look."""
    return "seen"


def write() -> str:
    """Write."""
    return "written"


def _no_model(_name: str, _profile: ProviderProfile) -> Any:
    raise AssertionError("planning asks no model")


def planned(*names: str, **settings: Any) -> PlannedBatch:
    """The plan of calls of these tools, in this order, with ids `c0`, `c1` and so on."""
    resources = TurnResources(
        make_model=_no_model,
        registries=Registries(lambda _: [ask_user_tool(Prompts("en"))]),
        tools=[look, write],
        policies={"write": ToolPolicy(parallel_safe=False)},
        settings=TurnSettings(**settings),
    )
    calls = [
        {
            "id": f"c{at}",
            "name": name,
            "arguments": json.dumps(ASK) if name == "ask_user" else "{}",
            "complete": True,
        }
        for at, name in enumerate(names)
    ]
    return plan_batch({"message_id": "m1", "calls": calls}, TURN, resources)


def waves(*names: str) -> list[int]:
    return [call["wave"] for call in planned(*names).batch["calls"].values()]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("look", "look"), [0, 0]),
        (("look", "write", "look"), [0, 1, 2]),
        (("write", "look", "look"), [0, 1, 1]),
        (("look", "look", "write", "write", "look", "look"), [0, 0, 1, 2, 3, 3]),
        (("write",), [0]),
    ],
)
def test_an_unsafe_call_stands_alone_and_nothing_passes_it(
    names: tuple[str, ...], expected: list[int]
) -> None:
    assert waves(*names) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("ask_user",), [0]),
        (("ask_user", "look"), [1, 0]),
        (("look", "ask_user", "write", "look"), [0, 3, 1, 2]),
    ],
)
def test_a_question_comes_last_and_alone(names: tuple[str, ...], expected: list[int]) -> None:
    assert waves(*names) == expected


def test_a_refused_call_takes_no_place_among_the_waves() -> None:
    plan = planned("look", "nonsense", "look")
    assert {call["id"]: call["wave"] for call in plan.batch["calls"].values()} == {"c0": 0, "c2": 0}
    assert [refusal.tool_call_id for refusal in plan.refusals] == ["c1"]
    assert [call["id"] for call in plan.calls] == ["c0", "c1", "c2"]


def test_an_endless_name_is_refused_in_few_words() -> None:
    plan = planned("x" * 200_000)
    assert len(str(plan.refusals[0].content)) < 1000
    assert len(plan.calls[0]["name"]) == 64
