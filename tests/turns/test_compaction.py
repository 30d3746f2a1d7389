"""Compaction in whole turns: before a turn, inside a long one, after an overflow, and where it fails."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from langgraph.types import Command

from tests.nodes.fold_checkpoint.fold_stage import AMemory, ScriptedSummariser
from tests.turns.scripted import Start, asks, call, calls, says, script
from tests.turns.stage import Played, Stage
from turnflow import CancelToken, ToolOutput, TurnContext

WORDS = "The boiler hums and the lamp is green. " * 40
"""About 400 tokens."""

PAGES = 60
GOAL = "Read all sixty pages and tell me which one mentions the lighthouse."


def read_page(page: int) -> str:
    """Read a page of the book."""
    return f"Page {page}. " + f"Line of page {page}, nothing more. " * 62


def plan(todos: list[str]) -> ToolOutput:
    """Note what is to be done."""
    entries = {str(n): {"text": text, "done": False} for n, text in enumerate(todos)}
    return ToolOutput("Noted.", variables={"todos": entries})


def save(text: str) -> ToolOutput:
    """Save what was done so far."""
    return ToolOutput("saved", checkpoint=text)


def reading(first: int, last: int) -> list[dict[str, Any]]:
    return [calls(call("read_page", f"c{page}", page=page)) for page in range(first, last + 1)]


def for_ever(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "forever": True}


def talks() -> dict[str, Any]:
    """A long answer, in one piece."""
    return {**says(WORDS), "stream": {"chunk": "whole"}}


def text_of(request: dict[str, Any]) -> str:
    return str(request["messages"])


def compacting(stage: Stage, provider: Any, summariser: Any, **options: Any) -> Any:
    """A graph on a window of 4,096 tokens, unless the options say otherwise."""
    settings = {
        "context_window": 4096,
        "ask_user": False,
        "read_results": False,
        **options.pop("settings", {}),
    }
    options.setdefault("tools", [])
    options.setdefault("memory", AMemory(recent_turns=50, summary_after=None))
    return stage.graph(provider, settings=settings, summariser=summariser, **options)


def folds(played: Played, *, failed: bool = False) -> list[dict[str, Any]]:
    return [event for event in played.of("folded") if event["failed"] == failed]


def test_older_turns_are_summed_up_before_a_request_is_too_full(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(for_ever(talks())))
    summariser = ScriptedSummariser("They spoke of the boiler.")
    graph = compacting(stage, provider, summariser)
    for number in range(12):
        played = stage.play(graph, f"Question {number}?")
        assert played.status == "finished"
        if found := folds(played):
            break
    else:
        pytest.fail("nothing was summed up")
    (event,) = found
    assert event["reason"] == "window"
    assert event["tokens_after"] < event["tokens_before"]
    first, last = event["positions"]
    assert (first, last <= number - 2) == (0, True)
    sent = text_of(provider.requests[-1])
    assert "They spoke of the boiler." in sent
    assert "Question 0?" not in sent
    assert f"Question {number}?" in sent
    # The user's own words of the last turns that were summed up.
    assert f"- Question {last}?" in sent
    # One round, though the request was planned twice, and the call counts.
    assert played.outcome["rounds"] == 1
    assert played.outcome["usage"]["requests"] == 1 + len(summariser.requests)
    # It stands in later turns too, and system prompts are never written to.
    stage.play(graph, "And now?")
    system, *rest = provider.requests[-1]["messages"]
    assert "boiler" not in system["content"]
    assert "They spoke of the boiler." in str(rest)
    assert len([message for message in played.messages if message.type == "human"]) <= number + 1


def test_a_summary_is_hidden_from_every_stream(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(for_ever(talks())))
    inner = fake_provider(script(for_ever(says("A secret summary."))))
    graph = compacting(stage, provider, stage.model(inner))
    played = [stage.play(graph, f"Question {number}?") for number in range(9)]
    assert any(folds(each) for each in played)
    for each in played:
        assert not any("secret" in str(message.content) for message in each.live)
        assert not any("secret" in str(message.content) for message in each.messages)
        for event in each.events:
            assert "secret" not in str(event.get("text", "")) or event["type"] == "folded"


def test_sixty_rounds_on_a_small_window_finish(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(*reading(1, PAGES), says("None of them.")))
    summariser = ScriptedSummariser(*(f"Summary {n}: no lighthouse yet." for n in range(100)))
    graph = compacting(
        stage, provider, summariser, tools=[read_page], settings={"context_window": 8192, "max_rounds": 64}
    )
    played = stage.play(graph, GOAL)
    assert played.status == "finished"
    assert played.answer == "None of them."
    assert played.outcome["rounds"] == PAGES + 1
    assert len(provider.requests) == PAGES + 1
    for number, request in enumerate(provider.requests):
        assert GOAL in text_of(request)
        assert sum(len(str(message)) for message in request["messages"]) / 3 < 8192
        # What was read last is always there: the model has not seen it yet.
        assert number == 0 or f"Page {number}. " in text_of(request)
    assert folds(played)
    assert all(event["reason"] == "window" for event in folds(played))
    assert len(summariser.requests) <= PAGES // 5
    # One text stands for all that was folded, however often.
    last = text_of(provider.requests[-1])
    assert last.count("no lighthouse yet") == 1
    # Nothing left the transcript.
    assert len(played.messages) == 2 + 2 * PAGES


@pytest.mark.parametrize("answer", ["", RuntimeError("ill")], ids=["empty", "raising"])
def test_a_summariser_that_fails_is_let_be_and_the_turn_goes_on(
    stage: Stage, fake_provider: Start, answer: Any
) -> None:
    provider = fake_provider(script(*reading(1, 30), says("None of them.")))
    summariser = ScriptedSummariser(answer)
    graph = compacting(
        stage, provider, summariser, tools=[read_page], settings={"context_window": 8192, "max_rounds": 40}
    )
    played = stage.play(graph, GOAL)
    assert played.status == "finished"
    assert len(summariser.requests) == 2  # twice in a turn, some rounds apart
    assert not folds(played)
    assert [event["why"] for event in folds(played, failed=True)] == ["error" if answer else "empty"] * 2
    rounds = [event["round"] for event in folds(played, failed=True)]
    assert rounds[1] >= rounds[0] + 3
    assert all(GOAL in text_of(request) for request in provider.requests)


def test_after_a_failure_it_cools_down(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(for_ever(talks())))
    summariser = ScriptedSummariser("", "They spoke of the boiler.")
    graph = compacting(stage, provider, summariser)
    told: list[str] = []
    for number in range(14):
        events = stage.play(graph, f"Question {number}?").of("folded")
        told += ["-"] if not events else ["failed" if events[0]["failed"] else "made"]
    tried = told.index("failed")
    assert told[tried + 1] == "-"
    assert told[tried + 2] == "made"


TOO_LONG = {"status": 400, "message": "Your input is too long.", "code": "context_length_exceeded"}


def roomy(stage: Stage, provider: Any, summariser: Any) -> Any:
    return compacting(stage, provider, summariser, settings={"context_window": 100_000})


@pytest.mark.parametrize("times", [1, 2])
def test_a_request_that_was_too_long_is_sent_again_shorter(
    stage: Stage, fake_provider: Start, times: int
) -> None:
    refused = {"error": TOO_LONG, "times": times}
    provider = fake_provider(script({**talks(), "times": 6}, refused, for_ever(says("Fine."))))
    summariser = ScriptedSummariser("They spoke of the boiler.")
    graph = roomy(stage, provider, summariser)
    for number in range(6):
        stage.play(graph, f"Question {number}?")
    played = stage.play(graph, "And now?")
    assert (played.status, played.answer) == ("finished", "Fine.")
    assert played.outcome["rounds"] == 1
    assert played.outcome["error"] is None
    assert [event["reason"] for event in played.of("folded")] == ["overflow"] * times
    sizes = [len(text_of(request)) for request in provider.requests[6:]]
    assert sizes[1] < sizes[0]
    assert "They spoke of the boiler." in text_of(provider.requests[-1])
    assert "And now?" in text_of(provider.requests[-1])
    # What was learned holds for the next turn.
    windows = [event["window"] for event in played.of("folded")]
    assert windows == sorted(windows, reverse=True)
    stage.play(graph, "And then?")
    assert len(provider.requests) == 6 + times + 2


def test_a_provider_that_always_says_too_long_ends_the_turn(stage: Stage, fake_provider: Start) -> None:
    refused = for_ever({"error": TOO_LONG})
    provider = fake_provider(script({**talks(), "times": 4}, refused))
    graph = roomy(stage, provider, ScriptedSummariser("They spoke of the boiler."))
    for number in range(4):
        stage.play(graph, f"Question {number}?")
    played = stage.play(graph, "And now?")
    assert played.status == "context_overflow"
    assert len(provider.requests) - 4 <= 7


def test_a_long_turn_recovers_from_an_overflow_inside_it(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(*reading(1, 12), {"error": TOO_LONG}, says("None of them.")))
    summariser = ScriptedSummariser("Pages without a lighthouse.")
    graph = compacting(
        stage,
        provider,
        summariser,
        tools=[read_page],
        settings={"context_window": 100_000, "max_rounds": 20},
    )
    played = stage.play(graph, GOAL)
    assert played.status == "finished"
    assert [event["reason"] for event in folds(played)] == ["overflow"]
    last = text_of(provider.requests[-1])
    assert "Pages without a lighthouse." in last
    assert "Page 12. " in last
    assert GOAL in last


def test_memory_sums_up_past_its_threshold_and_merges(stage: Stage, fake_provider: Start) -> None:
    """Twenty messages wait: nothing. More: one call, without the recent turns. And one summary for ever."""
    provider = fake_provider(script(for_ever(says("Fine."))))
    summariser = ScriptedSummariser(*(f"Summary {n}." for n in range(9)))
    memory = AMemory(recent_turns=2, summary_after=20)
    graph = compacting(stage, provider, summariser, memory=memory, settings={"context_window": 50_000})
    made: list[tuple[int, list[int]]] = []
    for number in range(36):
        played = stage.play(graph, f"Question number {number}, as long as it takes?")
        made += [(number, event["positions"]) for event in folds(played)]
        assert len(summariser.requests) == len(made)
        if number == 10:  # ten turns of two messages stand before it
            assert not made
            assert "Question number 0," in text_of(provider.requests[-1])
    # At 11 eleven turns wait, and the last two of them stay; then eleven again.
    assert made == [(11, [0, 8]), (20, [9, 17]), (29, [18, 26])]
    for number, (first, last) in made:
        read = str(summariser.requests[made.index((number, [first, last]))][-1].content)
        for other in range(36):
            assert (f"Question number {other}," in read) == (first <= other <= last)
    assert "<summary>\nSummary 1.\n</summary>" in str(summariser.requests[2][-1].content)
    sent = text_of(provider.requests[-1])
    assert [f"Summary {n}." in sent for n in range(3)] == [False, False, True]


def test_what_the_user_answered_survives(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(asks("Which book?")), *reading(1, 20), says("None of them.")))
    summariser = ScriptedSummariser("No lighthouse.")
    graph = compacting(
        stage,
        provider,
        summariser,
        tools=[read_page],
        settings={"context_window": 8192, "max_rounds": 40, "ask_user": True},
    )
    stage.play(graph, GOAL)
    played = stage.play(graph, Command(resume="the green one"))
    assert played.status == "finished"
    assert folds(played)
    assert all("Which book? → the green one" in text_of(request) for request in provider.requests[1:])


def test_open_todos_survive(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(calls(call("plan", "p", todos=["Find the lighthouse"])), *reading(1, 20), says("None."))
    )
    summariser = ScriptedSummariser("Some pages were read.")
    graph = compacting(
        stage,
        provider,
        summariser,
        tools=[read_page, plan],
        settings={"context_window": 8192, "max_rounds": 40},
    )
    played = stage.play(graph, GOAL)
    assert folds(played)
    assert "- Find the lighthouse" in folds(played)[-1]["text"]
    assert "- Find the lighthouse" in text_of(provider.requests[-1]).replace("\\n", "\n")


def test_a_checkpoint_after_a_compaction_keeps_its_text_and_the_unread_siblings(
    stage: Stage, fake_provider: Start
) -> None:
    provider = fake_provider(
        script(
            *reading(1, 14),
            calls(call("save", "s", text="Read fourteen pages."), call("read_page", "c99", page=99)),
            says("None."),
        )
    )
    summariser = ScriptedSummariser("Early pages are dull.")
    graph = compacting(
        stage,
        provider,
        summariser,
        tools=[read_page, save],
        settings={"context_window": 8192, "max_rounds": 40},
    )
    played = stage.play(graph, GOAL)
    assert [event["reason"] for event in folds(played)] == ["window", "checkpoint"]
    last = text_of(provider.requests[-1])
    assert last.index("Early pages are dull.") < last.index("Read fourteen pages.")
    assert "Page 99. " in last
    assert "Page 14. " not in last


def test_a_cancelled_summary_ends_the_turn(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(for_ever(talks())))
    token = CancelToken()

    def cancels() -> str:
        token.cancel()
        return "too late"

    graph = compacting(stage, provider, ScriptedSummariser(cancels))
    for number in range(12):
        played = stage.play(graph, f"Question {number}?", context=TurnContext(cancel=token))
        if token.cancelled:
            break
    assert played.status == "cancelled"
    assert not played.of("folded")


def test_a_summary_is_made_once_in_five_turns_at_most(stage: Stage, fake_provider: Start) -> None:
    """Also where prompt and reserve leave little room, so that no fold brings the request far below."""
    provider = fake_provider(script(for_ever(talks())))
    summariser = ScriptedSummariser("They spoke of the boiler.")
    graph = compacting(stage, provider, summariser, instructions="Keep an eye on the lamp. " * 200)
    made = [len(folds(stage.play(graph, f"Question {number}?"))) for number in range(20)]
    assert 2 <= sum(made) == len(summariser.requests) <= 4
    assert min(b - a for a, b in pairwise(at for at, each in enumerate(made) if each)) >= 5


def test_what_is_sent_again_is_little_shorter_than_what_was_refused(
    stage: Stage, fake_provider: Start
) -> None:
    provider = fake_provider(script(says("Hello."), {"error": TOO_LONG}, for_ever(says("Fine."))))
    graph = roomy(stage, provider, ScriptedSummariser("They spoke."))
    stage.play(graph, "Hello.")
    played = stage.play(graph, WORDS * 20)
    assert played.status == "finished"
    refused, again = (len(text_of(request)) for request in provider.requests[1:])
    assert 0.8 * refused < again < 0.9 * refused


def test_a_window_that_was_learned_stops_no_later_turn(stage: Stage, fake_provider: Start) -> None:
    """What only a refusal says does not fit is sent all the same, and what was taken fits from then on."""
    refusal = {"status": 400, "message": "maximum context length is 512 tokens", "code": None}
    provider = fake_provider(script({"error": refusal}, for_ever(says("Fine."))))
    graph = compacting(
        stage, provider, ScriptedSummariser("They spoke."), instructions="Keep an eye on the lamp. " * 200
    )
    stage.play(graph, "Hello.")
    sent = len(provider.requests)
    for number in range(3):
        played = stage.play(graph, f"Question {number}?")
        assert (played.status, played.answer) == ("finished", "Fine.")
        assert len(provider.requests) == sent + number + 1
    manifest = played.of("context.assembled")[-1]["manifest"]
    assert manifest["fits"]
    assert 512 < manifest["window"] < 4096


def test_a_wild_report_of_tokens_stops_no_later_turn(stage: Stage, fake_provider: Start) -> None:
    """More than the window that the request was taken in; and one in it that makes all seem too long."""
    for reported in (1450, 980):
        usage = {"prompt_tokens": reported, "completion_tokens": 3, "total_tokens": reported + 3}
        provider = fake_provider(
            script({"reply": {"content": "Hello.", "usage": usage}}, for_ever(says("Fine.")))
        )
        graph = compacting(
            stage,
            provider,
            ScriptedSummariser("They spoke."),
            instructions="Keep an eye on the lamp. " * 40,
            settings={"context_window": 1000},
        )
        for number in range(3):
            played = stage.play(graph, f"Question {number}?", thread=f"t{reported}")
            assert played.status == "finished"
