"""Tools and policies of a run: looked up, replaced, built once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from turnflow import ToolPolicy, TurnContext, TurnSettings
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.resources import Registries, TurnResources
from turnflow.graph.tool_registry import ToolRegistry


def named(name: str) -> BaseTool:
    return StructuredTool.from_function(lambda: name, name=name, description="A tool.")


class Builder:
    """Registries that count how often one was built."""

    def __init__(self) -> None:
        self.built = 0
        self.registries = Registries(self._builtin)

    def _builtin(self, _: TurnSettings) -> Sequence[BaseTool]:
        self.built += 1
        return [named("builtin")]


def _no_model(_name: str, _profile: ProviderProfile) -> Any:
    raise AssertionError("nobody asks for a model here")


def resources(**fields: Any) -> TurnResources:
    return TurnResources(make_model=_no_model, registries=Builder().registries, **fields)


def test_the_registry_of_a_set_of_tools_is_built_once() -> None:
    builder, tools = Builder(), [named("a"), named("b")]
    policies = {"a": ToolPolicy(timeout=1)}
    first = builder.registries.of(tools, policies, TurnSettings())
    assert builder.registries.of(list(tools), dict(policies), TurnSettings(max_rounds=3)) is first
    assert builder.built == 1
    assert first.names == ["a", "b", "builtin"]


def test_the_registry_is_built_again_when_the_set_changes() -> None:
    builder, tools = Builder(), [named("a")]
    policies: dict[str, Any] = {}
    settings = TurnSettings()
    builder.registries.of(tools, policies, settings)
    tools.append(named("b"))
    assert builder.registries.of(tools, policies, settings).names == ["a", "b", "builtin"]
    tools[0] = named("a")
    assert [t.tool for t in builder.registries.of(tools, policies, settings)][:2] == tools
    policies["a"] = ToolPolicy(timeout=1)
    changed = builder.registries.of(tools, policies, settings).find("a")
    assert changed
    assert changed.policy.timeout == 1
    builder.registries.of(tools, policies, TurnSettings(locale="zh"))
    assert builder.built == 5


def test_tools_of_many_runs_are_not_mixed_up() -> None:
    builder = Builder()
    for number in range(100):
        name = f"tool_{number}"
        registry = builder.registries.of([named(name)], {}, TurnSettings())
        assert registry.names == [name, "builtin"]


def test_policies_of_many_runs_are_not_mixed_up() -> None:
    builder, tools = Builder(), [named("a")]
    for number in range(1, 100):
        found = builder.registries.of(tools, {"a": {"timeout": number}}, TurnSettings()).find("a")
        assert found
        assert found.policy.timeout == number


def test_a_tool_of_the_same_name_replaces_a_built_in_one() -> None:
    own = named("builtin")
    registry = Builder().registries.of([own], {}, TurnSettings())
    assert [registered.tool for registered in registry] == [own]


def test_a_runs_policies_win_over_the_graphs() -> None:
    graphs = resources(
        tools=[named("a"), named("b")],
        policies={"a": ToolPolicy(timeout=1), "b": ToolPolicy(timeout=2)},
    )
    run = graphs.for_run(TurnContext(policies={"a": ToolPolicy(timeout=9)}))
    assert {t.name: t.policy.timeout for t in run.registry} == {"a": 9, "b": 2, "builtin": None}
    assert {t.name: t.policy.timeout for t in graphs.registry} == {"a": 1, "b": 2, "builtin": None}


def test_a_runs_policy_of_an_unknown_tool_is_refused() -> None:
    with pytest.raises(ValueError, match="no tool is named 'z'; the tools are: a, builtin"):
        resources(tools=[named("a")]).for_run(TurnContext(policies={"z": ToolPolicy()}))


def test_an_endless_name_has_near_ones_too() -> None:
    registry = ToolRegistry([named("first"), named("list_the_files_of_a_project_folder")])
    assert registry.nearest("x" * 200_000) == registry.names
    assert registry.nearest("list_the_files_of_a_project_folder" + "_" * 200_000) == [
        "list_the_files_of_a_project_folder"
    ]
    assert registry.nearest(" FIRST ") == ["first"]


def test_only_a_few_names_are_near() -> None:
    registry = ToolRegistry([named(f"tool_{number}") for number in range(20)])
    assert len(registry.nearest("tool_")) == 3
    assert len(registry.nearest("?")) == 3
