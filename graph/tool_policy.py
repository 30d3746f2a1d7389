"""What stands beside a tool: its policy, and what a tool may return to say more than text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from langchain_core.messages.tool import ToolOutputMixin
from pydantic import BaseModel, ConfigDict, Field, field_validator

ReviewDecision = Literal["approve", "edit", "reject", "respond"]
"""What a person may decide about a call that needs approval (docs/permissions.md)."""


class ToolPolicy(BaseModel):
    """How a tool is run; it sits beside the tool, not in it (docs/tools.md)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout: float | None = Field(default=None, gt=0)
    """Seconds after which the call is given up; None takes `TurnSettings.tool_timeout`."""
    read_only: bool = False
    """Whether the tool changes nothing. If False, each call's start is journalled before it runs, and a call
    that a crash broke off is reported, never run again (docs/effects.md)."""
    idempotent: bool = False
    """Whether a call may be run twice with the effect of one: a broken-off call is then run again."""
    needs_approval: bool | Callable[[dict[str, Any]], bool] = False
    """Whether a person must approve a call before it runs; a callable is given the call's arguments. What
    it raises counts as True (docs/permissions.md)."""
    review: tuple[ReviewDecision, ...] = Field(default=("approve", "edit", "reject", "respond"), min_length=1)
    """What that person may decide."""
    parallel_safe: bool = True
    """Whether the tool may run beside others. If False, it runs alone, in the model's order."""
    max_result_chars: int | None = Field(default=None, ge=200)
    """Longest result text in characters; None takes `TurnSettings.max_result_chars`."""
    aliases: tuple[Annotated[str, Field(min_length=1, pattern=r"^\S(.*\S)?$")], ...] = ()
    """Other names under which a model may call the tool, without white space around them."""
    min_rounds: Any = 0
    """Rounds that the tool needs; raises `TurnSettings.max_rounds`. What is no whole number counts as 0, so
    that a declaration that cannot be read breaks nothing."""
    available: Callable[[Any], bool] | None = None
    """Given the `TurnContext`, says whether the tool exists in this turn."""
    deferred: bool = False
    """Whether the tool is offered only once it was loaded: by the built-in `search_tools`, or by another tool
    (`ToolOutput.load`)."""
    searchable: bool = True
    """Whether `search_tools` finds it, where it is deferred."""

    @field_validator("needs_approval")
    @classmethod
    def _is_plain(cls, value: object) -> object:
        """Refuse a coroutine function.

        Raises:
            ValueError: It is one.
        """
        if inspect.iscoroutinefunction(value):
            raise ValueError("a plain function, not a coroutine function; a permission policy may be one")
        return value


@dataclass(frozen=True)
class ToolOutput(ToolOutputMixin):
    """What a tool returns to say more than text.

    Attributes:
        content: What the model reads: text, or anything that a plain return could be.
        sources: Citations, of any JSON shape; collected into `outcome["sources"]` without duplicates.
        checkpoint: A summary that stands for the turn's earlier rounds from now on (docs/folding.md).
        terminate: The content is the turn's answer, and the turn ends with it.
        load: Names of deferred tools that are offered from the next request on, in this thread.
        unload: Names of deferred tools that are no longer offered.
        instructions: Text for the system prompt from the next request on, in this thread, under the tool's
            name, or a dict of texts under keys of their own; "" takes one out again. It is obeyed: never put
            text from outside into it.
        variables: Variables of the session to set, by namespace and key: plain JSON; None takes a key out,
            and all of a namespace where it stands for one (docs/sessions.md).
    """

    content: Any
    sources: Sequence[Any] = ()
    checkpoint: str | None = None
    terminate: bool = False
    load: Sequence[str] = ()
    unload: Sequence[str] = ()
    instructions: str | Mapping[str, str] | None = None
    variables: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
