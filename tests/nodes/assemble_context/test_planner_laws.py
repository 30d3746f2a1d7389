"""The laws of the planner, over generated histories: it fits, is balanced, and more budget shows no less."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.nodes.assemble_context.histories import FORMS, History, Writer, plan_of, tool_definition
from tests.nodes.assemble_context.test_planner import check_strict
from turnflow import PlanInput, plan_context
from turnflow.graph.budget import budget_of
from turnflow.graph.content import iter_text
from turnflow.graph.strict_projection import project
from turnflow.graph.tokens import EstimatedCounter
from turnflow.nodes.assemble_context import planner as planner_module
from turnflow.nodes.assemble_context import style as style_module
from turnflow.nodes.assemble_context.manifest import Manifest, explain, is_shown
from turnflow.nodes.assemble_context.written import written

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "200")), deadline=None)
SEEDS = st.integers(0, 10**9)
TURNS = st.integers(1, 14)
WINDOWS = st.one_of(st.integers(256, 3000), st.integers(256, 40_000), st.none())
WHOLE = {"current", "protected", "recent", "pinned"}


def text_of(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return "".join(iter_text(message.content)) + json.dumps(calls, ensure_ascii=False)


def check_budget(plan: PlanInput, request: list[BaseMessage], manifest: Manifest) -> None:
    tools = plan.counter.tools(plan.tool_definitions)
    taken = sum(map(plan.counter.message, request)) + tools
    assert manifest["tokens"] == taken == sum(manifest["segments"].values())
    assert min(manifest["segments"].values()) >= 0
    budget = budget_of(plan.window, plan.max_output, tools)
    assert (manifest["window"], manifest["usable"]) == (plan.window, budget.usable)
    if budget.usable is None:
        assert manifest["fits"]
        return
    assert manifest["fits"] == (taken + budget.reserved <= budget.usable)
    if plan.max_output is None:
        assert manifest["max_output"] is None
    else:
        assert manifest["max_output"] is not None
        assert budget.reserved <= manifest["max_output"] <= plan.max_output
        assert not manifest["fits"] or taken + manifest["max_output"] <= budget.usable


def check_reasons(plan: PlanInput, history: History, request: list[BaseMessage], manifest: Manifest) -> None:
    reasons = explain(manifest, history.messages)
    assert [message_id for message_id, _ in reasons] == [message.id for message in history.messages]
    said = "\n".join(text_of(message) for message in request)
    surviving = {message.id for message in request}
    for message_id, reason in reasons:
        mark = history.marks.get(message_id)
        if reason in WHOLE and mark:
            assert f"{mark} " in said, (message_id, reason)
        if not is_shown(reason):
            assert not mark or f"{mark} " not in said, (message_id, reason)
            assert message_id not in surviving, (message_id, reason)


def check_input(history: History, request: list[BaseMessage], manifest: Manifest) -> None:
    """The user's current message is there, and no other of the user's behind it."""
    input_id = history.input_ids[-1]
    assert dict(explain(manifest, history.messages))[input_id] in {"current", "shortened"}
    mark = history.marks[input_id]
    at = [index for index, message in enumerate(request) if f"{mark} " in text_of(message)]
    assert len(at) == 1
    assert isinstance(request[at[0]], HumanMessage)
    behind = "".join(text_of(message) for message in request[at[0] + 1 :])
    assert not [each for each in history.input_ids[:-1] if f"{history.marks[each]} " in behind]


@FUZZ
@given(SEEDS, TURNS, WINDOWS)
def test_a_request_fits_is_strict_and_says_why(seed: int, turns: int, window: int | None) -> None:
    plan, history = plan_of(seed, turns, window)
    request, manifest = plan_context(plan)
    check_strict(request)
    check_budget(plan, request, manifest)
    check_reasons(plan, history, request, manifest)
    check_input(history, request, manifest)
    assert json.loads(json.dumps(manifest)) == manifest
    assert isinstance(request[0], SystemMessage)
    assert text_of(request[0]).startswith(plan.system.strip())
    assert "Do so." in text_of(request[-1]) or "Do so." in str(request) or not plan.directives


@FUZZ
@given(SEEDS, TURNS, WINDOWS)
def test_the_same_history_gives_the_same_request(seed: int, turns: int, window: int | None) -> None:
    plan, _ = plan_of(seed, turns, window)
    first = plan_context(plan)
    assert plan_context(plan) == first
    assert plan_context(replace(plan, messages=copy.deepcopy(plan.messages))) == first


@FUZZ
@given(SEEDS, TURNS)
def test_without_a_limit_the_request_is_the_whole_transcript(seed: int, turns: int) -> None:
    plan, _ = plan_of(
        seed,
        turns,
        None,
        recent_turns=None,
        anchor=None,
        contributions=[],
        recalled=[],
        directives=[],
        folds=[],
    )
    request, manifest = plan_context(plan)
    whole = project(
        [SystemMessage(plan.system), *written(plan.messages, plan.form, plan.wording)], plan.wording.fillers
    )
    assert request[: len(whole)] == whole
    assert [m.content for m in request[len(whole) :]] in ([], [plan.wording.fillers.go_on])
    assert manifest["fill"] == 0.0


def state_of(plan: PlanInput) -> tuple[dict[str, int], int, set[str]]:
    """How much of each message is shown: characters of those that are cut, and the extras that are shown."""
    tools = plan.counter.tools(plan.tool_definitions)
    planning = planner_module._planning(plan)
    composed, _ = planning.solve(budget_of(plan.window, plan.max_output, tools).room)
    _, manifest = plan_context(plan)
    shown: dict[str, int] = {}
    for at, (message_id, reason) in enumerate(explain(manifest, plan.messages)):
        if reason in WHOLE or reason == "empty":
            shown[message_id] = 10**9
        elif reason == "shortened":
            shown[message_id] = len(text_of(composed.changed[at][1]))
        elif reason == "stubbed":
            shown[message_id] = 10**8
        else:
            shown[message_id] = -1
    extras = {each["key"] for each in manifest["recalled"]}
    extras |= {each["name"] for each in manifest["contributions"] if each["shown"] != "left_out"}
    return shown, manifest["max_output"] or 0, extras


@FUZZ
@given(SEEDS, TURNS, st.lists(st.integers(256, 20_000), min_size=2, max_size=4))
def test_more_budget_never_shows_less(seed: int, turns: int, windows: list[int]) -> None:
    plan, _ = plan_of(seed, turns, None)
    states = [state_of(replace(plan, window=window)) for window in sorted(windows)]
    for (less, _, few), (more, _, many) in pairwise(states):
        assert few <= many
        for message_id, kept in less.items():
            assert more[message_id] >= kept - 12, message_id  # the notice of a cut says numbers


def test_more_budget_never_shows_less_step_by_step() -> None:
    history = Writer(7).write(4, last_rounds=9)
    plan = PlanInput(messages=history.messages, system="S", can_fetch=True, max_output=500)
    before: dict[str, int] = {}
    for window in range(300, 12_000, 97):
        shown, _, _ = state_of(replace(plan, window=window))
        assert all(shown[each] >= kept - 12 for each, kept in before.items()), window
        before = shown


def test_the_room_for_history_only_grows_with_the_window() -> None:
    for requested in (None, 1, 100, 700, 4000, 5000, 40_000):
        rooms = [budget_of(window, requested, 50).room for window in range(1, 70_000)]
        assert all(a <= b for a, b in pairwise(rooms)), requested  # type: ignore[operator]


def test_a_turn_of_sixty_rounds_keeps_the_question_in_every_request() -> None:
    messages: list[BaseMessage] = [HumanMessage("What does it all say? k-input", id="u")]
    for number in range(60):
        call: Any = {"id": f"c{number}", "name": "look_up", "args": {"n": number}, "type": "tool_call"}
        messages += [AIMessage("", id=f"a{number}", tool_calls=[call])]
        messages += project([messages[0], messages[-1], _result(number)])[2:]
        for can_fetch in (False, True):
            plan = PlanInput(
                messages=messages,
                system="S",
                window=8000,
                can_fetch=can_fetch,
                tool_definitions=[tool_definition()],
            )
            request, manifest = plan_context(plan)
            assert manifest["fits"]
            check_budget(plan, request, manifest)
            check_strict(request)
            assert "k-input" in text_of(request[1])
            assert explain(manifest, messages)[-1] == (f"t{number}", "current")
            assert len(json.dumps(manifest)) < 12_000


def _result(number: int) -> Any:
    return ToolMessage(
        f"{number} " + "found text " * 150, tool_call_id=f"c{number}", id=f"t{number}", name="look_up"
    )


class CountingCounter(EstimatedCounter):
    """Counts how often it is asked."""

    asked = 0

    def message(self, message: BaseMessage) -> int:
        CountingCounter.asked += 1
        return super().message(message)


@pytest.mark.parametrize("form", [0, 2])
def test_ten_thousand_messages_are_counted_once_and_only_what_is_kept_is_written(
    form: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = Writer(3, is_odd=False).write(2600, rounds=4)
    assert len(history.messages) >= 10_000
    seen: list[int] = []

    def counted(messages: Any, *args: Any) -> Any:
        seen.append(len(messages))
        return written(messages, *args)

    monkeypatch.setattr(style_module, "written", counted)
    plan = PlanInput(
        messages=history.messages, system="S", window=16_000, form=FORMS[form], counter=CountingCounter()
    )
    CountingCounter.asked = 0
    request, manifest = plan_context(plan)
    shown = sum(part["count"] for part in manifest["ranges"] if is_shown(part["reason"]))
    assert manifest["fits"]
    assert 20 < shown < 1000
    assert sum(seen) < 4 * shown + 100
    assert CountingCounter.asked < len(history.messages) + 6 * shown + 200
    check_strict(request)
    check_reasons(plan, history, request, manifest)
    seen.clear()
    assert plan_context(plan)[0] == request
    assert sum(seen) < 100  # what did not change is not written again


@pytest.mark.parametrize("seed", range(6))
def test_long_histories_obey_the_same_laws(seed: int) -> None:
    plan, history = plan_of(seed, 600, 30_000 + 20_000 * seed)
    request, manifest = plan_context(plan)
    check_strict(request)
    check_budget(plan, request, manifest)
    check_reasons(plan, history, request, manifest)
    check_input(history, request, manifest)


def test_the_manifest_does_not_grow_with_the_conversation() -> None:
    sizes = []
    for turns in (100, 1000):
        history = Writer(5, is_odd=False).write(turns)
        plan = PlanInput(messages=history.messages, window=8000, recent_turns=10)
        sizes.append(len(json.dumps(plan_context(plan)[1])))
    assert abs(sizes[1] - sizes[0]) < 300
