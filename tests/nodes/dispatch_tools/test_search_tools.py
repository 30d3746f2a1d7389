"""Deferred tools are found by what they do, in any language, best first."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.runtime import Runtime

from turnflow import ToolPolicy, TurnSettings
from turnflow.graph.flow import NodeRun
from turnflow.graph.resources import Registries, TurnResources
from turnflow.graph.tool_registry import RegisteredTool, ToolRegistry
from turnflow.nodes.dispatch_tools.search_tools import (
    MAX_FOUND,
    MAX_NAMED,
    find_tools,
    render_found,
    search,
    search_tools_tool,
)
from turnflow.prompts import Prompts

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)

EN, ZH = Prompts("en"), Prompts("zh")


def made(name: str, description: str, **arguments: str) -> StructuredTool:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in arguments.items()}}
    return StructuredTool(name=name, description=description, args_schema=schema, func=lambda **_: "ok")


TOOLS = [
    made(
        "get_weather", "Say how the weather will be.\nWorks for all of Europe.", city="string", day="string"
    ),
    made("convertCurrency", "Convert an amount of money.", amount="number", to_currency="string"),
    made("send_mail", "Send a letter to somebody.", recipient="string", body="string"),
    made("read_mail", "Read the letters in the inbox.", folder="string"),
    made("HTTPFetch", "Load a page of the web.", url="string"),
    made("tianqi", "查询城市的天气预报", city="string"),
    made("translate", "把文本翻译成另一种语言", text="string"),
]


def registered(tools: list[StructuredTool], **policies: ToolPolicy) -> list[RegisteredTool]:
    return list(ToolRegistry(tools, policies))


def found(query: str, limit: int = 5, **policies: ToolPolicy) -> list[str]:
    return [tool.name for tool in find_tools(query, registered(TOOLS, **policies), limit)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("weather", ["get_weather"]),
        ("WEATHER tomorrow", ["get_weather"]),
        ("What will the weather be?", ["get_weather"]),
        ("a tool that converts currencies", ["convertCurrency"]),
        ("currency", ["convertCurrency"]),
        ("fetch", ["HTTPFetch"]),
        ("http", ["HTTPFetch"]),
        ("url", ["HTTPFetch"]),
        ("recipients", ["send_mail"]),
        ("mail", ["send_mail", "read_mail"]),
        ("read mail", ["read_mail", "send_mail"]),
        ("letter inbox", ["read_mail", "send_mail"]),
        ("read_mail", ["read_mail", "send_mail"]),
        (" Read_Mail ", ["read_mail", "send_mail"]),
        ("convert currency", ["convertCurrency"]),
        ("city", ["get_weather", "tianqi"]),
        ("查天气", ["tianqi"]),
        ("我需要一个翻译工具", ["translate"]),
        ("译", ["translate"]),
        ("translate 天气", ["translate", "tianqi"]),
        ("ｗｅａｔｈｅｒ", ["get_weather"]),
        ("rocket", []),
        ("火箭", []),
        ("a tool", []),
        ("?!", []),
        ("", []),
    ],
)
def test_what_a_query_finds(query: str, names: list[str]) -> None:
    assert found(query) == names


def test_the_named_tool_comes_first_whatever_else_fits() -> None:
    tools = [made("mail", "Mail."), made("mail_mail", "Mail mail mail."), made("my_tool", "Nothing.")]
    assert [t.name for t in find_tools("MAIL_mail", registered(tools), 5)] == ["mail_mail", "mail"]
    assert [t.name for t in find_tools("my tool", registered(tools), 5)] == ["my_tool"]


def test_aliases_are_names() -> None:
    assert found("forecast") == []
    assert found("forecast", get_weather=ToolPolicy(aliases=("forecast",))) == ["get_weather"]


def test_a_word_that_few_tools_have_says_more() -> None:
    tools = [*(made(f"t{n}", "Handles files.") for n in range(8)), made("z", "Handles ZIP.")]
    assert [t.name for t in find_tools("zip files", registered(tools), 2)] == ["z", "t0"]


def test_no_more_than_the_limit_are_found_and_equal_ones_keep_their_order() -> None:
    tools = registered([made(f"tool_{n}", "Count sheep.") for n in range(9)])
    assert [t.name for t in find_tools("sheep", tools, 3)] == ["tool_0", "tool_1", "tool_2"]
    assert find_tools("sheep", tools, 0) == []


def test_the_text_has_a_line_for_each_tool() -> None:
    tools = registered(TOOLS)
    text, names = render_found(tools[:2], tools, EN)
    assert text.splitlines() == [
        "These tools can be called from your next reply on:",
        "get_weather: Say how the weather will be.",
        "convertCurrency: Convert an amount of money.",
    ]
    assert names == ["get_weather", "convertCurrency"]
    assert render_found(tools[:1], tools, ZH)[0].startswith("从你的下一个回复起可以调用这些工具")


def test_where_nothing_fits_the_text_names_some_of_what_there_is() -> None:
    few = registered(TOOLS[:2])
    assert render_found([], few, EN) == ("No further tool fits. There are: get_weather, convertCurrency.", [])
    many = registered([made(f"tool_{n}", "Count sheep.") for n in range(MAX_NAMED + 1)])
    text = render_found([], many, EN)[0]
    assert f"tool_{MAX_NAMED - 1}, …" in text
    assert f"tool_{MAX_NAMED}" not in text
    assert render_found([], [], EN) == ("No further tool fits. There are: —.", [])


def test_the_text_stays_short() -> None:
    tools = registered([made(f"tool_{n}", "word " * 4_000) for n in range(40)])
    assert len(render_found(tools[:MAX_FOUND], tools, EN)[0]) < 300 * MAX_FOUND
    assert len(render_found([], tools, EN)[0]) < 100 * MAX_NAMED
    assert len(find_tools("word " * 10_000, tools, 5)) == 5


def resources(**policies: ToolPolicy) -> TurnResources:
    return TurnResources(
        make_model=lambda name, profile: pytest.fail("no model is called"),
        registries=Registries(lambda settings: [search_tools_tool(Prompts(settings.locale))]),
        tools=TOOLS,
        policies=policies,
        settings=TurnSettings(ask_user=False),
    )


def searched(arguments: dict[str, Any], unavailable: list[str], **policies: ToolPolicy) -> Any:
    run = NodeRun(resources(**policies), RunnableConfig(), Runtime())
    return search(arguments, run, unavailable=unavailable)


def test_only_deferred_tools_that_exist_are_searched_and_loaded() -> None:
    late = ToolPolicy(deferred=True)
    ended = searched({"query": "mail"}, [], read_mail=late)
    assert ended.status == "ok"
    assert ended.rendered.report == {"load": ["read_mail"]}
    both = {"read_mail": late, "send_mail": late}
    assert searched({"query": "mail"}, ["read_mail"], **both).rendered.report == {"load": ["send_mail"]}
    assert searched({"query": "mail", "limit": 1}, [], **both).rendered.report == {"load": ["send_mail"]}
    nothing = searched({"query": "rocket"}, ["read_mail"], **both)
    assert nothing.rendered.content == "No further tool fits. There are: send_mail."
    assert nothing.rendered.report == {}


def test_the_tool_is_offered_and_cannot_be_called_by_itself() -> None:
    tool = search_tools_tool(ZH)
    assert tool.description == ZH.text("tool", "search_tools")
    only = next(iter(ToolRegistry([tool])))
    assert only.parameters["required"] == ["query"]
    assert only.parameters["properties"]["limit"]["default"] == 5
    with pytest.raises(RuntimeError, match="cannot be called by itself"):
        tool.invoke({"query": "mail"})


@FUZZ
@given(
    st.text(st.characters()) | st.lists(st.sampled_from(["mail", "天气", "city", "_", "A"])).map(" ".join),
    st.integers(-1, 9),
)
def test_any_query_finds_some_of_the_tools(query: str, limit: int) -> None:
    tools = registered(TOOLS)
    names = [tool.name for tool in find_tools(query, tools, limit)]
    assert len(names) <= max(0, limit)
    assert len(set(names)) == len(names)
    assert names == [tool.name for tool in find_tools(query, tools, len(TOOLS))][: max(0, limit)]


@FUZZ
@given(st.sampled_from(TOOLS), st.sampled_from([str.upper, str.lower, str.swapcase, " {} ".format]))
def test_every_tool_is_found_first_by_its_name(tool: StructuredTool, written: Any) -> None:
    assert found(written(tool.name))[0] == tool.name
