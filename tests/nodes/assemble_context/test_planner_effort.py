"""How much work a plan is for a turn of many rounds, in calls and not in seconds, and what it comes to."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.nodes.assemble_context.test_planner_laws import FUZZ, CountingCounter
from turnflow import PlanInput, plan_context
from turnflow.graph.tokens import as_json
from turnflow.nodes.assemble_context.cutting import Size
from turnflow.nodes.assemble_context.planning import Planning
from turnflow.nodes.assemble_context.short_arguments import short_arguments

NOTICE = "[… {cut} of {total} characters left out …]"


def two_turns(rounds: int, words: int) -> list[BaseMessage]:
    """Two turns of so many rounds each, the first one answered."""
    messages: list[BaseMessage] = []
    for turn in range(2):
        messages.append(HumanMessage(f"question {turn}", id=f"u{turn}"))
        for number in range(rounds):
            name = f"{turn}-{number}"
            call: Any = {"id": f"c{name}", "name": "look_up", "args": {"n": number}, "type": "tool_call"}
            messages += [
                AIMessage("", id=f"r{name}", tool_calls=[call]),
                ToolMessage(
                    f"{name} " + "some words " * words, tool_call_id=f"c{name}", id=f"t{name}", name="look_up"
                ),
            ]
        if not turn:
            messages.append(AIMessage("answer", id="a0"))
    return messages


def tight(rounds: int, words: int = 40, **fields: Any) -> PlanInput:
    return PlanInput(
        messages=two_turns(rounds, words), system="S", **{"window": 2000, "can_fetch": True, **fields}
    )


def effort(plan: PlanInput, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """How often a request was composed, a message counted, and the size of a cut asked for."""
    composed, sized = [], []
    compose, at = Planning._compose, Size.at

    def counted_compose(self: Planning, choice: Any) -> Any:
        composed.append(choice)
        return compose(self, choice)

    def counted_at(self: Size, limit: int) -> int:
        sized.append(limit)
        return at(self, limit)

    CountingCounter.asked = 0
    with monkeypatch.context() as patched:
        patched.setattr(Planning, "_compose", counted_compose)
        patched.setattr(Size, "at", counted_at)
        assert plan_context(plan)[1]["fits"]
    return len(composed), CountingCounter.asked, len(sized)


@pytest.mark.parametrize("words", [4, 40])
@pytest.mark.parametrize("window", [2000, 8000])
def test_the_work_grows_with_the_rounds_and_not_with_their_square(
    words: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (
        effort(tight(rounds, words, window=window, counter=CountingCounter()), monkeypatch)
        for rounds in (100, 400)
    )
    assert max(few[0], many[0]) <= 12
    assert many[1] <= 6 * few[1]
    assert many[2] <= 6 * few[2]


@pytest.mark.parametrize("can_fetch", [False, True])
@pytest.mark.parametrize("words", [1, 4, 40])
def test_rounds_of_earlier_turns_fill_the_room_that_there_is(words: int, *, can_fetch: bool) -> None:
    """What is left out is as little as it takes: the notice of a turn is counted once, stubs as stubs."""
    plan = tight(100, words, can_fetch=can_fetch)
    request, manifest = plan_context(plan)
    room = 2000 - 256 - 500  # the margin and the reply
    assert manifest["fits"]
    assert room - 120 <= sum(map(plan.counter.message, request)) <= room


VALUES = st.one_of(st.text(max_size=300), st.lists(st.integers(), max_size=60), st.integers())


@FUZZ
@given(st.dictionaries(st.text(max_size=30), VALUES, max_size=4))
def test_fewer_characters_never_show_more_of_arguments(args: dict[str, Any]) -> None:
    most = len(as_json(args)) + 2
    step = max(1, most // 60)
    sizes = [len(as_json(short_arguments(args, kept, NOTICE))) for kept in range(0, most, step)]
    assert all(less <= more + 12 for less, more in pairwise(sizes))  # digits, escapes


def test_arguments_that_stand_in_one_text_are_no_longer_than_their_texts_cut() -> None:
    args = {"query": "你好，请帮我查一下这个订单。" * 4, "more": list(range(8))}
    whole = len(as_json(args))
    sizes = [len(as_json(short_arguments(args, kept, NOTICE))) for kept in range(whole + 1)]
    assert sizes == sorted(sizes)
    assert sizes[0] < whole
