"""Policies for the tools of an MCP server, from what the server says of them (docs/mcp.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from langchain_core.tools import BaseTool

from turnflow.graph.tool_names import ASK_USER, READ_RESULT, SEARCH_TOOLS
from turnflow.graph.tool_policy import ToolPolicy

_BUILT_IN = {ASK_USER, READ_RESULT, SEARCH_TOOLS}


def mcp_policies(
    tools: Iterable[BaseTool], *, trusted: bool = False, timeout: float | None = None
) -> dict[str, ToolPolicy]:
    """A policy for each tool, for `build_turn_graph`.

    A server annotates its tools with hints. They are claims: a hostile server calls a tool that deletes files
    read-only. So they count only where the caller trusts the server; else a person approves every call.

    Args:
        tools: A list, as `langchain_mcp_adapters` gives it: annotations are in a tool's metadata.
        trusted: Whether to take the server at its word. A tool is then `read_only` and `idempotent` as it is
            annotated, and one that may destroy something needs approval. What a server does not say is taken
            as the protocol takes it: not read-only, destructive, not idempotent.
        timeout: Seconds for a call; None takes `TurnSettings.tool_timeout`.

    Raises:
        ValueError: What is given is no list of tools, or a tool has the name of a built-in one, whose place
            it would take, or of another one; the text names it and the mend.
    """
    policies: dict[str, ToolPolicy] = {}
    for tool in _listed(tools):
        if tool.name in _BUILT_IN or tool.name in policies:
            whose = "one of turnflow's own tools" if tool.name in _BUILT_IN else "another tool"
            raise ValueError(
                f"the MCP tool {tool.name!r} has the name of {whose}, and would stand in its place; give "
                "MultiServerMCPClient(..., tool_name_prefix=True), so that the server's name goes before it"
            )
        needs_approval = ToolPolicy(needs_approval=True, timeout=timeout)
        policies[tool.name] = _as_annotated(tool, timeout) if trusted else needs_approval
    return policies


def _listed(tools: object) -> list[BaseTool]:
    """The tools.

    Raises:
        ValueError: They are no list of tools.
    """
    takes = "mcp_policies takes a list of tools, as `await client.get_tools()` gives it"
    if isinstance(tools, BaseTool):
        raise ValueError(f"{takes}; give [{tools.name}]")
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise ValueError(f"{takes}, not {tools!r:.80}")
    listed = list(tools)
    for tool in listed:
        if not isinstance(tool, BaseTool):
            raise ValueError(f"{takes}; {tool!r:.80} is no LangChain tool")
    return listed


def _as_annotated(tool: BaseTool, timeout: float | None) -> ToolPolicy:
    hints = tool.metadata or {}
    read_only = hints.get("readOnlyHint") is True
    return ToolPolicy(
        timeout=timeout,
        read_only=read_only,
        idempotent=read_only or hints.get("idempotentHint") is True,
        needs_approval=not read_only and hints.get("destructiveHint") is not False,
    )
