"""Approvals: what a person is shown, which answers are taken, and what follows from them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import is_invalid_resume
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from turnflow import ToolPolicy
from turnflow.graph.batch import BatchCall
from turnflow.graph.permissions import Permission
from turnflow.graph.similar import shortened
from turnflow.graph.tool_registry import ToolRegistry
from turnflow.nodes.dispatch_tools.approval import (
    Settled,
    approval_value,
    decision_schema,
    review_requests,
    settle,
)
from turnflow.nodes.dispatch_tools.ask_user import ask_user_tool
from turnflow.nodes.dispatch_tools.batch import call_key
from turnflow.prompts import Prompts

PROMPTS = Prompts("en")


def look(place: str = "here") -> str:
    """Look."""
    return place


def write(text: str, copies: int = 1) -> str:
    """Write a text."""
    return text * copies


def delete(path: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Delete a file."""
    return f"{path} {state}"


REGISTRY = ToolRegistry(
    [look, write, delete, ask_user_tool(PROMPTS)],
    {
        "look": ToolPolicy(aliases=("peek",)),
        "write": ToolPolicy(parallel_safe=False),
        "delete": ToolPolicy(needs_approval=True, review=("approve", "reject")),
    },
)
QUESTION = {"questions": [{"prompt": "Which colour?"}, {"prompt": "x" * 2000}]}


def fingerprint(name: str) -> str:
    tool = REGISTRY.find(name)
    assert tool
    return tool.fingerprint


def waiting(*written: str, first: int = 3) -> list[BatchCall]:
    """Calls `c0`, `c1` and so on, from a wave on; those with a `?` are in review."""
    calls: list[BatchCall] = []
    args: dict[str, dict[str, Any]] = {
        "look": {"place": "a"},
        "write": {"text": "a"},
        "delete": {"path": "a"},
        "ask_user": QUESTION,
    }
    for at, item in enumerate(written):
        name = item.removesuffix("?")
        call: BatchCall = {
            "id": f"c{at}",
            "name": name,
            "args": args[name],
            "wave": first + at,
            "asks": name == "ask_user",
            "done": False,
            "key": call_key(name, args[name]),
        }
        if item.endswith("?"):
            call["approval"] = "asked"
            call["tool"] = fingerprint(name)
        calls.append(call)
    return calls


APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}
RESPOND = {"type": "respond", "message": "It is done."}


def edit(name: str = "look", **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def answered(calls: list[BatchCall], *decisions: dict[str, Any]) -> list[dict[str, Any]]:
    """The decisions as `interrupt` gives them."""
    schema = TypeAdapter(decision_schema(calls, REGISTRY))
    return schema.validate_python({"decisions": list(decisions)})["decisions"]  # type: ignore[no-any-return]


def settled(
    calls: list[BatchCall], *decisions: dict[str, Any], deny: tuple[str, ...] = (), max_chars: int = 1000
) -> Settled:
    given = answered(calls, *decisions)
    requests = review_requests(calls, given, REGISTRY, {"id": "turn-1"}, {}, None)
    permissions = {
        call_id: Permission("deny", "rules", "not today")
        if asked.name in deny
        else Permission("ask", "rules")
        for call_id, asked in requests.items()
    }
    return settle(
        calls,
        given,
        REGISTRY,
        PROMPTS,
        permissions=permissions,
        turn_id="turn-1",
        max_chars=max_chars,
    )


def ends(after: Settled) -> dict[str, tuple[str, bool, str]]:
    return {
        call_id: (end.status, end.rendered.ok, str(end.rendered.content))
        for call_id, end in after.results.items()
    }


# What is shown.


def test_front_ends_find_what_they_draw() -> None:
    value = approval_value(waiting("write?", "look", "delete?"), REGISTRY, PROMPTS)
    TypeAdapter(HITLRequest).validate_python(value)
    assert value["type"] == "approval"
    assert [action["tool_call_id"] for action in value["action_requests"]] == ["c0", "c2"]
    assert value["action_requests"][0]["name"] == "write"
    assert value["action_requests"][0]["args"] == {"text": "a"}
    assert value["review_configs"] == [
        {"action_name": "write", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
        {"action_name": "delete", "allowed_decisions": ["approve", "reject"]},
    ]
    assert json.loads(json.dumps(value)) == value


def test_arguments_are_shown_whole_and_described_in_a_line() -> None:
    calls = waiting("write?")
    calls[0]["args"] = {"text": "a\n" * 50_000}
    calls[0]["reason"] = "It is night."
    (action,) = approval_value(calls, REGISTRY, PROMPTS)["action_requests"]
    assert action["args"] == {"text": "a\n" * 50_000}
    shown, about, reason = action["description"].split("\n\n")
    assert shown.startswith('write({"text": "a\\na\\n')
    assert len(shown) < 600
    assert (about, reason) == ("Write a text.", "It is night.")


def test_a_tool_that_is_gone_is_shown_all_the_same() -> None:
    value = approval_value(waiting("write?"), ToolRegistry(), PROMPTS)
    assert value["action_requests"][0]["description"] == 'write({"text": "a"})'
    assert len(value["review_configs"][0]["allowed_decisions"]) == 4


# Which answers are taken.


@pytest.mark.parametrize(
    "decision",
    [
        APPROVE,
        {**APPROVE, "scope": "once"},
        {**APPROVE, "scope": "session"},
        REJECT,
        {**REJECT, "message": "No."},
        RESPOND,
        {**RESPOND, "message": ""},
        edit("write", text="b", copies=3),
        edit("look"),
        edit("delete", path="b"),
    ],
    ids=str,
)
def test_a_decision_that_fits_comes_as_it_is(decision: dict[str, Any]) -> None:
    assert answered(waiting("write?"), decision) == [decision]


def test_an_edit_comes_under_the_tools_own_name() -> None:
    assert answered(waiting("write?"), edit(" peek ", place="b")) == [edit("look", place="b")]


EDITED = "decisions.0.edit.edited_action"
CYCLE: dict[str, Any] = {}
CYCLE["text"] = CYCLE


@pytest.mark.parametrize(
    ("answer", "place", "says"),
    [
        ({"decisions": []}, "decisions", "a list of 2, one for each action in order; this is 0"),
        ({"decisions": [APPROVE]}, "decisions", "a list of 2"),
        ({"decisions": [APPROVE] * 3}, "decisions", "this is 3"),
        ({"decisions": APPROVE}, "decisions", "a list of 2"),
        ({"decisions": "approve"}, "decisions", "this is 'approve'"),
        ({}, "decisions", "required"),
        ("yes", "", "dictionary"),
        ({"decisions": [APPROVE, REJECT], "scope": "session"}, "scope", "not permit"),
        ({"decisions": ["approve", REJECT]}, "decisions.0", "dictionary"),
        ({"decisions": [{}, REJECT]}, "decisions.0", "'type'"),
        ({"decisions": [{"type": "yes"}, REJECT]}, "decisions.0", "'approve', 'edit', 'reject', 'respond'"),
        ({"decisions": [APPROVE, RESPOND]}, "decisions.1", "'approve', 'reject'"),
        ({"decisions": [APPROVE, edit("delete", path="b")]}, "decisions.1", "'approve', 'reject'"),
        ({"decisions": [{**APPROVE, "scope": "ever"}, REJECT]}, "decisions.0.approve.scope", "or 'session'"),
        ({"decisions": [{**REJECT, "scope": "session"}, REJECT]}, "decisions.0.reject.scope", "not permit"),
        ({"decisions": [{**RESPOND, "scope": "once"}, REJECT]}, "decisions.0.respond.scope", "not permit"),
        ({"decisions": [{**edit("look"), "scope": "once"}, REJECT]}, "decisions.0.edit.scope", "not permit"),
        ({"decisions": [{"type": "respond"}, REJECT]}, "decisions.0.respond.message", "required"),
        ({"decisions": [{**REJECT, "message": 3}, REJECT]}, "decisions.0.reject.message", "string"),
        ({"decisions": [{"type": "edit"}, REJECT]}, EDITED, "required"),
        (
            {"decisions": [edit("ask_user", questions=[{"prompt": "Why?"}]), REJECT]},
            EDITED,
            "name: no tool 'ask_user' can be called; accepted: look, write, delete",
        ),
        ({"decisions": [edit("rm"), REJECT]}, EDITED, "accepted: look, write, delete"),
        (
            {"decisions": [edit("write", text=3, size=1), REJECT]},
            EDITED,
            "args: text: 3 is not of type string; size: is not known; accepted: text, copies",
        ),
        ({"decisions": [edit("write"), REJECT]}, EDITED, "text: is required; accepted: string"),
        (
            {"decisions": [edit("write", text="a", _id=1), REJECT]},
            EDITED,
            "'_id' is set by the host alone; leave it out",
        ),
        (
            {"decisions": [edit("delete", path="a", state={}), REJECT]},
            EDITED,
            "'state' is set by the host alone",
        ),
        ({"decisions": [edit("write", text={1, 2}), REJECT]}, EDITED, "plain JSON"),
        ({"decisions": [edit("write", **CYCLE), REJECT]}, EDITED, "plain JSON"),
        ({"decisions": [edit("write", text=float("nan")), REJECT]}, EDITED, "NaN"),
        ({"decisions": [edit("write", text="\ud83d"), REJECT]}, EDITED, "surrogate"),
    ],
)
def test_a_wrong_answer_is_refused_with_the_place_and_what_would_be_right(
    answer: object, place: str, says: str
) -> None:
    schema = TypeAdapter(decision_schema(waiting("write?", "delete?"), REGISTRY))
    with pytest.raises(ValidationError) as caught:
        schema.validate_python(answer)
    (problem,) = caught.value.errors()
    assert ".".join(str(part) for part in problem["loc"]) == place
    assert says in problem["msg"]


def test_a_tool_that_allows_one_decision_takes_that_one() -> None:
    registry = ToolRegistry([write], {"write": {"review": ("approve",)}})
    schema = TypeAdapter(decision_schema(waiting("write?"), registry))
    assert schema.validate_python({"decisions": [APPROVE]}) == {"decisions": [APPROVE]}
    with pytest.raises(ValidationError):
        schema.validate_python({"decisions": [REJECT]})


class Chat(TypedDict, total=False):
    decisions: list[dict[str, Any]]


def test_langgraph_publishes_the_schema_and_lets_a_wrong_answer_be_given_again() -> None:
    calls = waiting("write?", "delete?")

    def node(state: Chat) -> Chat:
        value = approval_value(calls, REGISTRY, PROMPTS)
        return {"decisions": interrupt(value, response_schema=decision_schema(calls, REGISTRY))["decisions"]}

    graph = StateGraph(Chat).add_node(node).add_edge(START, "node").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    (question,) = graph.invoke({}, config)["__interrupt__"]
    schema = question.response_schema
    Draft202012Validator.check_schema(schema)
    judge = Draft202012Validator(schema)
    assert judge.is_valid({"decisions": [{**APPROVE, "scope": "session"}, REJECT]})
    assert judge.is_valid({"decisions": [edit("write", text="b"), REJECT]})
    assert not judge.is_valid({"decisions": [APPROVE]})
    assert not judge.is_valid({"decisions": [APPROVE, RESPOND]})
    assert not judge.is_valid({"decisions": [{**REJECT, "scope": "session"}, REJECT]})
    with pytest.raises(ValidationError) as caught:
        graph.invoke(Command(resume={"decisions": [edit("rm"), REJECT]}), config)
    assert is_invalid_resume(caught.value)
    answer = {"decisions": [edit("peek", place="b"), REJECT]}
    after = graph.invoke(Command(resume=answer), config)
    assert after["decisions"] == [edit("look", place="b"), REJECT]


# What follows.


def test_what_is_approved_runs() -> None:
    after = settled(waiting("delete?", "look", "delete?"), APPROVE, {**APPROVE, "scope": "once"})
    assert after.results == {}
    assert after.grants == {}
    assert [after.calls[call_id]["approval"] for call_id in ("c0", "c2")] == ["approved", "approved"]


def test_an_approval_for_the_session_is_a_grant() -> None:
    session = {**APPROVE, "scope": "session"}
    after = settled(waiting("delete?", "write?", "look?"), session, APPROVE, session)
    granted = {"policy": "user", "turn_id": "turn-1"}
    assert after.grants == {name: {**granted, "tool": fingerprint(name)} for name in ("delete", "look")}


@pytest.mark.parametrize(
    ("decision", "end"),
    [
        (REJECT, ("rejected", False, PROMPTS.text("result", "rejected"))),
        ({**REJECT, "message": " \n"}, ("rejected", False, PROMPTS.text("result", "rejected"))),
        (
            {**REJECT, "message": " Not {now}. "},
            ("rejected", False, "Not run: the user rejected the call and says: Not {now}."),
        ),
        (RESPOND, ("ok", True, "It is done.")),
        ({**RESPOND, "message": " "}, ("ok", True, PROMPTS.text("result", "empty"))),
        (
            {**REJECT, "message": "\ud83d\ude42"},
            ("rejected", False, "Not run: the user rejected the call and says: 🙂"),
        ),
    ],
)
def test_a_call_that_a_person_settles_does_not_run(
    decision: dict[str, Any], end: tuple[str, bool, str]
) -> None:
    after = settled(waiting("write?"), decision)
    assert ends(after) == {"c0": end}
    assert after.calls == {"c0": {"done": True, "args": {}}}


def test_long_answers_of_a_person_are_bounded() -> None:
    after = settled(
        waiting("write?", "write?"), {**RESPOND, "message": "a" * 9999}, {**REJECT, "message": "a" * 9999}
    )
    assert all(len(text) < 2200 for _, _, text in ends(after).values())


def test_what_stands_behind_a_rejected_call_does_not_run_unless_it_was_let_through() -> None:
    calls = waiting("ask_user", "delete?", "look", "write?", "write?", "look", "write?", "delete?", "look")
    after = settled(calls, APPROVE, REJECT, APPROVE, edit("look", place="b"), {**REJECT, "message": "No."})
    assert {call_id: status for call_id, (status, _, _) in ends(after).items()} == {
        "c3": "rejected",
        "c5": "rejected",
        "c7": "rejected",
        "c8": "rejected",
    }
    assert "rejected an earlier call" in ends(after)["c5"][2]
    assert all(after.calls[call_id]["done"] for call_id in after.results)
    assert not any(after.calls.get(call_id, {}).get("done") for call_id in ("c0", "c1", "c2", "c4", "c6"))
    assert "unasked" not in after.calls.get("c0", {})


def test_a_question_behind_a_rejected_call_is_not_asked_and_not_remembered() -> None:
    after = settled(waiting("delete?", "ask_user"), REJECT)
    assert ends(after)["c1"][0] == "rejected"
    assert after.calls["c1"] == {
        "done": True,
        "args": {},
        "unasked": ["Which colour?", shortened("x" * 2000)],
    }


def test_an_edited_call_runs_as_it_was_edited() -> None:
    after = settled(waiting("write?"), edit("peek", place="b"))
    assert after.results == {}
    assert after.calls == {
        "c0": {
            "approval": "approved",
            "name": "look",
            "args": {"place": "b"},
            "key": call_key("look", {"place": "b"}),
            "edited": True,
        }
    }


def test_an_edit_that_changes_nothing_is_an_approval() -> None:
    after = settled(waiting("write?"), edit("write", text="a"))
    assert after.calls == {"c0": {"approval": "approved"}}


def test_a_person_cannot_edit_a_call_into_a_denied_one() -> None:
    after = settled(waiting("write?", "look"), edit("delete", path="b"), deny=("delete",))
    assert ends(after) == {"c0": ("refused", False, "Not run: it is not allowed (rules): not today")}
    assert "done" not in after.calls.get("c1", {})


def test_the_policies_are_asked_about_the_calls_that_were_let_through() -> None:
    calls = waiting("write?", "write?", "delete?", "write?")
    given = answered(calls, APPROVE, edit("delete", path="b"), REJECT, edit("write", text="a"))
    requests = review_requests(
        calls, given, REGISTRY, {"id": "turn-1", "session_id": "t1"}, {"look": {}}, None
    )
    assert list(requests) == ["c0", "c1", "c3"]
    assert (requests["c1"].name, requests["c1"].args) == ("delete", {"path": "b"})
    assert (requests["c1"].needs_approval, requests["c1"].session_id) == (True, "t1")


def test_an_edited_call_that_nobody_judged_does_not_run() -> None:
    calls = waiting("write?")
    given = answered(calls, edit("look"))
    with pytest.raises(KeyError):
        settle(calls, given, REGISTRY, PROMPTS, permissions={}, turn_id="turn-1", max_chars=100)


def test_a_call_that_became_another_takes_another_place() -> None:
    calls = waiting("look?", "look?", "look", "ask_user")
    for call, wave in zip(calls, (3, 3, 3, 4), strict=True):
        call["wave"] = wave
    after = settled(calls, APPROVE, edit("write", text="b"))
    assert [after.calls.get(call["id"], {}).get("wave", call["wave"]) for call in calls] == [3, 4, 5, 6]


@pytest.mark.parametrize("decisions", [[], [APPROVE, APPROVE]])
def test_a_decision_belongs_to_each_call(decisions: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError):
        settle(waiting("look?"), decisions, REGISTRY, PROMPTS, permissions={}, turn_id="t", max_chars=100)
