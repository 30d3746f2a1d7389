"""Tool names as providers take them."""

from __future__ import annotations

import re

ASK_USER = "ask_user"
"""Name of the built-in tool that asks the user."""

READ_RESULT = "read_result"
"""Name of the built-in tool that reads on in a result that was too long to be shown whole."""

SEARCH_TOOLS = "search_tools"
"""Name of the built-in tool that finds deferred tools and loads them."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


def is_tool_name(name: str) -> bool:
    """Whether every provider takes the name."""
    return _NAME.fullmatch(name) is not None


def safe_tool_name(name: str) -> str:
    """The name, or one much like it that every provider takes."""
    return name if is_tool_name(name) else _NOT_IN_NAMES.sub("_", name.strip())[:64] or "unknown"
