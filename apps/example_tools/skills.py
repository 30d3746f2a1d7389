"""Skills: instructions and tools that a model loads when it needs them (docs/skills.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import Field, create_model

from turnflow.graph.tool_names import is_tool_name
from turnflow.graph.tool_policy import ToolOutput, ToolPolicy
from turnflow.graph.tool_registry import as_policy

Tool = BaseTool | Callable[..., Any]

LOAD_SKILL = "load_skill"
"""Name of the tool that loads a skill and takes it away again."""

_DESCRIPTION = (
    "Load a skill: instructions, and tools that can be called from your next reply on. Load one before you "
    "do what it is about. There are:\n{skills}"
)
_BLOCK = '<skill name="{name}">\n{instructions}\n</skill>'
_KEY = "skill:"
"""Before a skill's name, under which its instructions are kept with the thread."""


@dataclass(frozen=True)
class Skill:
    """What a model can load to do one kind of work.

    Attributes:
        description: When to load it; a line that the model always sees.
        instructions: How to do the work. They go into the system prompt, and are obeyed: never put text from
            outside into them.
        tools: Tools that come with it, LangChain tools or typed functions.

    Raises:
        ValueError: The description or the instructions are no text, or blank; `tools` is no list of tools.
    """

    description: str
    instructions: str
    tools: Sequence[Tool] = ()

    def __post_init__(self) -> None:
        """Refuse a skill that says nothing."""
        for name in ("description", "instructions"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise ValueError(f"a skill's {name} is a text, not {text!r:.80}")
            if not text.strip():
                raise ValueError(f"a skill's {name} is blank; say what it is for and how it is done")
        tools: object = self.tools
        if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
            raise ValueError(f"a skill's tools are a list of tools; give [...], not {tools!r:.80}")
        for tool in tools:
            if (
                isinstance(tool, type)
                or not (isinstance(tool, BaseTool) or callable(tool))
                or not _name(tool)
            ):
                raise ValueError(f"a skill's tools are LangChain tools or functions, not {tool!r:.80}")

    @property
    def tool_names(self) -> list[str]:
        """Names of its tools."""
        return [_name(tool) for tool in self.tools]


def skill_tools(skills: Mapping[str, Skill]) -> list[Tool]:
    """The tool `load_skill`, and the tools of all skills, each once; for `build_turn_graph`.

    Give `skill_policies(skills)` beside them, or the tools are offered from the start.

    Raises:
        ValueError: There is no skill, a name has other characters than a tool's name may have, or what is
            given under it is no `Skill`.
    """
    _check(skills)
    tools: list[Tool] = [_load_skill(skills)]
    for skill in skills.values():
        tools += [tool for tool in skill.tools if tool not in tools]
    return tools


def skill_policies(
    skills: Mapping[str, Skill], policies: Mapping[str, ToolPolicy | Mapping[str, Any]] | None = None
) -> dict[str, ToolPolicy]:
    """The policies of `skill_tools`: what comes with a skill is offered only once that was loaded.

    `search_tools` does not find it: it would come without the skill's instructions.

    Args:
        skills: As they were given to `skill_tools`.
        policies: What else is to hold for some of the tools, by name, as a `ToolPolicy` or its fields;
            policies of other tools stay as they are.

    Raises:
        ValueError: As `skill_tools`; or a policy is none, and the text names it.
    """
    _check(skills)
    if not isinstance(policies, Mapping | None):
        raise ValueError(f"policies is a dict from a tool's name to its ToolPolicy, not {policies!r:.80}")
    given = {name: as_policy(name, policy) for name, policy in (policies or {}).items()}
    for name in dict.fromkeys(name for skill in skills.values() for name in skill.tool_names):
        whenever = {"deferred": True, "searchable": False}
        given[name] = given.get(name, ToolPolicy()).model_copy(update=whenever)
    # Two in one reply must see each other; what they change is the thread, which they leave to the graph.
    given.setdefault(LOAD_SKILL, ToolPolicy(read_only=True, parallel_safe=False))
    return given


def _check(skills: object) -> None:
    """Refuse what are no skills.

    Raises:
        ValueError: The text names the skill and the mend.
    """
    if not isinstance(skills, Mapping):
        raise ValueError(f"skills are a dict from a name to a Skill, not {skills!r:.80}")
    if not skills:
        raise ValueError("there is no skill to load; give at least one")
    for name, skill in skills.items():
        if not isinstance(name, str) or not is_tool_name(name):
            raise ValueError(f"skill {name!r}: a name has 1 to 64 letters, digits, '_' or '-'; name it so")
        if not isinstance(skill, Skill):
            raise ValueError(f"skill {name!r} is a Skill(description, instructions), not {skill!r:.80}")


def _load_skill(skills: Mapping[str, Skill]) -> BaseTool:
    def load_skill(name: str, runtime: ToolRuntime, *, unload: bool = False) -> ToolOutput:
        skill = skills[name]
        if not unload:
            text = _BLOCK.format(name=name, instructions=skill.instructions.strip())
            return ToolOutput(
                _loaded_text(name, skill), load=skill.tool_names, instructions={_KEY + name: text}
            )
        others = [other for other in _loaded(runtime.state) if other in skills and other != name]
        kept = {tool for other in others for tool in skills[other].tool_names}
        return ToolOutput(
            f"The skill {name!r} is not loaded any more.",
            unload=[tool for tool in skill.tool_names if tool not in kept],
            instructions={_KEY + name: ""},
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


def _loaded(state: Any) -> list[str]:
    """Names of the skills that are loaded.

    An earlier call of the same reply is not there yet; what it asked for is in the batch.
    """
    texts = dict((state.get("session") or {}).get("instructions") or {})
    for call in ((state.get("batch") or {}).get("calls") or {}).values():
        if call["done"] and isinstance(said := call.get("instructions"), dict):
            texts |= said
    return [key.removeprefix(_KEY) for key, text in texts.items() if text and key.startswith(_KEY)]


def _name(tool: Tool) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))
