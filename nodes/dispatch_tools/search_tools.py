"""`search_tools`: the built-in tool that finds deferred tools and loads them (docs/tools.md)."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.flow import NodeRun
from turnflow.graph.shown import cut
from turnflow.graph.similar import CJK
from turnflow.graph.tool_names import SEARCH_TOOLS
from turnflow.graph.tool_registry import RegisteredTool
from turnflow.nodes.dispatch_tools.ending import Ended
from turnflow.nodes.dispatch_tools.results import Rendered
from turnflow.prompts import Prompts

DEFAULT_FOUND = 5
MAX_FOUND = 20
MAX_NAMED = 20
_MAX_QUERY = 500
_MAX_LOOKED_AT = 4000
"""Characters of a description that are searched."""
_MAX_LINE = 200
"""Characters of a description that the model is shown with a name."""


class SearchTools(BaseModel):
    """Arguments of `search_tools`."""

    query: str = Field(min_length=1, description="What the tool should do, in a few words, or its name.")
    limit: int = Field(default=DEFAULT_FOUND, ge=1, le=MAX_FOUND, description="Tools to load at most.")


class SearchToolsTool(BuiltinTool):
    """The tool as it is offered to the model; the graph runs it itself."""


def search_tools_tool(prompts: Prompts) -> BaseTool:
    """The built-in tool, described in the language of `prompts`."""
    text = prompts.text("tool", "search_tools")
    return SearchToolsTool(
        name=SEARCH_TOOLS, description=text, args_schema=SearchTools, func=_run_by_the_graph
    )


def _run_by_the_graph(query: str, limit: int = DEFAULT_FOUND) -> str:
    raise RuntimeError(
        f"{SEARCH_TOOLS} changes the graph's tools; it cannot be called by itself: {query!r}, {limit!r}"
    )


def search(arguments: dict[str, Any], run: NodeRun, *, unavailable: Collection[str] = ()) -> Ended:
    """Search the deferred tools of a run, those that are loaded already too; what is found is loaded.

    Args:
        arguments: Those of `SearchTools`.
        run: The run.
        unavailable: Names of the tools that do not exist in this turn.
    """
    tools = run.resources.registry.searchable(unavailable)
    found = find_tools(arguments["query"], tools, arguments.get("limit", DEFAULT_FOUND))
    text, names = render_found(found, tools, run.resources.prompts)
    return Ended("ok", Rendered(text, report={"load": names} if names else {}))


def render_found(
    found: Sequence[RegisteredTool], all_deferred: Sequence[RegisteredTool], prompts: Prompts
) -> tuple[str, list[str]]:
    """What the model reads, and the names to load: a line for each tool, or which tools there are."""
    if not found:
        names = [tool.name for tool in all_deferred[:MAX_NAMED]] + ["…"] * (len(all_deferred) > MAX_NAMED)
        return prompts.text("result", "found_none", names=", ".join(names) or "—"), []
    lines = "\n".join(f"{tool.name}: {_first_line(tool)}" for tool in found)
    return prompts.text("result", "found_tools", tools=lines), [tool.name for tool in found]


def _first_line(tool: RegisteredTool) -> str:
    return cut(_description(tool).strip().partition("\n")[0], _MAX_LINE)


def find_tools(query: str, tools: Sequence[RegisteredTool], limit: int) -> list[RegisteredTool]:
    """Up to `limit` tools that fit the query, the best first; of equal ones the first comes first.

    A tool that the query names comes before all others. Of the rest, those fit whose name, aliases,
    description or argument names share a word with the query; a word counts more in a name, and more if few
    tools have it. Chinese is compared by pairs of characters.
    """
    query = query[:_MAX_QUERY]
    named, wanted = "".join(_runs(query)), _telling(query)
    texts = [_SearchedText(tool) for tool in tools]
    spread = {word: sum(text.weight(word) > 0 for text in texts) for word in wanted}
    ranked = []
    for place, text in enumerate(texts):
        score = sum(text.weight(word) / (1 + math.log(spread[word])) for word in wanted if spread[word])
        if score or named in text.names:
            ranked.append((named not in text.names, -score, place))
    return [tools[place] for _, _, place in sorted(ranked)[: max(0, limit)]]


_IN_NAME = 4.0
_IN_ARGUMENT = 2.0
_IN_DESCRIPTION = 1.0
_KIN = 0.5
"""Part of the weight of a word that another form of it has: "convert" for "converting"."""
_KIN_START = 4
_MAX_ENDING = 3


class _SearchedText:
    """What of a tool is searched: its words, and how much each counts."""

    def __init__(self, tool: RegisteredTool) -> None:
        names = (tool.name, *tool.policy.aliases)
        self.names = {"".join(_runs(name)) for name in names}
        arguments = tool.parameters.get("properties") or {}
        self._weights: dict[str, float] = {}
        self._by_start: dict[str, list[str]] = {}
        self._add(_words(_description(tool)[:_MAX_LOOKED_AT]), _IN_DESCRIPTION)
        self._add(_words(" ".join(map(str, arguments))[:_MAX_LOOKED_AT]), _IN_ARGUMENT)
        self._add(_words(" ".join(names)), _IN_NAME)

    def _add(self, words: Iterable[str], weight: float) -> None:
        for word in words:
            if word not in self._weights:
                self._by_start.setdefault(word[:_KIN_START], []).append(word)
            self._weights[word] = weight

    def weight(self, word: str) -> float:
        """How much a word of the query counts here; 0 if it is not there."""
        if word in self._weights:
            return self._weights[word]
        if len(word) < _KIN_START:
            return 0
        others = self._by_start.get(word[:_KIN_START], ())
        return max((_KIN * self._weights[other] for other in others if _are_kin(word, other)), default=0)


def _are_kin(one: str, other: str) -> bool:
    """Whether two words differ in their endings only."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return max(len(one), len(other)) - shared <= _MAX_ENDING


def _description(tool: RegisteredTool) -> str:
    return str(tool.definition["function"].get("description") or tool.tool.description or "")


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+")
_IS_CJK = re.compile(rf"[{CJK}]")
_ENGLISH_FILLERS = (
    "a an the to of for in on with and or i me my you is it that which what can please need want some "
    "something any tool tools"
)
_CHINESE_FILLERS = "工具 的工 个工 一个 一些 可以 什么 需要 我想 想要 的"
_SAY_NOTHING = frozenset(f"{_ENGLISH_FILLERS} {_CHINESE_FILLERS}".split())


def _telling(query: str) -> list[str]:
    """The words of a query that say what is sought, once each."""
    words = dict.fromkeys(word for run in _runs(query) for word in _pairs(run))
    return [word for word in words if word not in _SAY_NOTHING]


def _words(text: str) -> Iterator[str]:
    """The words of a text that is searched; of Chinese its characters too, for queries of one character."""
    for run in _runs(text):
        yield from _pairs(run)
        if _IS_CJK.match(run):
            yield from run


def _runs(text: str) -> list[str]:
    text = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text))
    return [run.casefold() for run in _WORD.findall(text)]


def _pairs(run: str) -> list[str]:
    """A word as it is; a run of Chinese as its pairs of neighbouring characters."""
    if len(run) == 1 or not _IS_CJK.match(run):
        return [run]
    return [run[n : n + 2] for n in range(len(run) - 1)]
