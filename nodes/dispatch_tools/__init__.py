"""Runs one tool call a task, or asks the user."""

from turnflow.nodes.dispatch_tools.ask_user import ask_user_tool
from turnflow.nodes.dispatch_tools.batch import plan_batch
from turnflow.nodes.dispatch_tools.node import dispatch_tools

__all__ = ["ask_user_tool", "dispatch_tools", "plan_batch"]
