"""The graphs that LangGraph Studio opens (docs/studio.md): without a saver, the server brings one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from turnflow.apps.example_tools import calculate, now
from turnflow.graph.build import build_turn_graph
from turnflow.graph.saver import TurnSaver, open_saver

DATABASE = "TURNFLOW_STUDIO_DB"
"""Environment variable that names the SQLite file of the server's threads."""

chat = build_turn_graph(tools=[calculate, now], name="chat")
"""A chat with tools and questions; the model is `TURNFLOW_MODEL` at `OPENAI_BASE_URL`."""


@asynccontextmanager
async def saver() -> AsyncIterator[TurnSaver]:
    """The server's saver: the file that `TURNFLOW_STUDIO_DB` names, else one in memory."""
    async with open_saver(os.environ.get(DATABASE, ":memory:")) as opened:
        yield opened
