"""Turns under the label protocol: what is shown, what is stored, what goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.turns.labels import SOLVE, STREAMS, live_text, play, reply_id
from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import LabelProtocol, ProviderProfile
from turnflow.graph.protocol import LABELS

ADD = call("add", a=17, b=23)


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


def test_final_bodies_stream_where_the_protocol_asks_for_it(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, says("``FINISH``\nHello to all of you."), protocol=STREAMS)
    assert len(played.of("content.delta")) > 1
    # What cannot be taken back goes out once.
    pieces = [m.content for m in played.live if m.id == reply_id(played, 1) and m.content]
    assert pieces == ["Hello to all of you."]


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


def test_a_blank_line_behind_a_thought_on_the_labels_line_is_left_out(
    stage: Stage, fake_provider: Start
) -> None:
    played, _ = play(stage, fake_provider, says("``FINISH``<think>x</think>\n\nHi"))
    assert played.answer == "Hi"
