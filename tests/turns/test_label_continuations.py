"""Replies under a label that were cut off, and how they go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.turns.labels import SOLVE, STREAMS, live_text, play, reply_id
from tests.turns.scripted import Start, says
from tests.turns.stage import Stage
from tests.turns.written import cut_off
from turnflow import LabelProtocol
from turnflow.graph.protocol import LABELS


@pytest.mark.parametrize("protocol", [LABELS, STREAMS], ids=["held", "streams"])
def test_a_cut_off_answer_goes_on_in_its_body(
    stage: Stage, fake_provider: Start, protocol: LabelProtocol
) -> None:
    played, _ = play(stage, fake_provider, cut_off("``FINISH``\nOne, "), says("two."), protocol=protocol)
    assert (played.status, played.answer) == ("finished", "One, two.")
    assert played.shape() == ["human", "ai"]
    assert live_text(played, reply_id(played, 1)) == "One, two."
    assert [e["label"] for e in played.of("label")] == ["FINISH"]


@pytest.mark.parametrize("protocol", [LABELS, STREAMS], ids=["held", "streams"])
def test_a_second_label_in_what_goes_on_takes_all_of_it_back(
    stage: Stage, fake_provider: Start, protocol: LabelProtocol
) -> None:
    steps = [cut_off("``FINISH``\nOne, "), says("two.\n``TOOL``"), says("``FINISH``\nDone.")]
    played, provider = play(stage, fake_provider, *steps, protocol=protocol)
    assert (played.status, played.answer) == ("finished", "Done.")
    assert played.shape() == ["human", "ai"]
    assert provider.requests[2]["messages"][-2]["content"] == "``FINISH``\nOne, two.\n``TOOL``"


def test_a_cut_off_thought_is_a_thought(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, cut_off("``THINK``\nOne, "), says("``FINISH``\nDone."))
    assert (played.answer, played.outcome["rounds"]) == ("Done.", 2)


def test_a_cut_off_text_for_the_caller_is_not_gone_on_with(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, cut_off("``REPLAN``\nThe file is"), protocol=SOLVE)
    assert (played.status, played.outcome["stop_reason"]) == ("finished_truncated", "REPLAN")
    assert (played.answer, played.outcome["partial"]) == ("The file is", True)
    assert len(provider.requests) == 1
    assert not played.of("content.delta")


@pytest.mark.parametrize("rest", ["``FINISH``\ntwo.", "`finish`: two.", "\n``FINISH`` two.", "two."])
@pytest.mark.parametrize("protocol", [LABELS, STREAMS], ids=["held", "streams"])
def test_a_label_that_is_repeated_in_the_rest_is_left_out(
    stage: Stage, fake_provider: Start, protocol: LabelProtocol, rest: str
) -> None:
    played, provider = play(stage, fake_provider, cut_off("``FINISH``\nOne, "), says(rest), protocol=protocol)
    assert (played.status, played.answer) == ("finished", "One, two.")
    assert "without a label" in provider.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("rest", ["\n\ntwo.", "`FINISHED` is two.", "`two`.", "\n"])
def test_what_only_looks_like_a_repeated_label_is_kept(stage: Stage, fake_provider: Start, rest: str) -> None:
    played, _ = play(stage, fake_provider, cut_off("``FINISH``\nOne."), says(rest))
    assert played.answer == "One." + rest


def test_a_reply_that_was_cut_off_behind_its_label_is_sent_again(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, cut_off("``FINISH``\n"), says("``FINISH``\nDone."))
    assert (played.status, played.answer) == ("finished", "Done.")
    assert [e["key"] for e in played.of("repair")] == ["empty_terminal"]


@pytest.mark.parametrize("last", ["The answer is", "``THINK``\nThe answer is", "``FINISH``\nThe answer is"])
@pytest.mark.parametrize("protocol", [LABELS, STREAMS], ids=["held", "streams"])
def test_a_cut_off_last_reply_goes_on_whatever_its_label(
    stage: Stage, fake_provider: Start, protocol: LabelProtocol, last: str
) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0}
    steps = [says("``THINK``\na."), cut_off(last), says(" forty-two.")]
    played, _ = play(stage, fake_provider, *steps, protocol=protocol, settings=settings)
    assert (played.status, played.answer) == ("finished_budget", "The answer is forty-two.")
    assert live_text(played, reply_id(played, 2)) == "The answer is forty-two."


def test_a_broken_stream_of_the_last_reply_keeps_what_came(stage: Stage, fake_provider: Start) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0, "max_continuations": 0}
    broken = {"reply": {"content": "The answer is near."}, "fault": {"kind": "truncate", "after": 3}}
    played, _ = play(stage, fake_provider, says("``THINK``\na."), broken, settings=settings)
    assert (played.status, played.answer) == ("finished_degraded", "The answer is ")


@pytest.mark.parametrize(
    ("first", "rest", "answer"),
    [
        ("Use:\n```yaml\n", "TOOL: x\n```\nDone.", "Use:\n```yaml\nTOOL: x\n```\nDone."),
        ("I need the ", "TOOL: a hammer.", "I need the TOOL: a hammer."),
    ],
    ids=["in a fence", "in a line"],
)
def test_a_second_label_is_looked_for_in_the_whole(
    stage: Stage, fake_provider: Start, first: str, rest: str, answer: str
) -> None:
    played, _ = play(stage, fake_provider, cut_off("``FINISH``\n" + first), says(rest))
    assert (played.status, played.answer) == ("finished", answer)


def test_a_second_label_that_was_cut_in_two_is_found(stage: Stage, fake_provider: Start) -> None:
    steps = [cut_off("``FINISH``\nabc\nTO"), says("OL: a hammer"), says("``FINISH``\nDone.")]
    played, _ = play(stage, fake_provider, *steps)
    assert [e["key"] for e in played.of("repair")] == ["multiple_labels"]


def test_what_is_not_whole_is_not_judged(stage: Stage, fake_provider: Start) -> None:
    judged: list[str] = []
    protocol = replace(STREAMS, validate_terminal=lambda info: judged.append(info["text"]))
    steps = [cut_off("``FINISH``\nOne, "), says("two.")]
    play(stage, fake_provider, *steps, protocol=protocol)
    assert judged == ["One, two."]
