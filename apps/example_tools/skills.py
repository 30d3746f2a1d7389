"""Skills: instructions and tools that a model loads when it needs them (docs/skills.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import Field, create_model

from turnflow.graph.tool_names import is_tool_name
from turnflow.graph.tool_policy import ToolOutput, ToolPolicy

Tool = BaseTool | Callable[..., Any]

LOAD_SKILL = "load_skill"
"""Name of the tool that loads a skill and takes it away again."""

_DESCRIPTION = (
    "Load a skill: instructions, and tools that can be called from your next reply on. Load one before you "
    "do what it is about. There are:\n{skills}"
)
_BLOCK = '<skill name="{name}">\n{instructions}\n</skill>'
_OPENER = re.compile(r'^<skill name="([^"\n]+)">$', re.MULTILINE)


@dataclass(frozen=True)
class Skill:
    """What a model can load to do one kind of work.

    Attributes:
        description: When to load it; a line that the model always sees.
        instructions: How to do the work. They go into the system prompt, and are obeyed: never put text from
            outside into them.
        tools: Tools that come with it, LangChain tools or typed functions.

    Raises:
        ValueError: The description or the instructions are blank.
    """

    description: str
    instructions: str
    tools: Sequence[Tool] = ()

    def __post_init__(self) -> None:
        """Refuse a skill that says nothing."""
        for name in ("description", "instructions"):
            if not getattr(self, name).strip():
                raise ValueError(f"a skill's {name} is blank; say what it is for and how it is done")

    @property
    def tool_names(self) -> list[str]:
        """Names of its tools."""
        return [_name(tool) for tool in self.tools]


def skill_tools(skills: Mapping[str, Skill]) -> list[Tool]:
    """The tool `load_skill`, and the tools of all skills, each once; for `build_turn_graph`.

    Give `skill_policies(skills)` beside them, or the tools are offered from the start.

    Raises:
        ValueError: There is no skill, or a name has other characters than a tool's name may have.
    """
    tools: list[Tool] = [_load_skill(skills)]
    for skill in skills.values():
        tools += [tool for tool in skill.tools if tool not in tools]
    return tools


def skill_policies(
    skills: Mapping[str, Skill], policies: Mapping[str, ToolPolicy] | None = None
) -> dict[str, ToolPolicy]:
    """The policies of `skill_tools`: what comes with a skill is offered only once that was loaded.

    Args:
        skills: As they were given to `skill_tools`.
        policies: What else is to hold for some of the tools, by name; policies of other tools stay as they
            are.
    """
    given = dict(policies or {})
    for name in dict.fromkeys(name for skill in skills.values() for name in skill.tool_names):
        given[name] = given.get(name, ToolPolicy()).model_copy(update={"deferred": True})
    # Two in one reply must see each other; what they change is the thread, which they leave to the graph.
    given.setdefault(LOAD_SKILL, ToolPolicy(read_only=True, parallel_safe=False))
    return given


def _load_skill(skills: Mapping[str, Skill]) -> BaseTool:
    if not skills:
        raise ValueError("there is no skill to load; give at least one")
    for name in skills:
        if not is_tool_name(name):
            raise ValueError(f"skill {name!r}: a name has 1 to 64 letters, digits, '_' or '-'; name it so")

    def load_skill(name: str, runtime: ToolRuntime, *, unload: bool = False) -> ToolOutput:
        others = [other for other in _loaded(runtime.state) if other in skills and other != name]
        skill = skills[name]
        if not unload:
            return ToolOutput(
                _loaded_text(name, skill),
                load=skill.tool_names,
                instructions=_instructions(skills, [*others, name]),
            )
        kept = {tool for other in others for tool in skills[other].tool_names}
        return ToolOutput(
            f"The skill {name!r} is not loaded any more.",
            unload=[tool for tool in skill.tool_names if tool not in kept],
            instructions=_instructions(skills, others),
        )

    listed = "\n".join(f"- {name}: {' '.join(skill.description.split())}" for name, skill in skills.items())
    fields: dict[str, Any] = {
        "name": (Literal[tuple(skills)], Field(description="Which skill.")),
        "unload": (bool, Field(default=False, description="Whether it is taken away again.")),
    }
    return StructuredTool.from_function(
        load_skill,
        name=LOAD_SKILL,
        description=_DESCRIPTION.format(skills=listed),
        args_schema=create_model("LoadSkill", **fields),
    )


def _loaded_text(name: str, skill: Skill) -> str:
    text = f"The skill {name!r} is loaded: its instructions stand in the system prompt from now on."
    if not skill.tools:
        return text
    return f"{text} These tools can be called from your next reply on: {', '.join(skill.tool_names)}."


def _instructions(skills: Mapping[str, Skill], names: Sequence[str]) -> str:
    """The text that stands in the system prompt for all loaded skills; '' for none."""
    return "\n\n".join(
        _BLOCK.format(name=name, instructions=skills[name].instructions.strip()) for name in names
    )


def _loaded(state: Any) -> list[str]:
    """Names of the skills whose instructions stand in the system prompt, in the order of loading.

    An earlier call of the same reply is not there yet; what it asked for is in the batch.
    """
    text = ((state.get("session") or {}).get("instructions") or {}).get(LOAD_SKILL) or ""
    for call in ((state.get("batch") or {}).get("calls") or {}).values():
        if call["name"] == LOAD_SKILL and call["done"] and call.get("instructions") is not None:
            text = call["instructions"]
    return list(dict.fromkeys(_OPENER.findall(text)))


def _name(tool: Tool) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))
