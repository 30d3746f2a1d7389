"""The laws of a batch: each call is answered once, whatever the model writes and a person decides."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from turnflow import ToolPolicy, TurnSettings
from turnflow.graph.batch import Batch, BatchCall, PlannedBatch, awaiting_approval, next_wave
from turnflow.graph.permissions import Permission, Verdict
from turnflow.graph.tool_registry import ToolRegistry
from turnflow.nodes.dispatch_tools.approval import decision_schema, in_review, review_requests, settle
from turnflow.nodes.dispatch_tools.ask_user import ask_user_tool
from turnflow.nodes.dispatch_tools.batch import ReadBatch, plan_batch, read_batch
from turnflow.prompts import Prompts

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "400")), deadline=None)

PROMPTS = Prompts("en")


def look(a: int = 0, b: int = 0) -> int:
    """Look."""
    return a + b


def write(a: int = 0, b: int = 0) -> int:
    """Write."""
    return a + b


def send(a: int = 0, b: int = 0) -> int:
    """Send."""
    return a + b


REGISTRY = ToolRegistry(
    [look, write, send, ask_user_tool(PROMPTS)],
    {
        "look": ToolPolicy(aliases=("peek",)),
        "write": ToolPolicy(parallel_safe=False),
        "send": ToolPolicy(review=("approve", "reject")),
    },
)

NAMES = st.sampled_from(["look", " look", "peek", "write", "send", "nonsense", "", "x" * 70])
ARGUMENTS = st.sampled_from(
    [
        "",
        "{}",
        '{"a": 1, "b": 2}',
        '{"b": 2, "a": 1}',
        '{"a": 1, "_x": 3}',
        '{"a": "x"}',
        '{"c": 1}',
        '{"a": ',
        "[]",
    ]
)
QUESTIONS = st.sampled_from(
    [
        '{"questions": [{"prompt": "Which?"}]}',
        '{"questions": [{"prompt": "Why?"}, {"prompt": "When?"}]}',
        '{"questions": []}',
        "nonsense",
    ]
)
WRITTEN = st.one_of(st.tuples(NAMES, ARGUMENTS), st.tuples(st.just("ask_user"), QUESTIONS))
CALLS = st.lists(st.tuples(WRITTEN, st.integers(0, 9).map(bool)), max_size=12)
LIMITS = st.builds(
    TurnSettings,
    max_calls_per_batch=st.integers(1, 12),
    max_tool_calls=st.sampled_from([128, 128, 128, 12, 8]),
    max_asks=st.integers(0, 3),
)
TURNS = st.fixed_dictionaries(
    {"id": st.just("turn-1"), "tool_calls": st.integers(0, 6), "asks": st.integers(0, 2)}
)
ASKED = st.lists(st.sampled_from(["Which?", "Why?", "When?"]), max_size=2)
VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(("allow", "allow", "ask", "deny"))


@st.composite
def reads(draw: st.DrawFn) -> ReadBatch:
    """A reply of good and bad calls, read."""
    calls = [
        {"id": f"c{at}", "name": name, "arguments": arguments, "complete": complete}
        for at, ((name, arguments), complete) in enumerate(draw(CALLS))
    ]
    step = {"message_id": "m1", "calls": calls}
    return read_batch(step, draw(TURNS), REGISTRY, draw(LIMITS), PROMPTS, asked=draw(ASKED))


@st.composite
def plans(draw: st.DrawFn) -> tuple[ReadBatch, PlannedBatch]:
    """A reply, and what becomes of it under any permissions."""
    read = draw(reads())
    permissions = {call.id: Permission(draw(VERDICTS), "rules") for call in read.in_question}
    return read, plan_batch(read, permissions, PROMPTS, can_pause=draw(st.booleans()))


def is_alone(call: BatchCall) -> bool:
    return call["asks"] or call["name"] == "write"


def check_waves(calls: list[BatchCall]) -> None:
    """The order of calls that run, whoever planned them."""
    waves = [call["wave"] for call in calls]
    for call in calls:
        if is_alone(call):
            assert waves.count(call["wave"]) == 1
    tools = [call["wave"] for call in calls if not call["asks"]]
    assert tools == sorted(tools)
    for call in calls:
        if call["asks"]:
            assert call["wave"] == max(waves)


@FUZZ
@given(plan=plans())
def test_each_call_runs_or_is_refused_once(plan: tuple[ReadBatch, PlannedBatch]) -> None:
    read, planned = plan
    ids = [call.id for call in read.calls]
    runs, refused = list(planned.batch["calls"]), [result.tool_call_id for result in planned.refusals]
    assert [call["id"] for call in planned.calls] == ids
    assert sorted([*runs, *refused]) == sorted(ids)
    assert [call_id for call_id in ids if call_id in runs] == runs
    assert [call_id for call_id in ids if call_id in refused] == refused
    assert all(str(result.content).strip() for result in planned.refusals)
    assert len({result.id for result in planned.refusals}) == len(refused)


@FUZZ
@given(plan=plans())
def test_a_repeat_names_an_earlier_call_that_repeats_nothing(plan: tuple[ReadBatch, PlannedBatch]) -> None:
    read, planned = plan
    by_id = {call.id: call for call in read.calls}
    results = {result.tool_call_id: result for result in planned.refusals}
    order = list(by_id)
    for call in read.calls:
        if not call.primary:
            continue
        primary = by_id[call.primary]
        assert not primary.primary
        assert order.index(primary.id) < order.index(call.id)
        assert primary.asks == call.asks
        assert call.asks or (primary.name, primary.args) == (call.name, call.args)
        assert primary.id in str(results[call.id].content)
        is_shared = primary.id in planned.batch["calls"] and not call.asks
        assert results[call.id].status == ("success" if is_shared else "error")


@FUZZ
@given(plan=plans())
def test_nothing_runs_twice_nor_against_a_limit_or_a_policy(plan: tuple[ReadBatch, PlannedBatch]) -> None:
    read, planned = plan
    calls = list(planned.batch["calls"].values())
    assert len({(call["name"], json.dumps(call["args"], sort_keys=True)) for call in calls}) == len(calls)
    assert sum(call["asks"] for call in calls) <= 1
    for call in calls:
        assert call["asks"] or planned.permissions[call["id"]].verdict != "deny"
        assert REGISTRY.find(call["name"])
        assert not any(name.startswith("_") for name in call["args"])
    assert planned.turn["tool_calls"] == read.turn["tool_calls"] + len(calls)
    assert planned.turn["asks"] == read.turn["asks"] + sum(call["asks"] for call in calls)


@FUZZ
@given(plan=plans())
def test_the_loop_guard_hears_of_each_refused_call_but_repeats(plan: tuple[ReadBatch, PlannedBatch]) -> None:
    read, planned = plan
    refused = [c.id for c in read.calls if c.id not in planned.batch["calls"] and not c.primary]
    entries = planned.batch.get("refused", [])
    assert len(entries) == len(refused)
    assert all(len(key) == len(result) == 12 for key, result in entries)


@FUZZ
@given(plan=plans())
def test_waves_keep_the_order_and_wait_for_a_person(plan: tuple[ReadBatch, PlannedBatch]) -> None:
    _, planned = plan
    calls = list(planned.batch["calls"].values())
    check_waves(calls)
    asked = [call for call in calls if call.get("approval") == "asked"]
    if not asked:
        assert "approval" not in planned.batch
        assert sorted({call["wave"] for call in calls}) == list(range(len({call["wave"] for call in calls})))
        return
    wave = planned.batch["approval"]["wave"]
    first = calls.index(asked[0])
    assert all(call["wave"] < wave for call in calls[:first] if not call["asks"])
    assert all(call["wave"] > wave for call in calls[first:] if not call["asks"])
    assert all(call["wave"] > wave for call in calls if call["asks"])


DECISIONS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "approve"},
        {"type": "approve", "scope": "session"},
        {"type": "reject"},
        {"type": "reject", "message": "No."},
        {"type": "respond", "message": "It is done."},
        {"type": "edit", "edited_action": {"name": "peek", "args": {"a": 5}}},
        {"type": "edit", "edited_action": {"name": "write", "args": {"a": 1, "b": 2}}},
        {"type": "edit", "edited_action": {"name": "send", "args": {}}},
    ]
)


def run(batch: Batch, data: st.DataObject) -> dict[str, list[str]]:
    """How each call of a batch ends, when everything that comes next is done until nothing is left."""
    ends: dict[str, list[str]] = {call_id: [] for call_id in batch["calls"]}
    while wave := next_wave(batch):
        if not awaiting_approval(batch):
            check_waves([call for call in batch["calls"].values() if not call["done"]])
            for call in wave:
                assert call.get("approval") != "asked"
                ends[call["id"]].append("ran")
                call["done"] = True
            continue
        waiting = [call for call in batch["calls"].values() if not call["done"]]
        decide(batch, waiting, data, ends)
    return ends


def decide(batch: Batch, waiting: list[BatchCall], data: st.DataObject, ends: dict[str, list[str]]) -> None:
    """A person decides somehow."""
    may_not_edit = [call["name"] == "send" for call in in_review(waiting)]
    decisions: list[dict[str, Any]] = []
    for strict in may_not_edit:
        allowed = (
            DECISIONS.filter(lambda said: said["type"] in {"approve", "reject"}) if strict else DECISIONS
        )
        decisions.append(data.draw(allowed))
    given_ = {"decisions": decisions}
    decisions = TypeAdapter(decision_schema(waiting, REGISTRY)).validate_python(given_)["decisions"]
    requests = review_requests(waiting, decisions, REGISTRY, {"id": "turn-1"}, {}, None)
    permissions = {call_id: Permission(data.draw(VERDICTS), "rules") for call_id in requests}
    after = settle(
        waiting, decisions, REGISTRY, PROMPTS, permissions=permissions, turn_id="turn-1", max_chars=1000
    )
    by_id = dict(zip((call["id"] for call in in_review(waiting)), decisions, strict=True))
    rejected = [call["id"] for call in waiting if by_id.get(call["id"], {}).get("type") == "reject"]
    ids = [call["id"] for call in waiting]
    for call in waiting:
        is_behind = bool(rejected) and ids.index(call["id"]) > ids.index(rejected[0])
        decision = by_id.get(call["id"])
        if decision is None:
            assert (call["id"] in after.results) == is_behind
        elif decision["type"] == "approve":
            assert call["id"] not in after.results
        elif decision["type"] in {"reject", "respond"}:
            assert call["id"] in after.results
        elif call["id"] in after.results:
            assert permissions[call["id"]].verdict == "deny"
    assert [call_id for call_id in ids if call_id in after.results] == list(after.results)
    assert json.loads(json.dumps(after.calls)) == after.calls
    for call_id in after.results:
        ends[call_id].append("answered")
    for call_id, fields in after.calls.items():
        batch["calls"][call_id].update(fields)  # type: ignore[typeddict-item]  # as `merge_batch` does
    batch["approval"]["done"] = True


@FUZZ
@given(plan=plans(), data=st.data())
def test_whatever_a_person_decides_each_call_ends_once(
    plan: tuple[ReadBatch, PlannedBatch], data: st.DataObject
) -> None:
    _, planned = plan
    ends = run(planned.batch, data)
    assert all(len(end) == 1 for end in ends.values())
    assert all(call["done"] for call in planned.batch["calls"].values())
