"""The tools of a turn: registered once, looked up by name or alias, offered as schemas."""

from __future__ import annotations

import difflib
import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool
from langchain_core.tools.base import get_all_basemodel_annotations
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from turnflow.graph.json_schema import check_schema
from turnflow.graph.tool_names import is_tool_name
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
    def host_only(self) -> frozenset[str]:
        """Names of arguments that only the host may set: a model's values for them are dropped."""
        schema, shown = self.tool.get_input_schema(), self.parameters.get("properties") or {}
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
        given = {name: ToolPolicy.model_validate(policy) for name, policy in (policies or {}).items()}
        for item in tools:
            self._register(item, given)

    def _register(self, item: BaseTool | Callable[..., Any], policies: Mapping[str, ToolPolicy]) -> None:
        tool = _as_tool(item)
        if not is_tool_name(tool.name):
            raise ValueError(
                f"tool {tool.name!r}: a name has 1 to 64 letters, digits, '_' or '-'; name it so"
            )
        if not (tool.description or "").strip():
            raise ValueError(f"tool {tool.name!r} has no description; the model chooses by it")
        policy = policies.get(tool.name, ToolPolicy())
        registered = RegisteredTool(tool, policy, convert_to_openai_tool(tool))
        try:
            check_schema(registered.parameters)
        except ValueError as error:
            raise ValueError(f"tool {tool.name!r}: {error}") from error
        if hidden := _hidden_arguments(tool):
            raise ValueError(
                f"tool {tool.name!r}: a model cannot give the argument {hidden[0]!r}, for names that begin "
                "with '_' are the host's; rename it, give it a default, or inject it"
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

    def min_rounds(self) -> int:
        """The largest number of rounds that a tool declares; an unreadable declaration counts as 0."""
        return max((declared_rounds(t.policy.min_rounds) for t in self), default=0)


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


def _hidden_arguments(tool: BaseTool) -> list[str]:
    """Arguments that a tool's function needs and that no model can give."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    parameters = inspect.signature(function).parameters.values() if function else ()
    return [
        p.name for p in parameters if p.name.startswith("_") and p.default is p.empty and p.kind not in _MANY
    ]


_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
