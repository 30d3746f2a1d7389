"""`read_result`: the built-in tool that reads on in a result that was too long (docs/results.md)."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.result_shelf import FindResult
from turnflow.graph.tool_names import READ_RESULT
from turnflow.nodes.dispatch_tools.ending import Ended
from turnflow.nodes.dispatch_tools.rendering import MAX_TEXT
from turnflow.nodes.dispatch_tools.results import Rendered
from turnflow.prompts import Prompts

MAX_LIMIT = 100_000
DEFAULT_LIMIT = 8000

_MAX_SHOWN = 80
"""Characters of a handle that does not exist that the model is shown."""


class ReadResult(BaseModel):
    """Arguments of `read_result`."""

    handle: str = Field(description="The result's handle, as the notice in it says.")
    offset: int = Field(default=0, ge=0, le=MAX_TEXT, description="Characters to leave out before the part.")
    limit: int = Field(
        default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Characters of the part at most."
    )


class ReadResultTool(BuiltinTool):
    """The tool as it is offered to the model; the graph runs it itself."""


def read_result_tool(prompts: Prompts) -> BaseTool:
    """The built-in tool, described in the language of `prompts`."""
    text = prompts.text("tool", "read_result")
    return ReadResultTool(name=READ_RESULT, description=text, args_schema=ReadResult, func=_run_by_the_graph)


def _run_by_the_graph(handle: str, offset: int = 0, limit: int = DEFAULT_LIMIT) -> str:
    raise RuntimeError(
        f"{READ_RESULT} reads what the graph keeps; it cannot be called by itself: {handle!r} "
        f"({offset}, {limit})"
    )


def read_on(args: dict[str, Any], run: NodeRun) -> Body[Ended]:
    """Read a part of a result that is kept for this thread.

    Args:
        args: The call's arguments, checked.
        run: The node's run.
    """
    asked, prompts = ReadResult.model_validate(args), run.resources.prompts
    text = yield FindResult(run, asked.handle)
    if text is None:
        rendered = no_result(asked.handle, prompts)
    else:
        most = run.resources.settings.max_result_chars
        rendered = slice_of(text, asked.offset, asked.limit, max_chars=most, prompts=prompts)
    return Ended("ok" if rendered.ok else "error", rendered)


def no_result(handle: str, prompts: Prompts) -> Rendered:
    """What the model reads where it names a handle that this thread does not have."""
    shown = handle if len(handle) <= _MAX_SHOWN else f"{handle[:_MAX_SHOWN]}…"
    return Rendered(prompts.text("result", "no_handle", handle=shown), ok=False)


def slice_of(text: str, offset: int, limit: int, *, max_chars: int, prompts: Prompts) -> Rendered:
    """A part of a text under a line that says which: `offset` to an end that is the next part's offset.

    Args:
        text: The whole.
        offset: Characters before the part; 0 or more.
        limit: Characters of the part at most; 1 or more.
        max_chars: Characters of the part and its line together at most. One character is always read.
        prompts: The texts.
    """
    total = len(text)
    if offset >= total:
        return Rendered(prompts.text("result", "past_end", total=total, offset=offset), ok=False)
    line = len(prompts.text("result", "slice", start=total, end=total, total=total, text=""))
    end = min(total, offset + max(1, min(limit, max_chars - line)))
    return Rendered(
        prompts.text("result", "slice", start=offset, end=end, total=total, text=text[offset:end])
    )
