"""Policies for the tools of an MCP server, from what the server says of them (docs/mcp.md)."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.tools import BaseTool

from turnflow.graph.tool_policy import ToolPolicy


def mcp_policies(
    tools: Iterable[BaseTool], *, trusted: bool = False, timeout: float | None = None
) -> dict[str, ToolPolicy]:
    """A policy for each tool, for `build_turn_graph`.

    A server annotates its tools with hints. They are claims: a hostile server calls a tool that deletes files
    read-only. So they count only where the caller trusts the server; else a person approves every call.

    Args:
        tools: As `langchain_mcp_adapters` gives them: annotations are in a tool's metadata.
        trusted: Whether to take the server at its word. A tool is then `read_only` and `idempotent` as it is
            annotated, and one that may destroy something needs approval. What a server does not say is taken
            as the protocol takes it: not read-only, destructive, not idempotent.
        timeout: Seconds for a call; None takes `TurnSettings.tool_timeout`.
    """
    if not trusted:
        return {tool.name: ToolPolicy(needs_approval=True, timeout=timeout) for tool in tools}
    return {tool.name: _as_annotated(tool, timeout) for tool in tools}


def _as_annotated(tool: BaseTool, timeout: float | None) -> ToolPolicy:
    hints = tool.metadata or {}
    read_only = hints.get("readOnlyHint") is True
    return ToolPolicy(
        timeout=timeout,
        read_only=read_only,
        idempotent=read_only or hints.get("idempotentHint") is True,
        needs_approval=not read_only and hints.get("destructiveHint") is not False,
    )
