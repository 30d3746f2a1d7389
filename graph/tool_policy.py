"""What stands beside a tool: its policy, and what a tool may return to say more than text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages.tool import ToolOutputMixin
from pydantic import BaseModel, ConfigDict, Field


class ToolPolicy(BaseModel):
    """How a tool is run; it sits beside the tool, not in it (docs/tools.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout: float | None = Field(default=None, gt=0)
    """Seconds after which the call is given up; None takes `TurnSettings.tool_timeout`."""
    parallel_safe: bool = True
    """Whether the tool may run beside others. If False, it runs alone, in the model's order."""
    max_result_chars: int | None = Field(default=None, ge=200)
    """Longest result text in characters; None takes `TurnSettings.max_result_chars`."""
    aliases: tuple[str, ...] = ()
    """Other names under which a model may call the tool."""
    min_rounds: Any = 0
    """Rounds that the tool needs; raises `TurnSettings.max_rounds`. What is no whole number counts as 0, so
    that a declaration that cannot be read breaks nothing."""
    available: Callable[[Any], bool] | None = None
    """Given the `TurnContext`, says whether the tool exists in this turn."""


@dataclass(frozen=True)
class ToolOutput(ToolOutputMixin):
    """What a tool returns to say more than text.

    Attributes:
        content: What the model reads: text, or anything that a plain return could be.
        sources: Citations, of any JSON shape; collected into `outcome["sources"]` without duplicates.
        checkpoint: A summary that stands for the turn's earlier rounds from now on (docs/folding.md).
        terminate: The content is the turn's answer, and the turn ends with it.
    """

    content: Any
    sources: Sequence[Any] = ()
    checkpoint: str | None = None
    terminate: bool = False
