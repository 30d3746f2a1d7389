"""Hooks observe and direct; the context overrides what the graph was given."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage, echo
from turnflow import (
    OpenAICompatibleChat,
    ProviderProfile,
    ToolPolicy,
    TurnContext,
    TurnHooks,
    TurnSettings,
    build_turn_graph,
    run_turn,
)


def test_hooks_are_called_in_order(stage: Stage, fake_provider: Start) -> None:
    seen: list[tuple[str, int]] = []

    def note(info: dict[str, Any]) -> None:
        seen.append((info["hook"], info["round"]))

    async def anote(info: dict[str, Any]) -> None:
        seen.append((info["hook"], info["round"]))

    hooks = TurnHooks(
        on_turn_start=note, on_first_round=anote, before_round=note, on_tool_result=anote, on_turn_end=anote
    )
    stage.play(stage.graph(fake_provider("one_tool_round")), "Go.", context=TurnContext(hooks=hooks))
    assert seen == [
        ("on_turn_start", 0),
        ("on_first_round", 1),
        ("before_round", 1),
        ("on_tool_result", 1),
        ("before_round", 2),
        ("on_turn_end", 2),
    ]


def test_a_directive_reaches_one_request_and_no_transcript(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider("one_tool_round")

    def direct(info: dict[str, Any]) -> str | None:
        return "Be brief." if info["round"] == 2 else None

    played = stage.play(
        stage.graph(provider), "Go.", context=TurnContext(hooks=TurnHooks(before_round=direct))
    )
    first, second = (request["messages"][1]["content"] for request in provider.requests)
    assert (first, second) == ("Go.", "Go.\n\nBe brief.")
    assert played.messages[0].content == "Go."


def test_a_hook_that_raises_breaks_nothing(
    stage: Stage, fake_provider: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(info: dict[str, Any]) -> str:
        raise RuntimeError(info["hook"])

    async def abad(info: dict[str, Any]) -> str:
        raise RuntimeError(info["hook"])

    hooks = TurnHooks(on_turn_start=bad, before_round=abad, on_tool_result=bad, on_turn_end=abad)
    with caplog.at_level(logging.WARNING, "turnflow"):
        played = stage.play(
            stage.graph(fake_provider("one_tool_round")), "Go.", context=TurnContext(hooks=hooks)
        )
    assert played.status == "finished"
    assert "hook on_turn_start raised" in caplog.text


def test_context_overrides_tools_settings_and_instructions(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Hi.")))
    graph = stage.graph(provider, instructions="Old.")
    context = TurnContext(tools=[echo], settings={"ask_user": False}, instructions="New.", locale="zh")
    stage.play(graph, "Go.", context=context)
    (request,) = provider.requests
    assert [t["function"]["name"] for t in request["tools"]] == ["echo"]
    assert request["messages"][0]["content"].endswith("New.")
    assert request["messages"][0]["content"].startswith("你是")


def test_context_may_be_a_dict_and_name_a_model(
    stage: Stage, fake_provider: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = fake_provider(script(says("Hi.")))
    model = stage.model(provider)
    graph = build_turn_graph(checkpointer=stage.saver)
    played = stage.play(graph, "Go.", context={"model": model, "user_id": "ann"})
    assert played.answer == "Hi."
    monkeypatch.delenv("TURNFLOW_MODEL", raising=False)
    with pytest.raises(ValueError, match="no model: pass model="):
        stage.play(graph, "Go.", thread="u")


def test_a_context_names_a_behaviour_and_a_protocol(
    stage: Stage, fake_provider: Start, tmp_path: Path
) -> None:
    own = tmp_path / "own.md"
    own.write_text('+++\nlabels = {terminal = ["SAY"], final = ["SAY"]}\n+++\nSay it.', encoding="utf-8")
    steps = [says("``FINISH``\nOne."), says("``SAY``\nTwo."), says("Three.")]
    graph = stage.graph(fake_provider(script(*steps)))
    contexts: list[dict[str, Any]] = [
        {"behaviour": "solve"},
        {"behaviour": own},
        {"behaviour": own, "protocol": "native"},
    ]
    played = [stage.play(graph, "Go.", context=TurnContext(**context)) for context in contexts]
    assert [each.answer for each in played] == ["One.", "Two.", "Three."]


def test_a_context_that_comes_as_json_names_no_files() -> None:
    with pytest.raises(ValueError, match=r"for a file give Path\('/etc/secrets.md'\)"):
        TurnContext(behaviour="/etc/secrets.md")
    for fields, told in (
        ({"protocol": "labels"}, "protocol 'labels' is not one of"),
        ({"instructions": {"a": 1}}, "instructions is a text"),
        ({"behaviour": ["chat"]}, "behaviour is a name or a Path"),
        ({"settings": "x"}, "settings is a dict"),
        ({"settings": None}, "settings is a dict"),
        ({"policies": []}, "policies is a dict"),
        ({"tools": {}}, "tools is a list"),
    ):
        with pytest.raises(ValueError, match=told):
            TurnContext(**fields)


def test_what_a_foreign_message_holds_breaks_no_turn(stage: Stage, fake_provider: Start) -> None:
    foreign = AIMessage("Hello.", additional_kwargs={"turnflow": "x"})
    graph = stage.graph(fake_provider(script(says("Hi."))))
    played = stage.play(graph, {"messages": [HumanMessage("a"), foreign, HumanMessage("b")]}, laws=False)
    assert played.answer == "Hi."


def test_a_wrong_setting_in_the_context_is_refused(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script()))
    with pytest.raises(ValueError, match="max_round"):
        stage.play(graph, "Go.", context=TurnContext(settings={"max_round": 3}))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"protocol": "labels"},
            "protocol 'labels' is not one of: native, label, json; or give a LabelProtocol",
        ),
        ({"behaviour": ["poet"]}, "behaviour is a name or the path of a file"),
        ({"behaviour": "poet.md"}, "poet.md' cannot be read"),
        ({"behaviour": "poet"}, "behaviour 'poet' does not exist; there are: chat"),
        ({"settings": {"max_rounds": 0}}, "max_rounds"),
        ({"settings": {"rounds": 3}}, "settings: there is no field 'rounds'.*; the fields are: max_rounds, "),
        (
            {"settings": {"retries_per_rond": 1}},
            r"no field 'retries_per_rond' \(did you mean 'retries_per_round'",
        ),
        ({"settings": {"max_rounds": True}}, "settings: max_rounds: it is a number, not True$"),
        ({"settings": {"fold_at": False}}, "settings: fold_at: it is a number, not False$"),
        ({"settings": {"locale": "fr", "max_asks": -1}}, "max_asks: .*, not -1; locale: .*, not 'fr'$"),
        ({"settings": {"x" * 100_000: 1}}, f"^settings: there is no field '{'x' * 79}; the fields are"),
        ({"settings": 5}, "settings takes a TurnSettings or a dict of its fields, not 5$"),
        (
            {"provider_profile": {"first_token_timeout": True}},
            "first_token_timeout: it is a number, not True$",
        ),
        ({"provider_profile": {"think_tags": ["a b"]}}, "'a b' is no tag name"),
        ({"model": 3}, "model is a LangChain chat model or the name of one, not 3"),
        ({"model": OpenAICompatibleChat}, "model is a LangChain chat model"),
        ({"model": " "}, "model is an empty name"),
        ({"tools": echo}, "tools is a list"),
        ({"tools": "echo"}, "tools is a list"),
        ({"policies": [1]}, "policies is a dict"),
        ({"instructions": 3}, "instructions is a text"),
    ],
)
def test_bad_arguments_are_refused_when_the_graph_is_built(options: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        build_turn_graph(**{"model": "x", **options})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"settings": {"tool_timout": 1}},
            r"^TurnContext.settings: there is no field 'tool_timout' \(did you mean",
        ),
        ({"settings": {"max_rounds": True}}, "^TurnContext.settings: max_rounds: it is a number, not True$"),
        ({"locale": "fr"}, "^TurnContext: locale: input should be 'en' or 'zh', not 'fr'$"),
    ],
)
def test_settings_of_a_context_are_refused_in_one_line(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        TurnContext(**fields)
    assert "\n" not in str(raised.value)


def test_a_switch_is_no_number() -> None:
    with pytest.raises(ValueError, match="it is a number"):
        TurnSettings(max_rounds=True)
    assert TurnSettings(ask_user=False, max_rounds=3).max_rounds == 3


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"context": "x"}, "context is a TurnContext or a dict of its fields, not 'x'"),
        ({"context": {"modelname": "x"}}, "context has no field 'modelname'; the fields are: model_name"),
        ({"on_event": 3}, "on_event is a plain function"),
        ({"input": 3}, "the input is a message, a list of messages or Command"),
        ({"input": {"messages": []}}, "the input is a message"),
        ({"input": HumanMessage(" ")}, "the user message is empty"),
        ({"input": [("user", "")]}, "the user message is empty"),
    ],
)
def test_bad_arguments_of_a_run_are_refused(
    stage: Stage, fake_provider: Start, options: dict[str, Any], complaint: str
) -> None:
    graph = stage.graph(fake_provider(script()))
    given = {"input": "Go.", **options}
    with pytest.raises(ValueError, match=complaint):
        run_turn(graph, given.pop("input"), **given)


def test_a_coroutine_cannot_listen_to_events(stage: Stage, fake_provider: Start) -> None:
    async def listen(event: dict[str, Any]) -> None: ...

    with pytest.raises(ValueError, match="on_event is a plain function"):
        run_turn(stage.graph(fake_provider(script())), "Go.", on_event=listen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"hooks": print}, "hooks is a TurnHooks"),
        ({"cancel": True}, "cancel is a CancelToken"),
        ({"user_id": 5}, "TurnContext.user_id is a text, not 5"),
        ({"user_id": object()}, "TurnContext.user_id is a text, not <object"),
        ({"user_id": "u" * 201}, "TurnContext.user_id has 201 characters, 200 is the most"),
        ({"summariser": 5}, "TurnContext.summariser is a LangChain chat model or the name of one, not 5"),
        ({"summariser": " "}, "TurnContext.summariser is an empty name"),
    ],
)
def test_a_context_takes_nothing_that_breaks_a_turn_midway(fields: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TurnContext(**fields)
    with pytest.raises(ValueError, match="hook before_round is a function, not 3"):
        TurnHooks(before_round=3)  # type: ignore[arg-type]


def test_a_user_id_of_the_longest_kind_is_taken() -> None:
    assert TurnContext(user_id="u" * 200, summariser="small").summariser == "small"


def test_coalesced_deltas_lose_nothing(stage: Stage, fake_provider: Start) -> None:
    text = "word " * 60
    slow = {"reply": {"content": f"<think>hm</think>{text}"}, "stream": {"chunk": 1, "delay": 0.002}}
    provider = fake_provider(script(slow, slow))
    graph = stage.graph(provider)
    each = stage.play(graph, "Go.", thread="a")
    few = stage.play(graph, "Go.", thread="b", context=TurnContext(settings={"coalesce_ms": 60}))
    assert each.answer == few.answer == text
    assert len(few.of("content.delta")) < len(each.of("content.delta")) / 4
    assert few.of("content.delta")[0]["time"] < few.events[-1]["time"]


def test_held_text_goes_out_when_the_model_stalls(stage: Stage, fake_provider: Start) -> None:
    reply = {"reply": {"content": ["One ", "two ", "three."]}, "stream": {"delay": 0.25}}
    graph = stage.graph(fake_provider(script(reply)))
    played = stage.play(graph, "Go.", context=TurnContext(settings={"coalesce_ms": 100}))
    assert [e["text"] for e in played.of("content.delta")] == ["One ", "two ", "three."]


def test_events_carry_the_documented_fields(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(call("echo", text="x")), says("Done.")))
    played = stage.play(stage.graph(provider), "Go.")
    for event in played.events:
        assert {"type", "session_id", "turn_id", "round", "seq", "time"} <= set(event)
        assert event["session_id"] == "t"
    assert {event["turn_id"] for event in played.events} == {f"turn-{played.messages[0].id}"}


def test_built_in_tools_speak_the_runs_language(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Hi."), says("你好。")))
    graph = stage.graph(provider)
    stage.play(graph, "Go.", thread="a")
    stage.play(graph, "开始。", thread="b", context=TurnContext(locale="zh"))
    described = [r["tools"][-1]["function"]["description"] for r in provider.requests]
    assert described[0].startswith("Ask the user")
    assert described[1].startswith("向用户")


def test_policies_of_tools_that_a_run_leaves_out_do_no_harm(stage: Stage, fake_provider: Start) -> None:
    graph = stage.graph(fake_provider(script(says("Hi."))), policies={"add": {"timeout": 3}})
    assert stage.play(graph, "Go.", context=TurnContext(tools=[echo])).answer == "Hi."
    with pytest.raises(ValueError, match="no tool is named 'sub'"):
        stage.play(graph, "Go.", thread="u", context=TurnContext(policies={"sub": ToolPolicy()}))


def test_the_models_own_profile_counts_where_the_graph_has_none(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider("tools_refused")
    model = stage.model(provider, provider_profile=ProviderProfile(native_tools=False))
    graph = build_turn_graph(model, [echo], checkpointer=stage.saver)
    assert stage.play(graph, "Go.").answer == "Without tools, then."


def test_the_graphs_profile_reaches_the_model(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Hi.")))
    profile = {"token_limit_parameter": "max_completion_tokens"}
    graph = build_turn_graph(
        stage.model(provider),
        provider_profile=profile,
        settings={"max_output_tokens": 9},
        checkpointer=stage.saver,
    )
    stage.play(graph, "Go.")
    assert provider.requests[0]["max_completion_tokens"] == 9
