"""A tool's value as it is, before LangChain makes text of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.tools import BaseTool


@dataclass(frozen=True, repr=False)
class Returned(ToolOutputMixin):
    """A tool's value as it is; LangChain makes text of any value that does not stand in one of these."""

    value: Any
    artifact: Any = None


def with_values(tool: BaseTool) -> BaseTool:
    """The tool with values that come through as they are, for `render` to look at.

    LangChain would write a value that is no text by `json.dumps` or `str`, whatever it is and however long.
    """
    run, arun = tool._run, tool._arun  # noqa: SLF001 - the documented methods to override
    has_artifact = tool.response_format == "content_and_artifact"

    @functools.wraps(run)
    def kept(*args: Any, **kwargs: Any) -> Any:
        return _returned(run(*args, **kwargs), has_artifact=has_artifact)

    @functools.wraps(arun)
    async def akept(*args: Any, **kwargs: Any) -> Any:
        value = await arun(*args, **kwargs)
        return _returned(value, has_artifact=has_artifact)

    copy = tool.model_copy()
    object.__setattr__(copy, "_run", kept)
    object.__setattr__(copy, "_arun", akept)
    return copy


def _returned(value: Any, *, has_artifact: bool) -> Any:
    content, artifact = value, None
    if has_artifact:
        if not isinstance(value, tuple) or len(value) != len(("content", "artifact")):
            return value  # LangChain says what is wrong with it
        content, artifact = value
    if isinstance(content, str | ToolOutputMixin):
        return value
    return (Returned(content, artifact), None) if has_artifact else Returned(content)
