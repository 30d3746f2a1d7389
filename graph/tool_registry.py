"""The tools of a turn: registered once, looked up by name or alias, offered as schemas."""

from __future__ import annotations

import difflib
import inspect
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId
from langchain_core.tools import tool as make_tool
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt import InjectedState, InjectedStore
from pydantic import BaseModel, ValidationError

from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.loop_guard import digest
from turnflow.graph.shown import shown
from turnflow.graph.tool_definition import definition_of
from turnflow.graph.tool_names import READ_RESULT, SEARCH_TOOLS, is_tool_name
from turnflow.graph.tool_policy import ToolPolicy

logger = logging.getLogger("turnflow")


@dataclass(frozen=True)
class RegisteredTool:
    """A tool with what the turn needs of it."""

    tool: BaseTool
    policy: ToolPolicy
    definition: dict[str, Any]
    """As the request's `tools` list holds it."""

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.tool.name

    @cached_property
    def fingerprint(self) -> str:
        """A digest of name, description and schema: a tool that has another one is another tool."""
        return digest(json.dumps(self.definition, sort_keys=True, default=str))

    def with_defaults(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments with the defaults that the schema names, as the tool will fill them in."""
        properties = self.parameters.get("properties") or {}
        defaults = {
            name: deepcopy(part["default"])
            for name, part in properties.items()
            if isinstance(part, dict) and "default" in part and name not in args
        }
        return {**args, **defaults}

    @cached_property
    def host_only(self) -> frozenset[str]:
        """Names of arguments that only the host may set: a model's values for them are dropped."""
        shown = self.parameters.get("properties") or {}
        if isinstance(self.tool.args_schema, dict):  # an MCP tool's: what its function takes besides
            return frozenset(p.name for p in _named_parameters(self.tool)) - frozenset(shown)
        schema = self.tool.get_input_schema()
        fields = schema.model_fields if issubclass(schema, BaseModel) else {}
        return frozenset(fields) - frozenset(shown)

    @cached_property
    def annotations(self) -> dict[str, Any]:
        """Annotations of the function's parameters and of the schema's fields, by name."""
        function = getattr(self.tool, "func", None) or getattr(self.tool, "coroutine", None)
        hints = get_type_hints(function, include_extras=True) if function else {}
        schema = self.tool.get_input_schema()
        fields = get_all_basemodel_annotations(schema) if issubclass(schema, BaseModel) else {}
        return {**hints, **fields}

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments that the model gives."""
        parameters: dict[str, Any] = self.definition["function"].get("parameters") or {
            "type": "object",
            "properties": {},
        }
        return parameters


class ToolRegistry:
    """The tools of a turn, in the order in which they were given.

    Raises:
        ValueError: A tool without name, description or valid JSON Schema; a name or alias that is taken.
            The text names the tool and the mend.
    """

    def __init__(
        self,
        tools: Iterable[BaseTool | Callable[..., Any]] = (),
        policies: Mapping[str, ToolPolicy | Mapping[str, Any]] | None = None,
    ) -> None:
        self._by_name: dict[str, RegisteredTool] = {}
        self._canonical: dict[str, str] = {}
        given = {name: as_policy(name, policy) for name, policy in (policies or {}).items()}
        for item in tools:
            self._register(item, given)

    def _register(self, item: BaseTool | Callable[..., Any], policies: Mapping[str, ToolPolicy]) -> None:
        tool = _as_tool(item)
        if not is_tool_name(tool.name):
            raise ValueError(
                f"tool {tool.name!r}: a name has 1 to 64 letters, digits, '_' or '-'; name it so"
            )
        policy = policies.get(tool.name, ToolPolicy())
        if isinstance(tool, BuiltinTool) and policy.needs_approval:
            raise ValueError(f"policies[{tool.name!r}]: a built-in tool needs no approval; leave it out")
        try:
            registered = RegisteredTool(tool, policy, definition_of(tool))
        except ValueError as error:
            raise ValueError(f"tool {tool.name!r}: {error}") from error
        if hidden := _hidden_arguments(registered):
            raise ValueError(
                f"tool {tool.name!r}: a model cannot give the argument {hidden[0]!r}, for names that begin "
                "with '_' and injected ones are the host's; rename it, give it a default, or inject it by "
                "InjectedState, InjectedStore, InjectedToolCallId or ToolRuntime"
            )
        for name in (tool.name, *policy.aliases):
            if name in self._canonical:
                raise ValueError(f"tool name or alias {name!r} is given twice; names must be unique")
            self._canonical[name] = tool.name
        self._by_name[tool.name] = registered

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(self._by_name.values())

    @property
    def names(self) -> list[str]:
        """Names in order."""
        return list(self._by_name)

    def find(self, name: str) -> RegisteredTool | None:
        """The tool that a name or an alias stands for, white space around it ignored, or None."""
        canonical = self._canonical.get(name.strip())
        return self._by_name[canonical] if canonical else None

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """Up to `count` names that look most like `name`; the first tools where none does."""
        close = difflib.get_close_matches(name.strip().lower()[:64], self.names, n=count, cutoff=0.4)
        return close or self.names[:count]

    def check_policies(self, names: Iterable[str]) -> None:
        """Refuse policies of tools that do not exist.

        Raises:
            ValueError: The text names the policy and the tools that there are.
        """
        unknown = sorted(set(names) - set(self._by_name))
        if unknown:
            have = ", ".join(self._by_name) or "none"
            raise ValueError(f"policies: no tool is named {unknown[0]!r}; the tools are: {have}")

    def unavailable(self, context: Any) -> list[str]:
        """Names of the tools that do not exist in this context; asks each tool's `available`."""
        return [t.name for t in self if not _is_available(t, context)]

    def without(self, names: Collection[str]) -> ToolRegistry:
        """The registry without some tools."""
        if not names:
            return self
        registry = ToolRegistry()
        registry._by_name = {t.name: t for t in self if t.name not in names}
        registry._canonical = {a: n for a, n in self._canonical.items() if n in registry._by_name}
        return registry

    @cached_property
    def deferred(self) -> frozenset[str]:
        """Names of the tools that are offered only once they were loaded."""
        return frozenset(t.name for t in self if t.policy.deferred)

    def searchable(self, unavailable: Collection[str]) -> list[RegisteredTool]:
        """The deferred tools that `search_tools` may find, but for those that do not exist in this turn."""
        return [t for t in self if t.policy.deferred and t.policy.searchable and t.name not in unavailable]

    def has_built_in(self, name: str) -> bool:
        """Whether the tool of this name is turnflow's own."""
        registered = self._by_name.get(name)
        return registered is not None and isinstance(registered.tool, BuiltinTool)

    def min_rounds(self) -> int:
        """The largest number of rounds that a tool declares; an unreadable declaration counts as 0."""
        return max((declared_rounds(t.policy.min_rounds) for t in self), default=0)


def as_policy(name: str, given: object) -> ToolPolicy:
    """A tool's policy, given as such or as a dict of its fields.

    Raises:
        ValueError: It is neither, or a field is wrong; the text names tool, field and value.
    """
    try:
        return ToolPolicy.model_validate(given)
    except ValidationError as error:
        said = "; ".join(
            ": ".join(filter(None, [".".join(map(str, problem["loc"])), problem["msg"]]))
            for problem in error.errors()
        )
        fields = ", ".join(ToolPolicy.model_fields)
        raise ValueError(
            f"policies[{name!r}] is a ToolPolicy or a dict of its fields: {said} (given {shown(given)}; the "
            f"fields are: {fields})"
        ) from None


def hidden_tools(
    registry: ToolRegistry, *, unavailable: Collection[str], loaded: Collection[str], has_handles: bool
) -> set[str]:
    """Names of the tools that are not offered.

    Args:
        registry: All tools.
        unavailable: Names of those that do not exist in this turn.
        loaded: Names of deferred tools that were loaded.
        has_handles: Whether there is a result to read on in.
    """
    waiting = registry.deferred.difference(loaded, unavailable)
    hidden = {*unavailable, *waiting}
    if not has_handles and registry.has_built_in(READ_RESULT):
        hidden.add(READ_RESULT)
    may_find = any(t.name in waiting for t in registry.searchable(unavailable))
    if not may_find and registry.has_built_in(SEARCH_TOOLS):
        hidden.add(SEARCH_TOOLS)
    return hidden


def declared_rounds(value: Any) -> int:
    """A declared number of rounds, or 0 where it is none."""
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _is_available(registered: RegisteredTool, context: Any) -> bool:
    available = registered.policy.available
    if available is None:
        return True
    try:
        return bool(available(context))
    except Exception:
        logger.warning("`available` of tool %r raised; the tool is left out", registered.name, exc_info=True)
        return False


def _as_tool(item: BaseTool | Callable[..., Any]) -> BaseTool:
    if isinstance(item, BaseTool):
        return item
    if not callable(item):
        raise ValueError(f"{item!r} is no tool; give a LangChain tool or a typed function with a docstring")
    try:
        return make_tool(item)
    except (TypeError, ValueError) as error:
        name = getattr(item, "__name__", repr(item))
        raise ValueError(f"function {name!r} cannot become a tool: {error}") from error


def _hidden_arguments(registered: RegisteredTool) -> list[str]:
    """Arguments that a tool's function or its schema needs and that no model can give."""
    needed = [p.name for p in _named_parameters(registered.tool) if p.default is p.empty]
    required = registered.parameters.get("required") or []
    unnamed = [name for name in (*needed, *required) if name.startswith("_")]
    return [*unnamed, *(name for name in needed if _is_for_nobody(registered.annotations.get(name)))]


def _is_for_nobody(annotation: Any) -> bool:
    """Whether an argument is marked as injected, by a marker that says not what is to be injected."""
    if get_origin(annotation) is not Annotated:
        return False
    marks = [mark if isinstance(mark, type) else type(mark) for mark in get_args(annotation)[1:]]
    injected = [mark for mark in marks if issubclass(mark, InjectedToolArg)]
    return bool(injected) and not any(issubclass(mark, _INJECTED) for mark in injected)


def _named_parameters(tool: BaseTool) -> list[inspect.Parameter]:
    """The parameters of a tool's function that have names of their own."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    parameters = inspect.signature(function).parameters.values() if function else ()
    return [p for p in parameters if p.kind not in _MANY]


_INJECTED = (InjectedState, InjectedStore, InjectedToolCallId)
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
