"""The node's body: summaries made, merged, refused, given up."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.constants import TAG_NOSTREAM

from tests.nodes.fold_checkpoint.fold_stage import (
    LONG,
    Answer,
    FoldStage,
    Mode,
    Quarter,
    ScriptedSummariser,
    a_round,
    a_state,
    a_turn,
    ten_turns,
)
from turnflow import CancelToken, TurnSettings
from turnflow.graph.decision import decide
from turnflow.nodes.fold_checkpoint import compact, summary_call

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "150")), deadline=None)
COUNTER = Quarter()

WINDOW, MEMORY, OVERFLOW = decide("fold", "window"), decide("fold", "memory"), decide("overflow")


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Mode:
    given: Mode = request.param
    return given


def stage_of(mode: Mode, *answers: Answer, **options: Any) -> FoldStage:
    return FoldStage(mode, ScriptedSummariser(*answers), **options)


def test_older_turns_give_way_to_a_summary(mode: Mode) -> None:
    stage = stage_of(mode, "They talked about words.")
    folded = stage.run(a_state(ten_turns(), WINDOW))
    anchor = folded.update["summary"]["anchor"]
    assert anchor["text"].startswith("They talked about words.")
    assert anchor["text"][: anchor["written"]] == "They talked about words."
    assert folded.update["decision"] == compact.PLAN_AGAIN
    event = folded.event
    assert event["positions"] == [0, anchor["position"]]
    assert event["through_id"] == anchor["through_id"] == f"u{anchor['position']}"
    assert event["tokens_after"] < event["tokens_before"]
    assert (event["reason"], event["failed"]) == ("window", False)
    # What is summed up was read, what stays was not; and the call is hidden from the streams.
    assert "question 0" in stage.summariser.read
    assert f"question {anchor['position'] + 1}" not in stage.summariser.read
    assert "question 10" not in stage.summariser.read
    assert all(TAG_NOSTREAM in tags for tags in stage.summariser.tags)
    assert folded.update["turn"]["usage"]["requests"] == len(stage.summariser.requests)


def test_the_users_last_words_are_kept_whatever_the_summary_says(mode: Mode) -> None:
    folded = stage_of(mode, "Words.").run(a_state(ten_turns(), WINDOW))
    anchor = folded.update["summary"]["anchor"]
    last = anchor["position"]
    assert [f"- question {n}" in anchor["text"] for n in (last - 2, last - 1, last)] == [True] * 3
    assert f"- question {last - 3}" not in anchor["text"]


def test_open_todos_are_kept(mode: Mode) -> None:
    todos = {"1": {"text": "Book the flight", "done": False}, "2": {"text": "Pay", "done": True}}
    state = a_state(ten_turns(), WINDOW, session={"vars": {"todos": todos}})
    text = stage_of(mode, "Words.").run(state).update["summary"]["anchor"]["text"]
    assert "- Book the flight" in text
    assert "Pay" not in text


def test_a_new_summary_takes_the_old_one_in(mode: Mode) -> None:
    """After three there is one text, and what we added to the old one is not summed up again."""
    summary: dict[str, Any] = {}
    messages = ten_turns()
    for number in range(3):
        stage = stage_of(mode, f"Summary {number}.")
        todos = {"1": {"text": f"todo {number}"}}
        state = a_state(messages, WINDOW, summary=summary, session={"vars": {"todos": todos}})
        summary = stage.run(state).update["summary"]
        if number:
            assert f"<summary>\nSummary {number - 1}.\n</summary>" in stage.summariser.read
            assert "todo" not in stage.summariser.read
        messages = [*messages[:-1], *(m for n in range(10, 20) for m in a_turn(n + 10 * number))]
        messages.append(HumanMessage(content="now", id=f"now{number}"))
    assert summary["anchor"]["text"].startswith("Summary 2.")
    assert "Summary 1." not in summary["anchor"]["text"]
    assert "Summary 0." not in summary["anchor"]["text"]


def test_rounds_of_a_long_turn_give_way(mode: Mode) -> None:
    own: list[AnyMessage] = [*a_round(0), *a_round(1, "the user said so", tool="ask_user")]
    own += [m for n in range(2, 12) for m in a_round(n)]
    messages = [HumanMessage(content="Read all pages.", id="u0"), *own]
    stage = stage_of(mode, "Pages 0 to 7 say words.")
    folded = stage.run(a_state(messages, WINDOW, round_number=12))
    (fold,) = folded.update["summary"]["folds"]
    assert fold["after_id"] == "u0"
    assert fold["texts"] == ["Pages 0 to 7 say words."]
    assert {"r0", "t0", "r2", "t2"} <= set(fold["message_ids"])
    assert not {"r1", "t1", "r11", "t11"} & set(fold["message_ids"])
    assert folded.event["first_id"] == "r0"
    assert "message_ids" not in folded.event


def test_a_second_fold_of_a_turn_merges_the_first_one_and_a_tools_checkpoint(mode: Mode) -> None:
    messages = [HumanMessage(content="Read.", id="u0"), *(m for n in range(16) for m in a_round(n))]
    earlier = {
        "after_id": "u0",
        "message_ids": ["r0", "t0", "r1", "t1"],
        "texts": ["Model's part.\n\nStill open:\n- x", "A tool's checkpoint."],
        "written": len("Model's part."),
    }
    stage = stage_of(mode, "One text.")
    folded = stage.run(a_state(messages, WINDOW, summary={"folds": [earlier]}))
    (fold,) = folded.update["summary"]["folds"]
    assert fold["texts"] == ["One text."]
    assert fold["message_ids"][:4] == ["r0", "t0", "r1", "t1"]
    assert "<summary>\nModel's part.\n\nA tool's checkpoint.\n</summary>" in stage.summariser.read
    assert "page 0" not in stage.summariser.read
    assert "page 2" in stage.summariser.read


def test_a_turns_own_fold_is_read_in_place_of_its_rounds_and_goes_with_it(mode: Mode) -> None:
    messages = ten_turns()
    messages[1:1] = a_round(77, "what was folded")
    fold = {"after_id": "u0", "message_ids": ["r77", "t77"], "texts": ["A checkpoint's text."]}
    late = {"after_id": "u10", "message_ids": [], "texts": ["Of this turn."]}
    stage = stage_of(mode, "Words.")
    folded = stage.run(a_state(messages, WINDOW, summary={"folds": [fold, late]}))
    assert "Assistant: A checkpoint's text." in stage.summariser.read
    assert "what was folded" not in stage.summariser.read
    assert folded.update["summary"]["folds"] == [late]


BAD: list[tuple[Answer, str]] = [
    ("", "empty"),
    ("<think>Only a thought.</think>", "empty"),
    (RuntimeError("the summariser is ill"), "error"),
    (AIMessage(content="x", tool_calls=[{"name": "f", "args": {}, "id": "c"}]), "calls"),
    ("long " * 5000, "too_long"),
]


@pytest.mark.parametrize(("answer", "why"), BAD, ids=[f"{why}{n}" for n, (_, why) in enumerate(BAD)])
def test_a_failed_summary_leaves_everything_as_it_was(mode: Mode, answer: Answer, why: str) -> None:
    before = {"folds": [], "anchor": {"through_id": "u0", "position": 0, "text": "Old."}, "failures": 0}
    folded = stage_of(mode, answer).run(a_state(ten_turns(), WINDOW, summary=before))
    after = folded.update["summary"]
    assert (after["anchor"], after["folds"]) == (before["anchor"], [])
    assert after["failures"] == 1
    assert after["cool_until"] == 10 + 2
    assert (folded.event["failed"], folded.event["why"]) == (True, why)
    assert folded.update["decision"] == compact.PLAN_AGAIN
    assert folded.update["turn"]["fold_tried"] == {"times": 1, "round": 1}
    assert ("ill" in folded.event.get("error", "")) == (why == "error")


def test_a_summary_that_is_no_shorter_is_none(mode: Mode) -> None:
    messages = [m for n in range(5) for m in a_turn(n, "x" * 60)]
    messages.append(HumanMessage(content="now", id="now"))
    stage = stage_of(mode, "a summary that says as much as they did " * 12)
    stage.memory.recent_turns = 1
    folded = stage.run(a_state(messages, MEMORY))
    assert folded.event["why"] == "no_shorter"
    assert "anchor" not in folded.update["summary"]


@FUZZ
@given(
    st.lists(st.integers(0, 1500), min_size=1, max_size=8),
    st.lists(st.integers(0, 1500), max_size=8),
    st.text(max_size=600),
    st.text(max_size=300),
    st.sampled_from([WINDOW, MEMORY]),
)
def test_whatever_the_summariser_says_the_requests_only_become_shorter(
    turns: list[int], rounds: list[int], answer: str, old: str, decision: dict[str, Any]
) -> None:
    messages = [m for n, length in enumerate(turns) for m in a_turn(n, "x" * length)]
    messages.append(HumanMessage(content="now", id="now"))
    messages += [m for n, length in enumerate(rounds) for m in a_round(n, "y" * length)]
    summary = {"folds": [], **({"anchor": {"through_id": "", "position": -1, "text": old}} if old else {})}
    stage = stage_of("sync", answer, settings=TurnSettings(context_window=1024))
    stage.memory.recent_turns = 2 if decision == MEMORY else 100
    before = a_state(messages, decision, summary=summary, round_number=len(rounds) + 1)
    update = stage.run(before).update
    after = update.get("summary", summary)
    shrank = shown_tokens(messages, after) < shown_tokens(messages, summary)
    same = {key: after.get(key) for key in ("folds", "anchor")} == {
        key: summary.get(key) for key in ("folds", "anchor")
    }
    assert shrank != same
    assert update["decision"] == compact.PLAN_AGAIN


def shown_tokens(messages: list[AnyMessage], summary: dict[str, Any]) -> int:
    """Tokens of what stands behind the anchor, with the folds and the anchor's text."""
    anchor: Any = summary.get("anchor") or {"text": "", "position": -1}
    texts = [anchor["text"], *(text for fold in summary["folds"] for text in fold["texts"])]
    hidden = {each for fold in summary["folds"] for each in fold["message_ids"]}
    behind = messages[2 * (anchor["position"] + 1) :]
    shown = [message for message in behind if message.id not in hidden]
    return sum(map(COUNTER.message, shown)) + sum(map(COUNTER.text, texts))


def test_a_summariser_that_hangs_is_given_up(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_call, "SUMMARY_SECONDS", 0.1)
    release = threading.Event()
    folded = stage_of(mode, lambda: release.wait(20)).run_released(release, a_state(ten_turns(), WINDOW))
    assert folded.event["why"] == "timeout"


def test_cancelling_ends_the_call_and_the_turn(mode: Mode) -> None:
    token, release = CancelToken(), threading.Event()

    def hang() -> str:
        threading.Timer(0.05, token.cancel).start()
        release.wait(20)
        return "late"

    began = time.monotonic()
    stage = stage_of(mode, hang, cancel=token)
    folded = stage.run_released(release, a_state(ten_turns(), WINDOW))
    assert time.monotonic() - began < 10
    assert folded.update["decision"] == decide("stop", "cancelled")
    assert "summary" not in folded.update


def test_a_task_that_is_cancelled_is_cancelled() -> None:
    release = threading.Event()

    async def main() -> None:
        stage = stage_of("async", lambda: release.wait(20))
        running = asyncio.create_task(stage.arun(a_state(ten_turns(), WINDOW)))
        await asyncio.sleep(0.1)
        running.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())


def test_much_is_summed_up_in_steps_that_merge(mode: Mode) -> None:
    messages = [m for n in range(40) for m in a_turn(n, LONG)]
    messages.append(HumanMessage(content="now", id="now"))
    answers = [f"Step {n}." for n in range(20)]
    stage = stage_of(mode, *answers)
    stage.memory.recent_turns = 100
    folded = stage.run(a_state(messages, WINDOW))
    assert 1 < len(stage.summariser.requests) <= 8
    for number, request in enumerate(stage.summariser.requests[1:]):
        assert f"Step {number}." in str(request[-1].content)
    last = len(stage.summariser.requests) - 1
    assert folded.update["summary"]["anchor"]["text"].startswith(f"Step {last}.")
    room = 8192
    for request in stage.summariser.requests:
        assert sum(map(COUNTER.message, request)) < room


def test_memory_sums_up_exactly_what_left_it(mode: Mode) -> None:
    stage = stage_of(mode, "What left.")
    stage.memory.recent_turns = 4
    summary = {"anchor": {"through_id": "u1", "position": 1, "text": "Old.", "written": 4}}
    folded = stage.run(a_state(ten_turns(), MEMORY, summary=summary))
    anchor = folded.update["summary"]["anchor"]
    assert (anchor["through_id"], anchor["position"]) == ("u5", 5)
    assert folded.event["positions"] == [2, 5]
    read = stage.summariser.read
    assert [f"question {n}" in read for n in range(8)] == [n in {2, 3, 4, 5} for n in range(8)]
    assert "Old." in read


class FakeArchive:
    """Holds turns by position."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.asked: list[tuple[Any, ...]] = []

    def read_turns(self, scope: Any, head: str, first: int, last: int) -> list[dict[str, Any]]:
        self.asked.append((scope, head, first, last))
        if self.broken:
            raise OSError("the disk is gone")
        return [
            {"input_id": f"old{n}", "position": n, "messages": [HumanMessage(f"archived {n}", id=f"old{n}")]}
            for n in range(first, last + 1)
        ]


def test_turns_that_left_the_state_are_read_from_the_archive(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = FakeArchive()
    monkeypatch.setattr(compact, "archive_of", lambda run: archive)
    stage = stage_of(mode, "What left.")
    stage.memory.recent_turns = 4
    turn = {"position": 30, "archived": "head"}
    folded = stage.run(a_state(ten_turns(), MEMORY, turn=turn))
    assert [asked[1:] for asked in archive.asked] == [("head", 0, 19)]
    assert archive.asked[0][0].thread_id == "t"
    anchor = folded.update["summary"]["anchor"]
    assert (anchor["position"], anchor["through_id"]) == (25, "u5")
    assert "archived 0\n" in stage.summariser.read
    assert "question 5" in stage.summariser.read


def test_an_archive_that_cannot_be_read_leaves_everything_as_it_was(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "archive_of", lambda run: FakeArchive(broken=True))
    stage = stage_of(mode)
    folded = stage.run(a_state(ten_turns(), MEMORY, turn={"position": 30, "archived": "head"}))
    assert folded.event["why"] == "unreadable"
    assert "anchor" not in folded.update["summary"]


def test_a_summariser_that_keeps_failing_lets_the_memory_forget(mode: Mode) -> None:
    """At the third failure the summary moves on without a new text; before a window is full, nothing does."""
    summary: dict[str, Any] = {"anchor": {"through_id": "u1", "position": 1, "text": "Old."}}
    for failures in (1, 2, 3):
        stage = stage_of(mode, "")
        stage.memory.recent_turns = 4
        folded = stage.run(a_state(ten_turns(), MEMORY, summary=summary))
        summary = folded.update["summary"]
        assert summary["failures"] == failures
        assert folded.event["given_up"] == (failures == 3)
        assert summary["anchor"]["position"] == (5 if failures == 3 else 1)
        assert summary["anchor"]["text"] == "Old."
    longer = [*(m for n in range(16) for m in a_turn(n)), HumanMessage(content="now", id="now")]
    folded = stage_of(mode, "").run(a_state(longer, WINDOW, summary=summary))
    assert folded.update["summary"]["anchor"]["position"] == 5
    assert not folded.event["given_up"]


def test_success_ends_the_count_of_failures(mode: Mode) -> None:
    summary = {"failures": 2, "cool_until": 3}
    folded = stage_of(mode, "Words.").run(a_state(ten_turns(), WINDOW, summary=summary))
    assert folded.update["summary"]["failures"] == 0
    assert "cool_until" not in folded.update["summary"]


def test_where_nothing_can_be_folded_the_turn_goes_on_without(mode: Mode) -> None:
    folded = stage_of(mode).run(a_state(a_turn(0)[:1], WINDOW))
    assert folded.update["decision"] == compact.PLAN_AGAIN
    assert folded.update["turn"]["fold_tried"]["times"] == 1


def overflowed(
    messages: list[AnyMessage], tokens: int, text: str = "too long", **turn: Any
) -> dict[str, Any]:
    error = {"type": "BadRequestError", "message": text, "status_code": 400}
    view = {"manifest": {"tokens": tokens}}
    return a_state(messages, OVERFLOW, turn=turn, step={"error": error}, view=view)


def test_an_overflow_teaches_the_window_and_folds(mode: Mode) -> None:
    stage = stage_of(mode, "Words.")
    folded = stage.run(overflowed(ten_turns(), 6000))
    assert folded.update["turn"]["learned"]["window"] == 7141  # 5,100, margin and reply beside them
    assert folded.update["turn"]["overflows"] == 1
    assert folded.event["reason"] == "overflow"
    assert folded.event["window"] == 7141
    assert folded.update["summary"]["anchor"]["text"].startswith("Words.")
    assert folded.update["decision"] == compact.PLAN_AGAIN


def test_an_overflow_with_nothing_to_fold_is_planned_again_all_the_same(mode: Mode) -> None:
    stage = stage_of(mode)
    folded = stage.run(overflowed(a_turn(0)[:1], 6000, "maximum context length is 4096 tokens"))
    assert folded.update["turn"]["learned"]["window"] == 4096
    assert folded.update["decision"] == compact.PLAN_AGAIN
    assert not stage.summariser.requests


def test_an_overflow_that_nothing_helps_ends_the_turn(mode: Mode) -> None:
    stage = stage_of(mode)
    stage.settings = TurnSettings(context_window=256)
    folded = stage.run(overflowed(a_turn(0)[:1], 250, overflow_tokens=250))
    assert folded.update == {"decision": decide("stop", "context_overflow")}


def test_without_compaction_an_overflow_only_teaches(mode: Mode) -> None:
    stage = stage_of(mode)
    stage.settings = TurnSettings(context_window=8192, fold_at=None)
    folded = stage.run(overflowed(ten_turns(), 6000))
    assert folded.update["turn"]["learned"]["window"] == 7141  # 5,100, margin and reply beside them
    assert not stage.summariser.requests


def test_a_summariser_that_cannot_be_made_is_a_failed_summary(mode: Mode) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("no key for the summariser")

    stage = stage_of(mode, "never asked")
    stage.summariser = "small"  # type: ignore[assignment]
    stage.make_model = refuse
    folded = stage.run(a_state(ten_turns(), WINDOW))
    assert (folded.event["failed"], folded.event["why"]) == (True, "error")
    assert folded.event["error"] == "RuntimeError: no key for the summariser"
    assert folded.update["summary"]["failures"] == 1
    assert folded.update["turn"]["usage"]["requests"] == 0
