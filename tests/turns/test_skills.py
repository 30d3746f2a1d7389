"""Skills in a turn: what is loaded is offered from the next request on, and stays with the thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.turns.scripted import Start, call, calls, says, script
from tests.turns.stage import Stage
from turnflow import ToolPolicy
from turnflow.apps.example_tools import Skill, skill_policies, skill_tools
from turnflow.apps.fake_provider import FakeProvider

ran: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


def weigh(parcel: str) -> str:
    """Weigh a parcel."""
    ran.append(parcel)
    return f"{parcel}: 2 kg"


def frank(parcel: str) -> str:
    """Put a stamp on a parcel."""
    ran.append(parcel)
    return f"{parcel} is franked"


SKILLS = {
    "post": Skill("Sending parcels\nby post.", "Weigh before you frank.", tools=(weigh, frank)),
    "scales": Skill("Weighing things.", "Weigh everything twice.", tools=(weigh,)),
    "manners": Skill("Being polite.", "Say please."),
}


def graph_of(stage: Stage, provider: FakeProvider, **options: Any) -> Any:
    return stage.graph(provider, tools=skill_tools(SKILLS), policies=skill_policies(SKILLS), **options)


def offered(request: dict[str, Any]) -> set[str]:
    """Names of the tools of the skills, and `load_skill`."""
    names = {tool["function"]["name"] for tool in request.get("tools", ())}
    return names & {"load_skill", "weigh", "frank"}


def system(request: dict[str, Any]) -> str:
    (first, *_) = request["messages"]
    assert first["role"] == "system"
    return str(first["content"])


def load(name: str, call_id: str = "c1", **options: Any) -> dict[str, Any]:
    return call("load_skill", call_id, name=name, **options)


def test_what_a_skill_brings_is_there_from_the_next_request_on(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(calls(load("post")), calls(call("weigh", parcel="A")), says("Two kilos."))
    )
    played = stage.play(graph_of(stage, provider), "Go.")
    before, after, last = provider.requests
    assert offered(before) == {"load_skill"}
    assert "Weigh before you frank." not in str(before["messages"])
    assert offered(after) == offered(last) == {"load_skill", "weigh", "frank"}
    assert "Weigh before you frank." in system(after)
    assert played.messages[2].content.endswith("your next reply on: weigh, frank.")
    assert (ran, played.status) == (["A"], "finished")


def test_the_model_sees_which_skills_there_are(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(says("Hi.")))
    stage.play(graph_of(stage, provider), "Go.")
    (tool,) = (t for t in provider.requests[0]["tools"] if t["function"]["name"] == "load_skill")
    assert "- post: Sending parcels by post.\n- scales: Weighing things." in tool["function"]["description"]
    assert tool["function"]["parameters"]["properties"]["name"]["enum"] == ["post", "scales", "manners"]


def test_a_tool_that_was_not_loaded_is_not_run(stage: Stage, fake_provider: Start) -> None:
    both = calls(load("post", "c1"), call("weigh", "c2", parcel="A"))
    provider = fake_provider(script(calls(call("weigh", parcel="A")), both, says("Done.")))
    played = stage.play(graph_of(stage, provider), "Go.")
    refused = [m.content for m in played.messages if m.type == "tool" and m.name == "weigh"]
    assert len(refused) == 2
    assert all("no tool named 'weigh'" in text for text in refused)
    assert ran == []


def test_a_skill_stays_loaded_in_its_thread_alone(stage: Stage, fake_provider: Start) -> None:
    first = [calls(load("post")), says("Loaded.")]
    second = [calls(call("frank", parcel="A")), says("Franked.")]
    provider = fake_provider(script(*first, *second, says("Hello.")))
    graph = graph_of(stage, provider)
    stage.play(graph, "Load it.")
    stage.play(graph, "Frank it.")
    stage.play(graph, "Hello.", thread="another")
    *_, next_turn, _, elsewhere = provider.requests
    assert offered(next_turn) == {"load_skill", "weigh", "frank"}
    assert "Weigh before you frank." in system(next_turn)
    assert ran == ["A"]
    assert offered(elsewhere) == {"load_skill"}
    assert "Weigh before you frank." not in system(elsewhere)


@pytest.mark.parametrize("in_one_reply", [True, False])
def test_several_skills_stand_beside_each_other(
    stage: Stage, fake_provider: Start, *, in_one_reply: bool
) -> None:
    one, two = load("post", "c1"), load("manners", "c2")
    steps = [calls(one, two)] if in_one_reply else [calls(one), calls(two)]
    provider = fake_provider(script(*steps, says("Done.")))
    stage.play(graph_of(stage, provider), "Go.")
    text = system(provider.requests[-1])
    assert '<skill name="post">\nWeigh before you frank.\n</skill>' in text
    assert '<skill name="manners">\nSay please.\n</skill>' in text


def test_loading_twice_says_it_once(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(calls(load("post")), calls(load("manners", "c2")), calls(load("post", "c3")), says("Done."))
    )
    stage.play(graph_of(stage, provider), "Go.")
    assert system(provider.requests[-1]).count("Weigh before you frank.") == 1


def test_a_skill_can_be_taken_away_again(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(
        script(
            calls(load("post", "c1"), load("scales", "c2")),
            calls(load("post", "c3", unload=True)),
            calls(load("scales", "c4", unload=True), call("frank", "c5", parcel="A")),
            says("Done."),
        )
    )
    played = stage.play(graph_of(stage, provider), "Go.")
    _, both, one, none = provider.requests
    assert offered(both) == {"load_skill", "weigh", "frank"}
    # The other skill still needs it.
    assert offered(one) == {"load_skill", "weigh"}
    assert "Weigh everything twice." in system(one)
    assert "Weigh before you frank." not in system(one)
    assert "no tool named 'frank'" in played.results()["c5"]
    assert offered(none) == {"load_skill"}
    assert "<skill" not in system(none)


def test_an_unknown_skill_is_refused_with_those_that_there_are(stage: Stage, fake_provider: Start) -> None:
    provider = fake_provider(script(calls(load("cooking")), says("Done.")))
    played = stage.play(graph_of(stage, provider), "Go.")
    assert "post" in played.results()["c1"]
    assert "The call was not run" in played.results()["c1"]


@pytest.mark.parametrize("others", [False, True])
def test_search_tools_finds_no_tool_of_a_skill(stage: Stage, fake_provider: Start, *, others: bool) -> None:
    def fold(paper: str) -> str:
        """Fold a parcel out of paper."""
        return paper

    search = call("search_tools", "c1", query="weigh or frank a parcel", limit=10)
    provider = fake_provider(script(calls(search), calls(call("weigh", "c2", parcel="A")), says("Done.")))
    policies = {"fold": ToolPolicy(deferred=True)} if others else {}
    graph = stage.graph(
        provider,
        tools=[*skill_tools(SKILLS), *([fold] if others else [])],
        policies=skill_policies(SKILLS, policies),
    )
    played = stage.play(graph, "Go.")
    first, second, _ = provider.requests
    assert any(tool["function"]["name"] == "search_tools" for tool in first["tools"]) == others
    assert offered(second) == {"load_skill"}
    assert ("fold" in played.results()["c1"]) == others
    assert "weigh(" not in played.results()["c1"]
    assert ran == []


def test_policies_of_ones_own_are_kept() -> None:
    given: dict[str, Any] = {
        "frank": {"needs_approval": True},
        "weigh": ToolPolicy(timeout=5),
        "other": ToolPolicy(),
    }
    policies = skill_policies(SKILLS, given)
    assert policies["frank"] == ToolPolicy(needs_approval=True, deferred=True, searchable=False)
    assert policies["weigh"] == ToolPolicy(timeout=5, deferred=True, searchable=False)
    assert policies["other"] == ToolPolicy()


# Called with what their types forbid.
skill: Any = Skill
tools_of: Any = skill_tools
policies_of: Any = skill_policies


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (lambda: tools_of({}), "no skill to load"),
        (lambda: tools_of([Skill("x", "y")]), "skills are a dict from a name to a Skill"),
        (lambda: tools_of({"a b": Skill("x", "y")}), "skill 'a b': a name has"),
        (lambda: tools_of({1: Skill("x", "y")}), "skill 1: a name has"),
        (lambda: tools_of({"p": "text"}), r"skill 'p' is a Skill\(.*\), not 'text'"),
        (lambda: policies_of({"p": Skill}), r"skill 'p' is a Skill\(.*\), not <class"),
        (lambda: policies_of({}), "no skill to load"),
        (lambda: policies_of(SKILLS, ["weigh"]), "policies is a dict"),
        (lambda: policies_of(SKILLS, {"weigh": {"needs_aproval": True}}), "'weigh'.*needs_aproval"),
        (lambda: policies_of(SKILLS, {"weigh": True}), "'weigh'"),
        (lambda: skill(" ", "y"), "description is blank"),
        (lambda: skill("x", ""), "instructions is blank"),
        (lambda: skill(None, "x"), "description is a text, not None"),
        (lambda: skill("x", Path("skill.md")), "instructions is a text, not "),
        (lambda: skill("x", "y", tools=weigh), r"a list of tools; give \[...\], not <function weigh"),
        (lambda: skill("x", "y", tools="weigh"), "a list of tools; give .* not 'weigh'"),
        (lambda: skill("x", "y", tools=["weigh"]), "LangChain tools or functions, not 'weigh'"),
        (lambda: skill("x", "y", tools=[partial(weigh)]), "LangChain tools or functions, not functools"),
        (lambda: skill("x", "y", tools=[Skill]), "LangChain tools or functions, not <class"),
    ],
)
def test_what_is_no_skill_is_refused(made: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        made()
