"""Replies that break a rule of the label protocol: each violation once, twice and three times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.turns.labels import SOLVE, STREAMS, live_text, play, reply_id
from tests.turns.scripted import Start, call, calls, says
from tests.turns.stage import Stage
from turnflow import LabelProtocol

ADD = call("add", a=17, b=23)
NAMED = LabelProtocol(
    allowed=("FINISH", "THINK", "TOOL", "OTHER"),
    terminal=("FINISH",),
    intermediate=("THINK",),
    final=("FINISH",),
    tool="TOOL",
    validate_terminal=lambda info: "no_number" if "number" not in info["text"] else None,
)
GOOD = says("``FINISH``\nThe number is 40.")
BROKEN = {
    "missing_label": (says("The number is 40."), "had no label", "The first characters"),
    "multiple_labels": (
        says("``THINK``\nFirst.\n``FINISH``\nThe number is 40."),
        "more than one label (FINISH after THINK)",
        "no label anywhere else",
    ),
    "tool_without_calls": (says("``TOOL``\nI add."), "said TOOL but called no tool", "without a call again"),
    "finish_with_tools": (
        calls(ADD, content="``FINISH``\nThe number is 40."),
        "called tools under FINISH",
        "under FINISH again",
    ),
    "think_with_tools": (
        calls(ADD, content="``THINK``\nHm."),
        "called tools under THINK",
        "under THINK again",
    ),
    "no_number": (says("``FINISH``\nForty."), "not accepted: no_number", "not accepted again: no_number"),
    "empty_terminal": (says("``FINISH``\n"), "said FINISH and nothing else", "was empty again"),
    "unknown_action": (says("``OTHER``\nHm."), "asked for 'OTHER'", "was not taken again"),
}


@pytest.fixture(params=BROKEN, ids=str)
def broken(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], str, str, LabelProtocol]:
    """A violation's key, a reply that commits it, what the model is told at the first and the second time."""
    key: str = request.param
    protocol = NAMED if key == "no_number" else replace(NAMED, validate_terminal=None)
    return (key, *BROKEN[key], protocol)


Broken = tuple[str, dict[str, Any], str, str, LabelProtocol]


def test_a_violation_is_repaired(stage: Stage, fake_provider: Start, broken: Broken) -> None:
    key, bad, first, _, protocol = broken
    played, provider = play(stage, fake_provider, bad, GOOD, protocol=protocol)
    assert (played.status, played.answer) == ("finished", "The number is 40.")
    assert played.outcome["rounds"] == 2
    assert [(e["key"], e["times"]) for e in played.of("repair")] == [(key, 1)]
    assert played.shape() == ["human", "ai"]
    assert not played.of("tool.started")
    draft, told = provider.requests[1]["messages"][-2:]
    assert (draft["role"], told["role"]) == ("assistant", "user")
    assert draft["content"].strip() == bad["reply"]["content"].strip()
    assert first in told["content"]
    # Rendered for one request only.
    assert all(first not in str(m.content) for m in played.messages)


def test_the_same_violation_twice_is_told_more_strictly(
    stage: Stage, fake_provider: Start, broken: Broken
) -> None:
    key, bad, _, again, protocol = broken
    played, provider = play(stage, fake_provider, bad, bad, GOOD, protocol=protocol)
    assert (played.status, played.answer) == ("finished", "The number is 40.")
    assert [(e["key"], e["times"]) for e in played.of("repair")] == [(key, 1), (key, 2)]
    told = provider.requests[2]["messages"][-1]["content"]
    assert again in told
    assert told != provider.requests[1]["messages"][-1]["content"]
    # One draft, not two.
    assert [m["role"] for m in provider.requests[2]["messages"]] == ["system", "user", "assistant", "user"]


def test_the_third_time_the_turn_is_finished_by_force(
    stage: Stage, fake_provider: Start, broken: Broken
) -> None:
    key, bad, _, _, protocol = broken
    played, provider = play(
        stage, fake_provider, bad, bad, bad, says("As far as I got: 40."), protocol=protocol
    )
    assert (played.status, played.outcome["stop_reason"]) == ("finished_degraded", key)
    assert played.answer == "As far as I got: 40."
    assert len(played.of("repair")) == 2
    assert "tools" not in provider.requests[3]
    assert "under ``FINISH``" in provider.requests[3]["messages"][-1]["content"]
    assert played.shape() == ["human", "ai"]


def test_another_violation_in_between_begins_anew(stage: Stage, fake_provider: Start) -> None:
    steps = [says("No label."), says("``TOOL``\nHm."), says("No label."), says("``FINISH``\nDone.")]
    played, _ = play(stage, fake_provider, *steps)
    assert [(e["key"], e["times"]) for e in played.of("repair")] == [
        ("missing_label", 1),
        ("tool_without_calls", 1),
        ("missing_label", 1),
    ]
    assert played.status == "finished"


def test_what_was_shown_and_rejected_is_taken_back(stage: Stage, fake_provider: Start) -> None:
    bad = says("``FINISH``\nHello to all.\n``TOOL``")
    played, _ = play(stage, fake_provider, bad, says("``FINISH``\nHello."), protocol=STREAMS)
    assert played.answer == "Hello."
    assert [e["text"] for e in played.of("content.retract")] == ["Hello to all.\n``TOOL``"]
    assert live_text(played, reply_id(played, 1)) == ""


def test_a_draft_is_cut_to_500_characters(stage: Stage, fake_provider: Start) -> None:
    _, provider = play(stage, fake_provider, says("x" * 2000), says("``FINISH``\nDone."))
    assert provider.requests[1]["messages"][-2]["content"] == "x" * 500


def test_a_label_without_a_meaning_is_not_offered(stage: Stage, fake_provider: Start) -> None:
    protocol = LabelProtocol(allowed=("FINISH", "ASIDE"), terminal=("FINISH",), final=("FINISH", "ASIDE"))
    steps = [says("``ASIDE``\nHm."), says("``FINISH``\nDone.")]
    played, provider = play(stage, fake_provider, *steps, protocol=protocol)
    assert played.answer == "Done."
    assert [e["key"] for e in played.of("repair")] == ["unknown_action"]
    assert "ASIDE" not in provider.requests[0]["messages"][0]["content"]
    assert provider.requests[1]["messages"][-1]["content"].endswith("Choose one of: FINISH.")


@pytest.mark.parametrize("key", ["tools_refused", "empty_reply", "rounds", "provider_error"])
def test_a_verdict_is_not_taken_for_something_else(stage: Stage, fake_provider: Start, key: str) -> None:
    protocol = replace(SOLVE, validate_terminal=lambda _: key)
    steps = [says("``FINISH``\nNo.")] * 3 + [says("``FINISH``\nNo.")]
    played, _ = play(stage, fake_provider, *steps, protocol=protocol)
    assert (played.status, played.outcome["stop_reason"]) == ("finished_degraded", f"rejected:{key}")
    assert played.outcome["rounds"] == 4
