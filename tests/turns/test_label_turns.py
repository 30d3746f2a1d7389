"""Turns under the label protocol: what is shown, what goes on, what is sent back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Played, Stage
from turnflow import LabelProtocol, ProviderProfile
from turnflow.graph.protocol import LABELS

SOLVE = LabelProtocol(
    allowed=("FINISH", "REPLAN", "THINK", "TOOL"),
    terminal=("FINISH", "REPLAN"),
    intermediate=("THINK",),
    final=("FINISH",),
    tool="TOOL",
)
STREAMS = replace(LABELS, stream_final=True)
ADD = call("add", a=17, b=23)


def play(stage: Stage, fake: Start, *steps: dict[str, Any], **options: Any) -> tuple[Played, Any]:
    provider = fake(script(*steps))
    options = {"protocol": "label", **options}
    return stage.play(stage.graph(provider, **options), "Go."), provider


def live_text(played: Played, message_id: str) -> str:
    return "".join(str(m.content) for m in played.live if m.id == message_id)


def reply_id(played: Played, number: int) -> str:
    return f"turn-{played.messages[0].id}-{number}"


def test_the_label_is_no_part_of_the_answer(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, says("``FINISH``\nHello."))
    assert (played.status, played.answer) == ("finished", "Hello.")
    assert played.outcome["stop_reason"] == "stop"
    own = played.messages[-1].additional_kwargs["turnflow"]
    assert own == {"raw": "``FINISH``\nHello.", "thinking": "", "label": "FINISH"}
    assert [event["label"] for event in played.of("label")] == ["FINISH"]
    assert live_text(played, reply_id(played, 1)) == "Hello."


def test_the_system_prompt_tells_the_labels_and_their_meaning(stage: Stage, fake_provider: Start) -> None:
    _, provider = play(stage, fake_provider, says("``FINISH``\nHello."))
    system = provider.requests[0]["messages"][0]["content"]
    for label in LABELS.allowed:
        assert f"``{label}`` — " in system


def test_a_thought_goes_on_and_is_not_shown(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(
        stage, fake_provider, says("``THINK``\nFirst."), says("``THINK``\nThen."), says("``FINISH``\nDone.")
    )
    assert (played.status, played.answer, played.outcome["rounds"]) == ("finished", "Done.", 3)
    assert played.shape() == ["human", "ai", "ai", "ai"]
    assert [m.content for m in played.messages[1:]] == ["", "", "Done."]
    assert "".join(e["text"] for e in played.of("thinking.delta")) == "First.Then."
    assert [e["text"] for e in played.of("content.delta")] == ["Done."]
    # No two messages of the assistant without a user's between them.
    sent = [(m["role"], m["content"]) for m in provider.requests[2]["messages"][1:]]
    go_on = ("user", "Go on with the task.")
    assert sent == [
        ("user", "Go."),
        ("assistant", "``THINK``\nFirst."),
        go_on,
        ("assistant", "``THINK``\nThen."),
        go_on,
    ]


def test_a_pause_speaks_and_goes_on(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, says("``PAUSE``\nOne moment."), says("``FINISH``\nDone."))
    assert [m.content for m in played.messages[1:]] == ["One moment.", "Done."]
    assert [e["text"] for e in played.of("content.delta")] == ["One moment.", "Done."]
    assert live_text(played, reply_id(played, 1)) == "One moment."
    assert [e["text"] for e in played.of("round.ended")] == ["narration", "finish"]


def test_a_terminal_label_that_is_not_final_bubbles_up(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, says("``REPLAN``\nThe file is gone."), protocol=SOLVE)
    assert (played.status, played.outcome["stop_reason"]) == ("finished", "REPLAN")
    assert played.answer == played.messages[-1].content == "The file is gone."
    assert not played.of("content.delta")
    assert not live_text(played, reply_id(played, 1))


def test_calls_under_the_tool_label(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(
        stage,
        fake_provider,
        calls(ADD, content="``TOOL``\nI add them."),
        says("``FINISH``\nIt is 40."),
    )
    assert played.shape() == ["human", "ai:add", "tool", "ai"]
    assert played.results() == {"c1": "40"}
    assert played.messages[1].content == ""
    assert [t["function"]["name"] for t in provider.requests[0]["tools"]] == [
        "add",
        "echo",
        "boom",
        "ask_user",
    ]
    sent = provider.requests[1]["messages"][2]
    assert (sent["content"], sent["tool_calls"][0]["function"]["name"]) == ("``TOOL``\nI add them.", "add")


def test_calls_alone_need_no_label(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, calls(ADD), says("``FINISH``\nIt is 40."))
    assert (played.answer, played.outcome["rounds"]) == ("It is 40.", 2)
    assert provider.requests[1]["messages"][2]["content"] == "``TOOL``"


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


def test_final_bodies_stream_where_the_protocol_asks_for_it(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, says("``FINISH``\nHello to all of you."), protocol=STREAMS)
    assert len(played.of("content.delta")) > 1
    # What cannot be taken back goes out once.
    pieces = [m.content for m in played.live if m.id == reply_id(played, 1) and m.content]
    assert pieces == ["Hello to all of you."]


def test_what_was_shown_and_rejected_is_taken_back(stage: Stage, fake_provider: Start) -> None:
    bad = says("``FINISH``\nHello to all.\n``TOOL``")
    played, _ = play(stage, fake_provider, bad, says("``FINISH``\nHello."), protocol=STREAMS)
    assert played.answer == "Hello."
    assert [e["text"] for e in played.of("content.retract")] == ["Hello to all.\n``TOOL``"]
    assert live_text(played, reply_id(played, 1)) == ""


def test_a_draft_is_cut_to_500_characters(stage: Stage, fake_provider: Start) -> None:
    _, provider = play(stage, fake_provider, says("x" * 2000), says("``FINISH``\nDone."))
    assert provider.requests[1]["messages"][-2]["content"] == "x" * 500


def cut_off(content: str) -> dict[str, Any]:
    return {"reply": {"content": content, "finish_reason": "length"}}


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


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        ("``FINISH``\nDone.", "Done."),
        ("Done without a label.", "Done without a label."),
        ("``THINK``\nNever done.", "Never done."),
        ("<think>Hm.</think>\n\nDone.", "Done."),
        ("``REPLAN``\nNot done.", "Not done."),
    ],
)
def test_the_last_reply_is_the_answer_whatever_its_label(
    stage: Stage, fake_provider: Start, last: str, answer: str
) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0}
    played, _ = play(
        stage, fake_provider, says("``THINK``\nHm."), says(last), protocol=SOLVE, settings=settings
    )
    assert (played.status, played.answer) == ("finished_budget", answer)
    assert live_text(played, reply_id(played, 2)) == answer


def test_an_empty_last_reply_has_a_fallback(stage: Stage, fake_provider: Start) -> None:
    settings = {"max_rounds": 1, "settle_rounds": 0}
    played, _ = play(stage, fake_provider, says("``THINK``\nHm."), says("``FINISH``"), settings=settings)
    assert played.status == "empty"


def test_the_protocols_own_functions(stage: Stage, fake_provider: Start) -> None:
    seen: list[tuple[str, Any]] = []

    def hook(name: str, answer: str | None) -> Any:
        def plain(info: dict[str, Any]) -> str | None:
            seen.append((name, info.get("label") or info.get("cause") or info.get("round")))
            return answer

        async def coroutine(info: dict[str, Any]) -> str | None:
            await asyncio.sleep(0)
            return plain(info)

        return coroutine if name in {"before_round", "repair_message"} else plain

    protocol = replace(
        SOLVE,
        validate_terminal=hook("validate_terminal", None),
        before_round=hook("before_round", "Be brief."),
        on_intermediate=hook("on_intermediate", "Noted."),
        repair_message=hook("repair_message", "Label it!"),
        force_finalize=hook("force_finalize", "Out with it."),
    )
    steps = [says("``THINK``\nHm."), says("No label."), says("``THINK``\nHm."), says("``FINISH``\nDone.")]
    settings = {"max_rounds": 3, "settle_rounds": 0}
    played, provider = play(stage, fake_provider, *steps, protocol=protocol, settings=settings)
    assert played.answer == "Done."
    assert seen == [
        ("before_round", 1),
        ("on_intermediate", "THINK"),
        ("before_round", 2),
        ("repair_message", 2),
        ("before_round", 3),
        ("on_intermediate", "THINK"),
        ("before_round", 4),
        ("force_finalize", "rounds"),
    ]
    told = [request["messages"][-1]["content"] for request in provider.requests]
    assert "Be brief." in told[0]
    assert "Noted." in told[1]
    assert "Label it!" in told[2]
    assert "had no label" not in told[2]
    assert "Out with it." in told[3]
    assert "under ``FINISH``" not in told[3]


def test_functions_that_raise_change_nothing(stage: Stage, fake_provider: Start) -> None:
    def broken(_: dict[str, Any]) -> str:
        raise RuntimeError("not today")

    protocol = replace(
        SOLVE,
        validate_terminal=broken,
        before_round=broken,
        on_intermediate=broken,
        repair_message=broken,
        force_finalize=broken,
    )
    played, _ = play(stage, fake_provider, says("No label."), says("``FINISH``\nDone."), protocol=protocol)
    assert (played.status, played.answer) == ("finished", "Done.")


def test_a_protocol_without_tools_offers_none(stage: Stage, fake_provider: Start) -> None:
    protocol = LabelProtocol(allowed=("FINISH",), terminal=("FINISH",), final=("FINISH",))
    steps = [calls(ADD), says("``FINISH``\nDone.")]
    played, provider = play(stage, fake_provider, *steps, protocol=protocol)
    assert "tools" not in provider.requests[0]
    assert [e["key"] for e in played.of("repair")] == ["missing_label"]
    assert played.answer == "Done."


def test_an_orphan_closer_before_the_label(stage: Stage, fake_provider: Start) -> None:
    text = "The user greets me, so I should greet them back, in a friendly way.</think>\n``FINISH``\nHello."
    played, _ = play(stage, fake_provider, says(text))
    assert (played.status, played.answer) == ("finished", "Hello.")
    assert "friendly way" in played.messages[-1].additional_kwargs["turnflow"]["thinking"]


def test_the_next_turn_sees_replies_as_they_were_written(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("``FINISH``\nOne."), says("``FINISH``\nTwo.")))
    graph = stage.graph(provider, protocol="label")
    stage.play(graph, "first")
    played = stage.play(graph, "second")
    assert played.answer == "Two."
    assert [m["content"] for m in provider.requests[1]["messages"][1:]] == [
        "first",
        "``FINISH``\nOne.",
        "second",
    ]


def test_a_thread_may_change_its_protocol(stage: Stage, fake_provider: Start) -> None:
    steps = [calls(ADD), says("It is 40."), says("``FINISH``\nStill 40."), says("Plain.")]
    provider = fake_provider(script(*steps))
    stage.play(stage.graph(provider), "first")
    stage.play(stage.graph(provider, protocol="label"), "second")
    sent = [m["content"] for m in provider.requests[2]["messages"][1:]]
    assert sent == ["first", "``TOOL``", "40", "``FINISH``\nIt is 40.", "second"]
    played = stage.play(stage.graph(provider), "third")
    assert played.answer == "Plain."
    assert [m["content"] for m in provider.requests[3]["messages"][-2:]] == ["Still 40.", "third"]


def test_a_thinking_model_may_think_before_the_label(stage: Stage, fake_provider: Start) -> None:
    profile = ProviderProfile(starts_thinking=True)
    text = "Hm.</think>``FINISH``\nUse `<think>` tags."
    played, _ = play(stage, fake_provider, says(text), profile=profile)
    assert played.answer == "Use `<think>` tags."
    assert isinstance(played.messages[-1], AIMessage)


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


@pytest.mark.parametrize(
    "reason", ["terminate", "label", "truncated", "rounds", "tools_refused", "call_limit"]
)
@pytest.mark.parametrize("protocol", ["native", "label"])
def test_a_finish_reason_is_not_taken_for_a_decision(
    stage: Stage, fake_provider: Start, protocol: str, reason: str
) -> None:
    text = "Hello." if protocol == "native" else "``FINISH``\nHello."
    reply = {"reply": {"content": text, "finish_reason": reason}}
    played, _ = play(stage, fake_provider, reply, protocol=protocol)
    assert (played.status, played.answer) == ("finished", "Hello.")
    assert (played.outcome["stop_reason"], played.outcome["partial"]) == (reason, False)
    assert not played.of("content.retract")


def test_a_label_without_a_meaning_is_not_offered(stage: Stage, fake_provider: Start) -> None:
    protocol = LabelProtocol(allowed=("FINISH", "ASIDE"), terminal=("FINISH",), final=("FINISH", "ASIDE"))
    steps = [says("``ASIDE``\nHm."), says("``FINISH``\nDone.")]
    played, provider = play(stage, fake_provider, *steps, protocol=protocol)
    assert played.answer == "Done."
    assert [e["key"] for e in played.of("repair")] == ["unknown_action"]
    assert "ASIDE" not in provider.requests[0]["messages"][0]["content"]
    assert provider.requests[1]["messages"][-1]["content"].endswith("Choose one of: FINISH.")


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


@pytest.mark.parametrize("key", ["tools_refused", "empty_reply", "rounds", "provider_error"])
def test_a_verdict_is_not_taken_for_something_else(stage: Stage, fake_provider: Start, key: str) -> None:
    protocol = replace(SOLVE, validate_terminal=lambda _: key)
    steps = [says("``FINISH``\nNo.")] * 3 + [says("``FINISH``\nNo.")]
    played, _ = play(stage, fake_provider, *steps, protocol=protocol)
    assert (played.status, played.outcome["stop_reason"]) == ("finished_degraded", f"rejected:{key}")
    assert played.outcome["rounds"] == 4


def test_what_is_not_whole_is_not_judged(stage: Stage, fake_provider: Start) -> None:
    judged: list[str] = []
    protocol = replace(STREAMS, validate_terminal=lambda info: judged.append(info["text"]))
    steps = [cut_off("``FINISH``\nOne, "), says("two.")]
    play(stage, fake_provider, *steps, protocol=protocol)
    assert judged == ["One, two."]


def test_a_blank_line_behind_a_thought_on_the_labels_line_is_left_out(
    stage: Stage, fake_provider: Start
) -> None:
    played, _ = play(stage, fake_provider, says("``FINISH``<think>x</think>\n\nHi"))
    assert played.answer == "Hi"
