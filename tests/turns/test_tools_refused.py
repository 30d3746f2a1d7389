"""A provider that takes no tools: the same turn goes on under the label protocol."""

from __future__ import annotations

from typing import Any

import pytest

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Played, Stage
from tests.turns.written import cut_off, decides, hermes, labelled, refuses_tools
from turnflow import ProviderProfile, TurnContext, TurnHooks, forget_learned

ADD = call("add", a=17, b=23)


def play(stage: Stage, fake: Start, *steps: dict[str, Any], **options: Any) -> tuple[Played, Any]:
    provider = fake(script(*steps))
    return stage.play(stage.graph(provider, **options), "Go."), provider


def test_refused_in_the_middle_of_a_turn(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(
        stage,
        fake_provider,
        calls(ADD),
        refuses_tools(),
        labelled("TOOL", hermes("echo", text="hi")),
        labelled("FINISH", "40 and hi."),
    )
    assert (played.status, played.answer) == ("finished_degraded", "40 and hi.")
    assert played.outcome["degradations"] == ["tools"]
    assert played.outcome["error"]["status_code"] == 400
    # A request that was refused is no round.
    assert played.outcome["rounds"] == 3
    assert played.outcome["usage"]["requests"] == 4
    assert played.shape() == ["human", "ai:add", "tool", "ai:echo", "tool", "ai"]
    (degraded,) = played.of("degraded")
    assert (degraded["degradation"], degraded["dialect"]) == ("tools", "hermes")
    sent = provider.requests[2]
    assert "tools" not in sent
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert sent["messages"][2]["content"] == "``TOOL``\n" + hermes("add", a=17, b=23)
    assert "``FINISH``" in sent["messages"][0]["content"]
    assert "<tool_call>" in sent["messages"][0]["content"]


def test_refused_at_once(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, refuses_tools(), labelled("FINISH", "Hello."))
    assert (played.status, played.answer) == ("finished_degraded", "Hello.")
    assert played.outcome["rounds"] == 1


@pytest.mark.parametrize(
    "error",
    [
        {"param": None, "message": "registry.ollama.ai/library/gemma:latest does not support tools"},
        {"param": None, "message": '"auto" tool choice requires --enable-auto-tool-choice to be set'},
        {"param": "tool_choice", "message": "bad request"},
        {"param": None, "status": 404, "message": "No endpoints found that support tool use."},
        {"param": None, "message": "Function calling is not enabled for this model"},
        {"param": None, "status": 422, "message": "Extra inputs are not permitted: tools"},
        {"param": None, "message": "Unknown parameter: 'tools'."},
    ],
    ids=lambda error: error["message"][:30],
)
def test_wordings_of_a_refusal(stage: Stage, fake_provider: Start, error: dict[str, Any]) -> None:
    played, _ = play(stage, fake_provider, refuses_tools(**error), labelled("FINISH", "Hello."))
    assert played.outcome["degradations"] == ["tools"]


@pytest.mark.parametrize(
    "error",
    [
        {"param": "tools[0].function.name", "message": "Invalid tool name: not supported"},
        {"param": None, "status": 429, "message": "tools are not available: rate limit reached"},
        {"param": None, "status": 401, "message": "tools are not allowed with this key"},
    ],
    ids=lambda error: error["message"][:30],
)
def test_what_is_no_refusal_of_tools(stage: Stage, fake_provider: Start, error: dict[str, Any]) -> None:
    played, _ = play(stage, fake_provider, refuses_tools(**error))
    assert played.error is not None
    assert not played.of("degraded")


@pytest.mark.parametrize(
    "error",
    [
        {
            "param": "messages[2]",
            "message": "messages with role 'tool' must be a response to a message with 'tool_calls'",
        },
        {"param": None, "message": "tool_call_id call_1 is not supported: no preceding call"},
    ],
    ids=lambda error: error["message"][:30],
)
def test_a_complaint_about_calls_is_one_about_messages(
    stage: Stage, fake_provider: Start, error: dict[str, Any]
) -> None:
    played, provider = play(stage, fake_provider, calls(ADD), refuses_tools(**error), says("It is 40."))
    assert (played.status, played.answer) == ("finished", "It is 40.")
    assert played.outcome["degradations"] == ["messages"]
    assert "tools" in provider.requests[2]


def test_a_profile_without_dialects_goes_on_without_tools(stage: Stage, fake_provider: Start) -> None:
    profile = ProviderProfile(text_dialects=())
    steps = [calls(ADD), refuses_tools(), labelled("FINISH", "It is 40.")]
    played, provider = play(stage, fake_provider, *steps, profile=profile)
    assert (played.status, played.answer) == ("finished_degraded", "It is 40.")
    last = provider.requests[2]["messages"]
    assert "takes no tools any more" in last[-1]["content"]
    assert "TOOL``" not in last[0]["content"]


def test_refused_inside_the_stream(stage: Stage, fake_provider: Start) -> None:
    error = {"message": "tools are not supported", "type": "invalid_request_error", "param": "tools"}
    broken = {"reply": {"content": "x"}, "fault": {"kind": "error", "after": "headers", "error": error}}
    played, _ = play(stage, fake_provider, broken, labelled("FINISH", "Hello."))
    assert (played.answer, played.outcome["degradations"]) == ("Hello.", ["tools"])


def test_refused_while_a_native_answer_goes_on(stage: Stage, fake_provider: Start) -> None:
    steps = [cut_off("The answer is"), refuses_tools(), says(" forty-two.")]
    played, provider = play(stage, fake_provider, *steps)
    assert (played.status, played.answer) == ("finished_degraded", "The answer is forty-two.")
    assert not played.of("repair")
    assert "tools" not in provider.requests[2]
    assert "``FINISH``" not in provider.requests[2]["messages"][0]["content"]


def test_refused_while_a_labelled_answer_goes_on(stage: Stage, fake_provider: Start) -> None:
    steps = [cut_off("``FINISH``\nThe answer is"), refuses_tools(), says(" forty-two.")]
    played, _ = play(stage, fake_provider, *steps, protocol="label")
    assert (played.status, played.answer) == ("finished_degraded", "The answer is forty-two.")
    assert "".join(e["text"] for e in played.of("content.delta")) == "The answer is forty-two."


def test_labels_stay_the_callers_own(stage: Stage, fake_provider: Start) -> None:
    steps = [refuses_tools(), labelled("TOOL", hermes("add", a=17, b=23)), labelled("FINISH", "It is 40.")]
    played, _ = play(stage, fake_provider, *steps, behaviour="solve")
    assert (played.status, played.answer) == ("finished_degraded", "It is 40.")


def test_refused_once_more_is_an_error(stage: Stage, fake_provider: Start) -> None:
    played, _ = play(stage, fake_provider, refuses_tools(), refuses_tools())
    assert played.error is not None


def test_json_decisions_need_no_tools(stage: Stage, fake_provider: Start) -> None:
    played, provider = play(stage, fake_provider, decides("reply", "Hello."), protocol="json")
    assert played.answer == "Hello."
    assert "tools" not in provider.requests[0]


def test_the_process_remembers(stage: Stage, fake_provider: Start) -> None:
    steps = [refuses_tools(), labelled("FINISH", "One."), labelled("FINISH", "Two."), says("Three.")]
    provider = fake_provider(script(*steps))
    graph = stage.graph(provider)
    stage.play(graph, "first")
    played = stage.play(graph, "second", thread="another")
    assert (played.status, played.answer, played.outcome["degradations"]) == ("finished", "Two.", [])
    assert "tools" not in provider.requests[2]
    forget_learned()
    assert stage.play(graph, "third").answer == "Three."
    assert "tools" in provider.requests[3]


def test_directives_of_hooks_survive_the_refusal(stage: Stage, fake_provider: Start) -> None:
    hooks = TurnHooks(before_round=lambda _: "Be brief.")
    provider = fake_provider(script(refuses_tools(), labelled("FINISH", "One.")))
    stage.play(stage.graph(provider), "Go.", context=TurnContext(hooks=hooks))
    assert "Be brief." in provider.requests[1]["messages"][-1]["content"]
