"""Runs one tool call a task, asks the user, or asks about the calls that need approval."""

from turnflow.nodes.dispatch_tools.ask_user import ask_user_tool
from turnflow.nodes.dispatch_tools.node import dispatch_tools
from turnflow.nodes.dispatch_tools.planning import plan_calls
from turnflow.nodes.dispatch_tools.read_result import read_result_tool
from turnflow.nodes.dispatch_tools.search_tools import search_tools_tool

__all__ = ["ask_user_tool", "dispatch_tools", "plan_calls", "read_result_tool", "search_tools_tool"]
