"""Safe tools to play with: calculate, now, read_file, list_files, sqlite_query."""

from turnflow.apps.example_tools.calculate import calculate
from turnflow.apps.example_tools.files import file_tools
from turnflow.apps.example_tools.now import now
from turnflow.apps.example_tools.sqlite_query import sqlite_query_tool

__all__ = ["calculate", "file_tools", "now", "sqlite_query_tool"]
