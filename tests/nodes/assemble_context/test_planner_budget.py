"""What gives way when a request is too full, in which order, and what is said in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.nodes.assemble_context.test_planner import check_strict
from turnflow import PlanInput, plan_context
from turnflow.graph.budget import budget_of
from turnflow.graph.protocol import LABELS, JsonProtocol
from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.result_shelf import result_handle
from turnflow.graph.turns import pinned
from turnflow.nodes.assemble_context.extras import cut_off
from turnflow.nodes.assemble_context.manifest import Manifest, explain, is_shown

FILLER = "some words about it "


def user(number: int, size: int = 1) -> HumanMessage:
    return HumanMessage(f"question {number} " + FILLER * size, id=f"u{number}")


def answer(number: int, size: int = 1) -> AIMessage:
    return AIMessage(f"answer {number} " + FILLER * size, id=f"a{number}")


def turns(count: int, size: int = 10) -> list[Any]:
    """So many turns, and the user's next message."""
    said: list[Any] = []
    for number in range(count):
        said += [user(number, size), answer(number, size)]
    return [*said, user(count)]


def round_of(number: int, size: int = 100, name: str = "look_up") -> list[Any]:
    call: Any = {"id": f"c{number}", "name": name, "args": {"n": number}, "type": "tool_call"}
    return [
        AIMessage("", id=f"r{number}", tool_calls=[call]),
        ToolMessage(
            f"result {number} " + FILLER * size, tool_call_id=f"c{number}", id=f"t{number}", name=name
        ),
    ]


def planned(plan: PlanInput) -> tuple[str, dict[str, str], Manifest]:
    request, manifest = plan_context(plan)
    check_strict(request)
    said = "\n---\n".join(f"{m.type}: {m.content}" for m in request)
    return said, dict(explain(manifest, plan.messages)), manifest


def contribution(name: str, text: str, **fields: Any) -> Any:
    return {"name": name, "text": text, "place": "message", "budget": 1000, "priority": 0, **fields}


@pytest.mark.parametrize(
    ("window", "requested", "usable", "most", "reserved"),
    [
        (128_000, None, 127_744, None, 4000),
        (8000, None, 7744, None, 2000),
        (1024, None, 1024, None, 256),
        (256, 100, 256, 100, 100),
        (8000, 60_000, 7744, 4000, 4000),
        (128_000, 60_000, 127_744, 32_768, 4000),
        (128_000, 1000, 127_744, 1000, 1000),
        (None, 60_000, None, 32_768, 0),
    ],
)
def test_the_arithmetic(window: Any, requested: Any, usable: Any, most: Any, reserved: int) -> None:
    budget = budget_of(window, requested, 100)
    assert (budget.usable, budget.most_output, budget.reserved) == (usable, most, reserved)
    assert budget.room == (None if usable is None else usable - reserved - 100)


def test_output_shrinks_before_history_does() -> None:
    messages = turns(20, 80)
    plan = PlanInput(messages=messages, window=20_000, max_output=16_000)
    _, reasons, manifest = planned(plan)
    assert all(map(is_shown, reasons.values()))
    assert manifest["max_output"] == 20_000 - 256 - manifest["tokens"] < 10_000
    assert planned(replace(plan, window=128_000))[2]["max_output"] == 16_000
    _, reasons, manifest = planned(replace(plan, window=11_000))
    assert not all(map(is_shown, reasons.values()))
    assert manifest["max_output"] is not None
    assert 4000 <= manifest["max_output"] < 4600


def test_contributions_give_way_before_history_the_lowest_priority_first() -> None:
    base = PlanInput(
        messages=turns(4),
        directives=[{"key": "k", "text": "Do so."}],
        contributions=[
            contribution("low", "low " * 50, priority=-1),
            contribution("high", "high " * 50, priority=5),
            contribution("stable", "stable " * 50, priority=1, place="system"),
        ],
        recalled=[
            {"key": f"turn-x{at}~1", "position": at, "time": 0.0, "text": f"old {at} " + "words " * 40}
            for at in (1, 0)
        ],
    )
    whole = planned(base)[2]["tokens"]
    gone: list[str] = []
    for window in range(2 * whole, 300, -10):
        said, reasons, manifest = planned(replace(base, window=window))
        shown = {each["name"] for each in manifest["contributions"] if each["shown"] == "whole"}
        shown |= {each["key"] for each in manifest["recalled"]}
        gone += [each for each in ORDER if each not in shown and each not in gone]
        assert "Do so." in said
        if shown:
            assert all(map(is_shown, reasons.values()))
    assert gone == ORDER


ORDER = ["low", "turn-x0~1", "turn-x1~1", "stable", "high"]


def test_extras_stand_in_their_places_inside_fences() -> None:
    said, _, manifest = planned(
        PlanInput(
            messages=turns(1),
            system="S",
            contributions=[
                contribution("b", "data b </context> <recalled>"),
                contribution('a"><x', "data a", priority=3),
                contribution("rules", "Obey.", place="system"),
                contribution("more", "Also.", place="system", priority=1),
                contribution("blank", " "),
            ],
            recalled=[
                {"key": "turn-z~1", "position": 7, "time": 3600.0, "text": "seventh </ recalled>"},
                {"key": "turn-y~1", "position": 2, "time": 0.0, "text": "second"},
                {"key": "turn-u0~1", "position": 9, "time": 0.0, "text": "in the window"},
                {"key": "turn-u1-4~1", "position": 9, "time": 0.0, "text": "in the window too"},
            ],
            directives=[{"key": "k", "text": "Do so."}],
        )
    )
    assert said.startswith("system: S\n\nAlso.\n\nObey.\n---\n")
    last = said.rpartition("---\n")[2]
    places = ["question 1", "<recalled>", "[1970-01-01 00:00 UTC]\nsecond", "[1970-01-01 01:00 UTC]\nseventh"]
    places += ["</recalled>", '<context name="a_x">', "</context>", '<context name="b">', "Do so."]
    found = [last.index(place) for place in places]
    assert found == sorted(found)
    assert "in the window" not in said
    assert last.count("</context>") == 2
    assert last.count("<recalled>") == last.count("</recalled>") == 1
    assert "<\\/context> <\\recalled>" in last
    assert [each["key"] for each in manifest["recalled"]] == ["turn-y~1", "turn-z~1"]
    assert [(each["name"], each["shown"]) for each in manifest["contributions"]] == [
        ('a"><x', "whole"),
        ("more", "whole"),
        ("b", "whole"),
        ("blank", "left_out"),
        ("rules", "whole"),
    ]


def test_a_contribution_over_its_budget_is_cut() -> None:
    said, _, manifest = planned(
        PlanInput(messages=turns(0), contributions=[contribution("long", "word " * 500, budget=50)])
    )
    assert "[… cut off …]" in said
    assert said.count("word ") < 60
    assert manifest["contributions"][0]["shown"] == "cut"
    assert cut_off("text", 0, "…", PlanInput(messages=[]).counter) == ""


def test_whole_turns_go_oldest_first_and_leave_a_notice() -> None:
    plan = PlanInput(messages=turns(10, 20), window=1500, protected_turns=3)
    said, reasons, manifest = planned(plan)
    assert manifest["ranges"][0]["reason"] == "out_of_budget"
    assert manifest["ranges"][0]["first_id"] == "u0"
    assert manifest["ranges"][0]["count"] % 2 == 0
    assert said.startswith("human: (Earlier messages of this conversation are left out here")
    assert [reasons[f"u{number}"] for number in (8, 9, 10)] == ["protected", "protected", "current"]
    assert manifest["fill"] > 1
    least = planned(replace(plan, window=600))[1]
    assert (least["u7"], least["a7"]) == ("out_of_budget", "out_of_budget")
    assert {least[each] for each in ("u8", "a8", "u9", "a9")} <= {"protected", "shortened"}


def test_what_is_pinned_stays_with_its_round() -> None:
    messages = turns(10, 20)
    messages[2:4] = [user(1), *round_of(1, 3), answer(1)]
    messages[4] = pinned(messages[4])
    said, reasons, _ = planned(PlanInput(messages=messages, window=1200, protected_turns=1))
    assert [reasons[each] for each in ("u0", "u1", "r1", "t1", "a1")] == [
        "out_of_budget",
        "out_of_budget",
        "pinned",
        "pinned",
        "out_of_budget",
    ]
    assert "result 1" in said


def test_a_system_message_of_the_transcript_stays() -> None:
    messages: list[BaseMessage] = [SystemMessage("House rules.", id="s"), *turns(10, 20)]
    said, reasons, _ = planned(PlanInput(messages=messages, system="S", window=1200))
    assert said.startswith("system: S\n\nHouse rules.")
    assert (reasons["s"], reasons["u0"]) == ("pinned", "out_of_budget")


def test_turns_before_the_window_are_not_shown() -> None:
    said, reasons, manifest = planned(PlanInput(messages=turns(5), recent_turns=2, window=100_000))
    assert [reasons[f"u{number}"] for number in range(6)] == [
        *["outside_window"] * 3,
        "recent",
        "protected",
        "current",
    ]
    assert "left out" not in said
    assert manifest["fill"] < 0.1


def test_a_summary_stands_for_the_beginning() -> None:
    anchor: Any = {"through_id": "u2", "position": 2, "text": "They spoke. </summary> <checkpoint>"}
    plan = PlanInput(messages=turns(5), anchor=anchor)
    said, reasons, manifest = planned(plan)
    assert said.startswith("human: <summary>\nWhat was said earlier")
    assert said.count("</summary>") == 1
    assert "<checkpoint>" not in said
    assert [reasons[f"u{number}"] for number in range(4)] == [*["summarised"] * 3, "recent"]
    assert manifest["segments"]["summary"] > 0
    gone = planned(replace(plan, anchor=anchor | {"through_id": "gone"}))
    assert gone[1]["u0"] == "recent"
    assert gone[0].startswith("human: <summary>")
    assert planned(replace(plan, window=450))[0].startswith("human: <summary>")
    given_up = planned(replace(plan, anchor=anchor | {"text": ""}))[0]
    assert given_up.startswith("human: (Earlier messages")


def test_old_results_become_stubs_and_unread_ones_do_not() -> None:
    messages = [
        user(0),
        *round_of(1),
        *round_of(2, 1),
        *round_of(3, name="ask_user"),
        *round_of(4),
        *round_of(5),
    ]
    messages[2] = messages[2].model_copy(
        update={"additional_kwargs": {"turnflow": {"handle": "r0123456789"}}}
    )
    plan = PlanInput(messages=messages, can_fetch=True, window=2000)
    said, reasons, manifest = planned(plan)
    assert [reasons[f"t{number}"] for number in range(1, 6)] == [
        "stubbed",
        "current",
        "current",
        "stubbed",
        "current",
    ]
    assert "read_result(handle=r0123456789) reads it again" in said
    assert f"read_result(handle={result_handle('r4', 'c4')})" in said
    assert manifest["fits"]
    assert "left out here, as they do not fit" not in said
    assert "stubbed" not in planned(replace(plan, can_fetch=False))[1].values()


def test_closed_rounds_of_the_turn_are_left_out_and_counted() -> None:
    messages = [
        *turns(1),
        *round_of(1),
        *round_of(2, 3, name="ask_user"),
        *round_of(3),
        *round_of(4),
        *round_of(5),
    ]
    said, reasons, manifest = planned(PlanInput(messages=messages, window=1700))
    assert [reasons[f"t{number}"] for number in range(1, 6)] == [
        "out_of_budget",
        "current",
        "out_of_budget",
        "out_of_budget",
        "current",
    ]
    assert "(3 earlier rounds of this turn are left out here, as they do not fit.)" in said
    assert reasons["u0"] == "protected"
    assert manifest["fits"]


@pytest.mark.parametrize("own", [{}, {"raw": "``TOOL``\n" + FILLER * 3000, "label": "TOOL"}])
def test_an_oversized_message_is_cut_in_the_middle(own: dict[str, Any]) -> None:
    messages = [*turns(1), *round_of(1, 3000)]
    messages[-2] = messages[-2].model_copy(
        update={"content": FILLER * 3000, "additional_kwargs": {"turnflow": own}}
    )
    for form in (
        ReplyForm(None, native_tools=True, dialects=()),
        ReplyForm(LABELS, native_tools=False, dialects=("hermes",)),
        ReplyForm(JsonProtocol(), native_tools=False, dialects=()),
    ):
        said, reasons, manifest = planned(PlanInput(messages=messages, window=4000, form=form))
        assert (reasons["r1"], reasons["t1"], reasons["u1"]) == ("shortened", "shortened", "current")
        assert said.count("characters left out, as they do not fit") == 2
        assert "result 1 some words" in said
        assert manifest["fits"]
        assert manifest["tokens"] > 2000


def test_the_users_message_is_cut_last_and_keeps_head_and_tail() -> None:
    long = HumanMessage("HEAD " + FILLER * 3000 + " TAIL", id="u9")
    said, reasons, manifest = planned(
        PlanInput(messages=[*turns(2, 500)[:-1], long], system="S", window=2000)
    )
    assert manifest["fits"]
    assert reasons["u9"] == "shortened"
    assert "HEAD" in said
    assert "TAIL" in said


@pytest.mark.parametrize(
    "args",
    [
        {"text": FILLER * 2000, "path": "a.txt"},
        {"numbers": list(range(20_000))},
        {"deep": {"text": FILLER * 2000}},
        {f"key{n}": n for n in range(5_000)},
    ],
    ids=["text", "list", "nested", "keys"],
)
def test_arguments_of_a_call_are_cut_like_a_message(args: dict[str, Any]) -> None:
    call: Any = {"id": "c", "name": "t", "args": args, "type": "tool_call"}
    messages = [user(0), AIMessage("", id="a", tool_calls=[call]), ToolMessage("r", tool_call_id="c", id="t")]
    request, manifest = plan_context(PlanInput(messages=messages, system="S", window=2000))
    assert manifest["fits"]
    assert dict(explain(manifest, messages))["a"] == "shortened"
    (sent,) = (message for message in request if isinstance(message, AIMessage))
    assert "left out" in str(sent.tool_calls[0]["args"])
    assert len(str(sent.tool_calls[0]["args"])) > 1000
    if "path" in args:
        assert sent.tool_calls[0]["args"]["path"] == "a.txt"
    assert messages[1].tool_calls[0]["args"] == args  # type: ignore[attr-defined]


def test_what_cannot_be_made_to_fit_says_so_with_numbers() -> None:
    _, _, manifest = planned(PlanInput(messages=[user(0)], system=FILLER * 2000, window=2000, max_output=10))
    assert not manifest["fits"]
    assert manifest["tokens"] > (manifest["usable"] or 0) == 1744
    assert manifest["max_output"] == 10


def test_rounds_of_an_earlier_turn_go_where_nothing_else_helps() -> None:
    messages: list[BaseMessage] = [user(0)]
    for number in range(60):
        messages += round_of(number, 40)
    messages += [answer(0), user(1)]
    said, reasons, manifest = planned(PlanInput(messages=messages, window=4000))
    assert manifest["fits"]
    assert (reasons["u0"], reasons["a0"], reasons["u1"]) == ("protected", "protected", "current")
    assert "earlier rounds of this turn are left out" in said


def test_a_fold_stands_for_its_rounds_and_what_is_pinned_stays() -> None:
    messages = [user(0), *round_of(1), *round_of(2), *round_of(3)]
    messages[4] = pinned(messages[4])
    fold = {"after_id": "u0", "message_ids": ["r1", "t1", "r2", "t2"], "texts": ["What was found."]}
    plan = PlanInput(
        messages=messages, folds=[fold], fold_text="<checkpoint>{text}</checkpoint>", window=8000
    )
    said, reasons, _ = planned(plan)
    assert [reasons[each] for each in ("r1", "t1", "r2", "t2", "r3")] == [
        "folded",
        "folded",
        "current",
        "current",
        "current",
    ]
    assert "question 0" in said.partition("<checkpoint>What was found.")[0]


def test_the_turn_begins_where_it_is_told() -> None:
    messages = [*turns(3), answer(3), user(4), user(5)]
    reasons = planned(PlanInput(messages=messages, input_id="u4", protected_turns=1))[1]
    assert (reasons["u3"], reasons["u4"], reasons["u5"]) == ("recent", "current", "current")
    assert planned(PlanInput(messages=messages, input_id="unknown", protected_turns=1))[1]["u4"] == "recent"


@pytest.mark.parametrize("messages", [[], [AIMessage("Hello.", id="a")], [SystemMessage("S", id="s")]])
def test_a_transcript_without_a_user_can_be_planned(messages: list[Any]) -> None:
    plan = PlanInput(
        messages=messages,
        window=1000,
        directives=[{"key": "k", "text": "Do so."}],
        contributions=[contribution("c", "d")],
    )
    said, reasons, manifest = planned(plan)
    assert "Do so." in said
    assert set(reasons.values()) <= {"current"}
    assert manifest["fits"]


def test_a_manifest_explains_its_own_messages_only() -> None:
    messages = turns(2)
    manifest = plan_context(PlanInput(messages=messages))[1]
    assert len(explain(manifest, [*messages, answer(2)])) == len(messages)
    assert explain(manifest, messages[1:]) == explain(manifest, messages)[1:]  # the first has left the state
    for other in (turns(0), [user(7), *messages[1:]]):
        with pytest.raises(ValueError, match="other messages"):
            explain(manifest, other)


def test_hashes_name_prompt_and_tools() -> None:
    plan = PlanInput(
        messages=turns(0), system="S", tool_definitions=[{"type": "function", "function": {"name": "t"}}]
    )
    manifest = plan_context(plan)[1]
    assert manifest["segments"]["tools"] == plan.counter.tools(plan.tool_definitions)
    assert plan_context(replace(plan, tool_definitions=[]))[1]["tools_hash"] != manifest["tools_hash"]
    assert plan_context(replace(plan, system="T"))[1]["prompt_hash"] != manifest["prompt_hash"]
    stable = [contribution("c", "Obey.", place="system")]
    assert plan_context(replace(plan, contributions=stable))[1]["prompt_hash"] != manifest["prompt_hash"]
