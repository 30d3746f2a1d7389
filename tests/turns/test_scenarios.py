"""One scripted turn for each way a turn can go: transcript, answer, outcome, events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.turns.stage import Played, Stage
from turnflow import ProviderProfile
from turnflow.apps.fake_provider import FakeProvider

Start = Callable[..., FakeProvider]

HI = "Hello there."


def play(stage: Stage, start: Start, scenario: str, **options: Any) -> tuple[Played, FakeProvider]:
    provider = start(scenario)
    return stage.play(stage.graph(provider, **options), HI), provider


def ends(played: Played, status: str, reason: str, answer: str) -> None:
    assert (played.status, played.outcome["stop_reason"], played.answer) == (status, reason, answer)


def test_plain_answer(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, "plain_answer")
    ends(played, "finished", "stop", "Forty-two is the answer.")
    assert played.shape() == ["human", "ai"]
    assert played.outcome["rounds"] == 1
    assert played.outcome["usage"]["input"] > 0
    assert len(played.of("content.delta")) > 1
    assert [t for t in played.types() if t != "content.delta"] == [
        "turn.started", "round.started", "context.assembled", "usage", "round.ended", "turn.ended",
    ]  # fmt: skip
    (request,) = provider.requests
    assert [m["role"] for m in request["messages"]] == ["system", "user"]
    assert {tool["function"]["name"] for tool in request["tools"]} == {"add", "echo", "boom", "ask_user"}


def test_one_tool_round(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "one_tool_round")
    ends(played, "finished", "stop", "17 and 23 make 40.")
    assert played.shape() == ["human", "ai:add", "tool", "ai"]
    assert played.results() == {"c1": "40"}
    assert (played.outcome["rounds"], played.outcome["tool_calls"]) == (2, 1)
    assert [e["text"] for e in played.of("round.ended")] == ["narration", "finish"]
    assert played.of("tool.call")[0]["args"] == {"a": 17, "b": 23}
    assert played.of("tool.result")[0]["status"] == "ok"


def test_two_parallel_calls_keep_the_models_order(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "two_parallel_calls")
    assert played.shape() == ["human", "ai:add,echo", "tool", "tool", "ai"]
    assert list(played.results().items()) == [("c1", "40"), ("c2", "hello there")]


def test_narration_is_shown_and_kept(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "narration_then_tool")
    assert played.answer == "They make 40."
    assert played.messages[1].content == "Let me add these up."


@pytest.mark.parametrize(
    "scenario", ["calls_all_index_zero", "calls_without_index", "calls_repeated_ids", "calls_without_ids"]
)
def test_deltas_of_odd_gateways(stage: Stage, fake_provider: Start, scenario: str) -> None:
    played, _ = play(stage, fake_provider, scenario)
    ends(played, "finished", "stop", "40 and hello.")
    assert list(played.results().values()) == ["40", "hello"]


def test_wrong_finish_reason_with_calls_runs_them(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "wrong_finish_reason_stop_with_calls")
    assert played.results() == {"c1": "40"}


def test_finish_reason_tool_calls_without_calls_is_a_finish(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "tool_calls_reason_without_calls")
    ends(played, "finished", "tool_calls", "Nothing to call, it is 40.")


@pytest.mark.parametrize(
    ("scenario", "thought", "answer"),
    [
        ("think_tags_inline", "The user greets me. I greet back.", "Hello, nice to meet you."),
        ("think_tags_byte_chunks", "用户在问好。", "你好，很高兴认识你 🙂"),
        ("reasoning_field", "A greeting wants a greeting.", "Hello."),
    ],
)
def test_thoughts_are_no_answer(
    stage: Stage, fake_provider: Start, scenario: str, thought: str, answer: str
) -> None:
    played, _ = play(stage, fake_provider, scenario)
    ends(played, "finished", "stop", answer)
    assert "".join(e["text"] for e in played.of("thinking.delta")) == thought
    own = played.messages[-1].additional_kwargs["turnflow"]
    assert own["thinking"] == thought
    assert own["raw"].endswith(answer)


def test_orphan_closer_takes_back_what_was_shown(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "orphan_closer")
    ends(played, "finished", "stop", "Hello.")
    assert played.of("content.retract")[0]["text"] == "The user greets me, so I greet back."


def test_profile_starts_thinking_needs_no_retract(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "orphan_closer", profile=ProviderProfile(starts_thinking=True))
    assert played.answer == "Hello."
    assert not played.of("content.retract")


def test_reasoning_is_sent_back_where_the_provider_wants_it(stage: Stage, fake_provider: Start) -> None:
    profile = ProviderProfile(reasoning_field="reasoning_content")
    played, provider = play(stage, fake_provider, "reasoning_content_field", profile=profile)
    ends(played, "finished", "stop", "It is 40.")
    assert provider.requests[1]["messages"][2]["reasoning_content"] == "I need the sum first."
    assert played.messages[1].additional_kwargs["reasoning_content"] == "I need the sum first."


def test_reasoning_is_kept_back_from_other_providers(stage: Stage, fake_provider: Start) -> None:
    _, provider = play(stage, fake_provider, "reasoning_content_field")
    assert "reasoning_content" not in provider.requests[1]["messages"][2]


def test_bytes_cut_inside_characters(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "chinese_emoji_bytes")
    assert played.answer == "答案是四十二 🙂👍🏽，再见！"


def test_empty_reply_is_nudged_once(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, "empty_then_answer")
    ends(played, "finished", "stop", "Here I am.")
    assert [e["key"] for e in played.of("nudge")] == ["empty_reply"]
    assert played.shape() == ["human", "ai"]
    assert "Your last reply was empty" in provider.requests[1]["messages"][-1]["content"]
    assert all("was empty" not in str(m.content) for m in played.messages)


def test_thinking_only_is_nudged(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "thinking_only_then_answer")
    ends(played, "finished", "stop", "Now I know: hello.")
    assert [e["key"] for e in played.of("nudge")] == ["thinking_only"]


def test_second_silence_leads_to_the_forced_finish(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "empty_twice_then_forced")
    ends(played, "finished_degraded", "empty_reply", "Here I am at last.")
    assert len(played.of("nudge")) == 1


def test_silence_to_the_end_has_a_fallback(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "forced_finish_empty")
    assert played.status == "empty"
    assert "could not come up with an answer" in played.answer


def test_truncated_text_goes_on_seamlessly(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, "truncated_text_continues")
    ends(played, "finished", "stop", "One, two, three, four.")
    assert played.shape() == ["human", "ai"]
    assert played.outcome["rounds"] == 1
    assert [m["role"] for m in provider.requests[1]["messages"]] == ["system", "user", "assistant", "user"]


def test_truncated_for_good_keeps_what_came(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "truncated_four_times")
    ends(played, "finished_truncated", "length", "One, two, three, four")
    assert played.outcome["partial"]


def test_truncated_call_is_not_run(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "truncated_tool_call")
    ends(played, "finished", "stop", "It is 40.")
    assert "cut off" in played.results()["c1"]
    assert [e["tool_call_id"] for e in played.of("tool.started")] == ["c2"]


def test_unparseable_arguments_quote_the_reason(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "unparseable_arguments")
    ends(played, "finished", "stop", "It is 40.")
    assert "could not be read" in played.results()["c1"]
    assert played.messages[1].tool_calls[0]["args"] == {"__unparsed__": "a equals 17 and b equals 23"}


def test_invalid_arguments_name_the_path(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "invalid_arguments")
    assert played.answer == "It is 40."
    assert "a" in played.results()["c1"]
    assert "integer" in played.results()["c1"]


def test_unknown_tool_is_answered_with_the_nearest(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "unknown_tool")
    assert played.results() == {"c1": "There is no tool named 'ad'. The nearest are: add."}


def test_a_tool_that_raises_is_a_result(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "tool_raises")
    assert played.results() == {"c1": "The tool failed with RuntimeError: the boiler is cold"}
    assert played.of("tool.result")[0]["status"] == "error"


def test_rounds_spent_settle(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, "rounds_spent_settles", settings={"max_rounds": 2})
    ends(played, "finished_budget", "rounds", "I have heard first and second.")
    told = [m["content"] for m in provider.requests[2]["messages"] if m["role"] == "user"]
    assert "Start nothing new" in told[0]


def test_never_stops_calling_is_finished_without_tools(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, "never_stops_calling", settings={"max_rounds": 2})
    ends(played, "finished_budget", "rounds", "I have heard enough.")
    assert [e["phase"] for e in played.of("round.started")] == ["explore"] * 2 + ["settle"] * 3 + ["finish"]
    assert "tools" not in provider.requests[-1]


def test_content_filter_runs_no_tool(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "content_filter")
    ends(played, "filtered", "content_filter", "I would rather")
    assert played.outcome["partial"]
    assert not played.of("tool.started")
    assert played.shape() == ["human", "ai"]


def test_context_too_long(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "context_too_long")
    assert (played.status, played.outcome["stop_reason"]) == ("context_overflow", "context_too_long")
    assert played.outcome["error"]["status_code"] == 400
    assert played.outcome["degradations"] == []
    assert "too long" in played.answer


def test_failing_first_round_raises(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "error_first_round_500", retries=2)
    assert played.error is not None
    assert played.status == "provider_error"
    assert played.outcome["error"]["status_code"] == 500
    assert "500" in str(played.error)
    assert [m.type for m in played.messages] == ["human"]


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        ("authentication_refused", "OpenAIAuthenticationError"),
        ("error_inside_stream", "APIError"),
        ("html_page_with_status_200", "EmptyStreamError"),
        ("malformed_chunk", "JSONDecodeError"),
        ("reset_before_output", "OpenAIConnectionError"),
    ],
)
def test_failures_before_any_output(stage: Stage, fake_provider: Start, scenario: str, kind: str) -> None:
    played, _ = play(stage, fake_provider, scenario)
    assert played.error is not None
    assert played.outcome["error"]["type"] == kind


def test_gateway_page_is_tried_again(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "html_error_page", retries=2)
    assert played.answer == "Back again."


def test_later_failure_finishes_with_what_was_gathered(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "error_later_round", retries=2)
    ends(played, "finished_degraded", "provider_error", "As far as I got: 40.")
    assert played.outcome["error"]["status_code"] == 500
    assert played.outcome["degradations"] == ["provider_error"]


@pytest.mark.parametrize("scenario", ["reset_mid_answer", "truncated_sse_mid_answer"])
def test_broken_off_answer_goes_on(stage: Stage, fake_provider: Start, scenario: str) -> None:
    played, _ = play(stage, fake_provider, scenario)
    ends(played, "finished_degraded", "stop", "The answer is forty-two.")
    assert not played.outcome["partial"]


def test_tools_are_left_out_where_the_profile_says_so(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "tools_refused", profile=ProviderProfile(native_tools=False))
    assert played.answer == "Without tools, then."


def test_usage_never_comes(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "usage_never_comes")
    assert played.answer == "No bill today."
    usage = played.outcome["usage"]
    assert (usage["requests"], usage["estimated"], usage["output"]) == (1, 1, 4)
    assert usage["input"] == played.of("context.assembled")[0]["manifest"]["tokens"]


def test_without_a_saver(bare_stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider("narration_then_tool")
    played = bare_stage.play(bare_stage.graph(provider), HI)
    assert played.answer == "They make 40."


def test_second_turn_follows_the_first(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider({"steps": [{"reply": {"content": "One."}}, {"reply": {"content": "Two."}}]})
    graph = stage.graph(provider)
    stage.play(graph, "first")
    played = stage.play(graph, "second")
    assert [m.content for m in played.messages] == ["first", "One.", "second", "Two."]
    assert [m["content"] for m in provider.requests[1]["messages"][1:]] == ["first", "One.", "second"]


def test_stored_message_has_the_documented_fields(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, "think_tags_inline")
    human, reply = played.messages
    assert isinstance(human, HumanMessage)
    assert isinstance(reply, AIMessage)
    assert reply.id == f"turn-{human.id}-1"
    assert set(reply.additional_kwargs["turnflow"]) == {"raw", "thinking", "label"}


def test_a_retracted_reply_that_nothing_replaces_is_emptied(stage: Stage, fake_provider: Start) -> None:
    replies = [{"reply": {"content": "secret thought</think>"}}, {"reply": {"content": "The answer."}}]
    played = stage.play(stage.graph(fake_provider({"steps": replies})), HI)
    assert played.answer == "The answer."
    assert [m.content for m in played.live if m.id == f"turn-{played.messages[0].id}-1"][-1] == ""
