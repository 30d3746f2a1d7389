"""Safe tools to play with: calculate, now, read_file, list_files, sqlite_query, load_skill, write_todos."""

from turnflow.apps.example_tools.calculate import calculate
from turnflow.apps.example_tools.files import file_tools
from turnflow.apps.example_tools.now import now
from turnflow.apps.example_tools.skills import Skill, skill_policies, skill_tools
from turnflow.apps.example_tools.sqlite_query import sqlite_policy, sqlite_query_tool
from turnflow.apps.example_tools.todos import TODO_POLICY, write_todos

__all__ = [
    "TODO_POLICY",
    "Skill",
    "calculate",
    "file_tools",
    "now",
    "skill_policies",
    "skill_tools",
    "sqlite_policy",
    "sqlite_query_tool",
    "write_todos",
]
