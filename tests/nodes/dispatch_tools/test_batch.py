"""Planning a reply's calls: which run and in what order, which wait for a person, why one is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnflow import ToolPolicy, TurnContext, TurnSettings
from turnflow.graph.batch import PlannedBatch, awaiting_approval, next_wave
from turnflow.graph.loop_guard import digest
from turnflow.graph.permissions import AskPermissions, Permission, PermissionPolicy
from turnflow.graph.similar import shortened
from turnflow.graph.tool_registry import ToolRegistry
from turnflow.nodes.dispatch_tools.ask_user import ask_user_tool
from turnflow.nodes.dispatch_tools.batch import call_key, permission_requests, plan_batch, read_batch
from turnflow.prompts import Prompts

PROMPTS = Prompts("en")
TURN = {"id": "turn-1", "session_id": "t1", "tool_calls": 0, "asks": 0}


def look(place: str = "here", depth: int = 1, _secret: str = "") -> str:
    """Look."""
    return f"{place} {depth}"


def write(text: str = "") -> str:
    """Write."""
    return text


def delete(path: str = "a", *, force: bool = False) -> str:
    """Delete."""
    return f"{path} {force}"


def send(text: str = "") -> str:
    """Send."""
    return text


def tag(names: list[str]) -> str:
    """Tag."""
    return ", ".join(names)


REGISTRY = ToolRegistry(
    [look, write, delete, send, tag, ask_user_tool(PROMPTS)],
    {
        "look": ToolPolicy(read_only=True, aliases=("peek",)),
        "tag": ToolPolicy(read_only=True),
        "write": ToolPolicy(parallel_safe=False),
        "delete": ToolPolicy(needs_approval=lambda args: args.get("path") != "tmp"),
        "send": ToolPolicy(needs_approval=True, parallel_safe=False),
    },
)

Call = tuple[str, str]


def ask(*questions: str) -> Call:
    return "ask_user", json.dumps({"questions": [{"prompt": question} for question in questions]})


def planned(
    *written: str | Call,
    policy: PermissionPolicy | None = None,
    turn: dict[str, Any] | None = None,
    asked: tuple[str, ...] = (),
    can_pause: bool = True,
    registry: ToolRegistry = REGISTRY,
    incomplete: tuple[str, ...] = (),
    **settings: Any,
) -> PlannedBatch:
    """The plan of these calls, names or names with arguments, with ids `c0`, `c1` and so on.

    Calls without arguments are each given their own, so that none repeats another.
    """
    calls = []
    for at, call in enumerate(written):
        name, arguments = (call, _own_arguments(call, at)) if isinstance(call, str) else call
        call_id = f"c{at}"
        complete = call_id not in incomplete
        calls.append({"id": call_id, "name": name, "arguments": arguments, "complete": complete})
    step = {"message_id": "m1", "calls": calls}
    turn = {**TURN, **(turn or {})}
    read = read_batch(step, turn, registry, TurnSettings(**settings), PROMPTS, asked=asked)
    requests = permission_requests(read, {}, TurnContext(user_id="ann"))
    said = AskPermissions(policy or PermissionPolicy(), list(requests.values())).call()
    return plan_batch(read, dict(zip(requests, said, strict=True)), PROMPTS, can_pause=can_pause)


def _own_arguments(name: str, at: int) -> str:
    if name == "ask_user":
        return ask(f"{at}?")[1]
    key = {"look": "place", "write": "text", "delete": "path", "send": "text"}.get(name.strip(), "text")
    return json.dumps({key: str(at)})


def waves(plan: PlannedBatch) -> list[int]:
    return [call["wave"] for call in plan.batch["calls"].values()]


def refusals(plan: PlannedBatch) -> dict[str, str]:
    return {result.tool_call_id: str(result.content) for result in plan.refusals}


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
    assert waves(planned(*names)) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("ask_user",), [0]),
        (("ask_user", "look"), [1, 0]),
        (("look", "ask_user", "write", "look"), [0, 3, 1, 2]),
    ],
)
def test_a_question_comes_last_and_alone(names: tuple[str, ...], expected: list[int]) -> None:
    assert waves(planned(*names)) == expected


@pytest.mark.parametrize(
    ("names", "expected", "approval"),
    [
        (("delete",), [1], 0),
        (("look", "delete"), [0, 2], 1),
        (("look", "delete", "look"), [0, 2, 2], 1),
        (("look", "write", "delete", "send", "look", "look"), [0, 1, 3, 4, 5, 5], 2),
        (("delete", "look", "delete"), [1, 1, 1], 0),
        (("ask_user", "delete", "look"), [2, 1, 1], 0),
        (("look", "ask_user", "send"), [0, 3, 2], 1),
    ],
)
def test_the_first_call_that_needs_approval_holds_up_what_is_behind_it(
    names: tuple[str, ...], expected: list[int], approval: int
) -> None:
    plan = planned(*names)
    assert waves(plan) == expected
    assert plan.batch["approval"] == {"wave": approval, "done": False}


def test_a_person_is_asked_once_everything_before_is_done() -> None:
    batch = planned("look", "delete", "look", "send", "ask_user").batch
    assert [call["id"] for call in next_wave(batch)] == ["c0"]
    assert awaiting_approval(batch) == []
    batch["calls"]["c0"]["done"] = True
    assert [call["id"] for call in awaiting_approval(batch)] == ["c1", "c3"]


def test_nobody_is_asked_where_the_arguments_are_harmless() -> None:
    plan = planned(("delete", '{"path": "tmp"}'))
    assert "approval" not in plan.batch
    assert "approval" not in plan.batch["calls"]["c0"]


def test_a_refused_call_takes_no_place_among_the_waves() -> None:
    plan = planned("look", "nonsense", "look")
    assert {call["id"]: call["wave"] for call in plan.batch["calls"].values()} == {"c0": 0, "c2": 0}
    assert list(refusals(plan)) == ["c1"]
    assert [call["id"] for call in plan.calls] == ["c0", "c1", "c2"]


def test_an_endless_name_is_refused_in_few_words() -> None:
    plan = planned("x" * 200_000)
    assert len(refusals(plan)["c0"]) < 1000
    assert len(plan.calls[0]["name"]) == 64


LOOK = '{"place": "there", "depth": 2}'


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({"written": ("nonsense",)}, ("c0", "There is no tool named 'nonsense'"), id="unknown"),
        pytest.param(
            {"written": ("look",), "registry": ToolRegistry()},
            ("c0", "no tools are available"),
            id="no tools",
        ),
        pytest.param({"written": (("look", '{"place": '),)}, ("c0", "could not be read ("), id="unparseable"),
        pytest.param(
            {"written": (("look", '{"place": 3}'),)},
            ("c0", "place: 3 is not of type string"),
            id="wrong type",
        ),
        pytest.param({"written": (("look", '{"x": 3}'),)}, ("c0", "x: is not known"), id="unknown key"),
        pytest.param(
            {"written": (("ask_user", '{"questions": []}'),)}, ("c0", "questions: [] is out of"), id="range"
        ),
        pytest.param({"written": (("ask_user", "{}"),)}, ("c0", "questions: is required"), id="absent"),
        pytest.param({"written": ("look",), "incomplete": ("c0",)}, ("c0", "it was cut off"), id="cut off"),
        pytest.param(
            {"written": (("look", LOOK), ("look", LOOK))}, ("c1", "The same call as c0"), id="duplicate"
        ),
        pytest.param(
            {"written": ("ask_user", "ask_user")}, ("c1", "asked once per reply (see c0)"), id="second"
        ),
        pytest.param(
            {"written": (ask("Which colour?"),), "asked": ("Which colour?",)},
            ("c0", "much like a question that was asked"),
            id="asked before",
        ),
        pytest.param(
            {"written": ("ask_user",), "turn": {"asks": 3}}, ("c0", "3 questions were asked"), id="asks"
        ),
        pytest.param(
            {"written": ("look", "look"), "max_calls_per_batch": 1},
            ("c1", "at most 1 calls of one reply"),
            id="batch limit",
        ),
        pytest.param(
            {"written": ("look",), "turn": {"tool_calls": 128}},
            ("c0", "at most 128 tool calls are run in a turn"),
            id="turn limit",
        ),
        pytest.param(
            {"written": ("look",), "policy": PermissionPolicy(deny=["look"])},
            ("c0", "Not run: it is not allowed (deny_list)."),
            id="denied",
        ),
        pytest.param(
            {
                "written": ("look",),
                "policy": PermissionPolicy(rules=[lambda _: Permission("deny", "hours", "it is night")]),
            },
            ("c0", "Not run: it is not allowed (hours): it is night"),
            id="denied because",
        ),
        pytest.param(
            {"written": ("delete",), "can_pause": False},
            ("c0", "nobody can be asked here"),
            id="nobody",
        ),
    ],
)
def test_a_refusal_says_why(written: dict[str, Any], expected: tuple[str, str]) -> None:
    fields = dict(written)
    plan = planned(*fields.pop("written"), **fields)
    call_id, text = expected
    assert list(refusals(plan)) == [call_id]
    assert text in refusals(plan)[call_id]
    assert call_id not in plan.batch["calls"]


def test_the_same_call_is_the_same_whatever_it_looks_like() -> None:
    plan = planned(
        ("look", '{"place": "there", "depth": 2}'),
        (" look ", '{"depth": 2, "place": "there"}'),
        ("peek", '```json\n{"depth": 2, "place": "there", "_secret": "x"}\n```'),
        ("look", "{'place': 'there', 'depth': 2}"),
        ("look", '{"place": "there", "depth": 3}'),
        ("write", '{"text": "there"}'),
    )
    assert list(plan.batch["calls"]) == ["c0", "c4", "c5"]
    assert set(refusals(plan).values()) == {"The same call as c0; its result stands there."}
    assert {result.status for result in plan.refusals} == {"success"}
    assert {call["name"] for call in plan.calls[:4]} == {"look"}


def test_what_only_the_host_may_set_does_not_reach_the_tool() -> None:
    plan = planned(("look", '{"place": "there", "_secret": "x"}'))
    assert plan.batch["calls"]["c0"]["args"] == {"place": "there"}
    assert plan.calls[0]["args"] == {"place": "there", "_secret": "x"}


def test_a_wrong_call_is_nobodys_primary() -> None:
    plan = planned(("look", '{"depth": "x"}'), ("look", '{"depth": "x"}'), ("look", '{"depth": 1}'))
    assert list(plan.batch["calls"]) == ["c2"]
    assert all("depth" in text for text in refusals(plan).values())


def test_repeats_do_not_count_against_a_limit() -> None:
    plan = planned(*[("look", LOOK)] * 40, "look", max_calls_per_batch=2)
    assert list(plan.batch["calls"]) == ["c0", "c40"]
    assert plan.turn["tool_calls"] == 2


def test_what_repeats_a_refused_call_has_failed_too() -> None:
    plan = planned(("look", LOOK), ("look", LOOK), policy=PermissionPolicy(deny=["look"]))
    assert [result.status for result in plan.refusals] == ["error", "error"]


@pytest.mark.parametrize(
    ("first", "asked"),
    [(("ask_user", "{}"), ()), (("ask_user", "nonsense"), ()), (ask("Which colour?"), ("Which colour?",))],
)
def test_a_question_that_is_not_put_does_not_block_the_next(first: Call, asked: tuple[str, ...]) -> None:
    plan = planned(first, ask("How long?"), asked=asked)
    assert list(plan.batch["calls"]) == ["c1"]
    assert plan.turn["asked"] == [*asked, "How long?"]
    assert plan.turn["asks"] == 1


def test_a_question_with_something_new_in_it_is_put() -> None:
    plan = planned(ask("Which colour?", "How long?"), asked=("Which colour?",))
    assert list(plan.batch["calls"]) == ["c0"]


def test_the_turn_remembers_questions_by_their_beginning() -> None:
    plan = planned(ask("x" * 2000), asked=("y",))
    assert plan.turn["asked"] == ["y", shortened("x" * 2000)]


def test_a_question_over_a_limit_is_not_remembered() -> None:
    plan = planned("look", "ask_user", max_calls_per_batch=1)
    assert plan.turn == {"tool_calls": 1, "asks": 0}


def test_the_batch_that_would_exceed_the_turn_ends_it() -> None:
    plan = planned("look", "write", "ask_user", turn={"tool_calls": 126})
    assert plan.batch["calls"] == {}
    assert plan.turn == {
        "tool_calls": 126,
        "asks": 0,
        "phase": "finish",
        "finish_cause": "call_limit",
    }
    assert "phase" not in planned("look", "write", turn={"tool_calls": 126}).turn


def test_calls_know_their_keys_and_what_allowed_them() -> None:
    plan = planned("look", "write", "delete", policy=PermissionPolicy(allow=["write"]))
    look_call, write_call, delete_call = plan.batch["calls"].values()
    assert look_call["key"] == call_key("look", {"place": "0"})
    assert "policy" not in look_call
    assert write_call["policy"] == "allow_list"
    assert delete_call["approval"] == "asked"
    assert {call_id: said.policy for call_id, said in plan.permissions.items()} == {
        "c0": "default",
        "c1": "allow_list",
        "c2": "tool_risk",
    }


def test_the_loop_guard_hears_of_refused_calls_but_not_of_repeats() -> None:
    wrong = '{"depth": "x"}'
    plan = planned(
        "look", ("look", '{"place": "0"}'), ("peek", wrong), "send", policy=PermissionPolicy(deny=["send"])
    )
    texts = refusals(plan)
    assert plan.batch["refused"] == [
        [digest(f"look\n{wrong}"), digest(texts["c2"])],
        [call_key("send", {"text": "3"}), digest(texts["c3"])],
    ]


def test_call_keys_are_short_and_do_not_depend_on_order() -> None:
    assert call_key("look", {"a": 1, "b": [2]}) == call_key("look", {"b": [2], "a": 1})
    assert (
        len(
            {
                call_key("look", {}),
                call_key("peek", {}),
                call_key("look", {"a": 1}),
                call_key("look", {"a": "1"}),
            }
        )
        == 4
    )
    assert len(call_key("look", {"a": "x" * 100_000})) == 12


def test_policies_are_asked_about_copies_of_what_could_run() -> None:
    tags = {"names": ["a"]}
    calls = [("tag", json.dumps(tags)), ("delete", "{}"), ask("Which?"), ("look", "nonsense")]
    step = {
        "message_id": "m1",
        "calls": [
            {"id": f"c{at}", "name": name, "arguments": arguments, "complete": True}
            for at, (name, arguments) in enumerate(calls)
        ],
    }
    turn = {**TURN, "uncertain": [call_key("tag", tags)]}
    read = read_batch(step, turn, REGISTRY, TurnSettings(), PROMPTS)
    context = TurnContext(user_id="ann")
    grants = {"tag": {"policy": "user", "turn_id": "turn-0"}}
    requests = permission_requests(read, grants, context)
    assert list(requests) == ["c0", "c1"]
    first, second = requests.values()
    assert (first.name, first.args, first.tool_call_id) == ("tag", tags, "c0")
    assert (first.session_id, first.turn_id, first.user_id) == ("t1", "turn-1", "ann")
    assert (first.read_only, first.needs_approval, first.uncertain) == (True, False, True)
    assert (second.read_only, second.needs_approval, second.uncertain) == (False, True, False)
    assert first.grants == grants
    assert first.context is context
    first.args["names"].append("b")
    plan = plan_batch(read, dict.fromkeys(requests, Permission("allow", "default")), PROMPTS, can_pause=True)
    assert plan.batch["calls"]["c0"]["args"] == tags


def test_a_call_that_nobody_decided_about_does_not_run() -> None:
    step = {"message_id": "m1", "calls": [{"id": "c0", "name": "look", "arguments": "", "complete": True}]}
    read = read_batch(step, TURN, REGISTRY, TurnSettings(), PROMPTS)
    with pytest.raises(KeyError):
        plan_batch(read, {}, PROMPTS, can_pause=True)
