"""What the command line builds its graph from: model, tools, where threads are kept."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from turnflow import OpenAICompatibleChat, ToolPolicy, TurnSettings, build_turn_graph
from turnflow.apps.example_tools import calculate, file_tools, now, sqlite_policy, sqlite_query_tool
from turnflow.graph.base_url import check_base_url
from turnflow.graph.profile import ProviderProfile
from turnflow.graph.profiles import load_profile, named_profile, path_is
from turnflow.graph.protocol import ProtocolName
from turnflow.graph.text import storable
from turnflow.graph.tool_registry import ToolRegistry

DEFAULT_MODEL = "gpt-4o-mini"


@dataclass(frozen=True)
class Options:
    """The options that `run` and `chat` share."""

    model: str | None
    base_url: str | None
    local: bool
    instructions: str
    behaviour: str
    protocol: str | None
    profile: str | None
    root: Path | None
    sqlite: Path | None
    sqlite_write: Path | None
    max_rounds: int
    language: str

    @property
    def uses_local_model(self) -> bool:
        """Whether nothing says which real model to use."""
        named = self.model or self.base_url
        configured = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNFLOW_MODEL")
        return self.local or not (named or any(os.environ.get(name) for name in configured))


def threads_file(given: Path | None, *, must_exist: bool = False) -> Path:
    """The SQLite file that keeps the threads; the folder of the default one is made.

    Args:
        given: What the user named.
        must_exist: Refuse a named file that is not there, for a mistyped name is not to become a file; and a
            database of another program, which is not to get tables of ours.

    Raises:
        ValueError: The named file is not there, or keeps no threads; or the folder of the default one cannot
            be made.
    """
    if given:
        if must_exist and not given.exists():
            raise ValueError(f"there is no file {given}")
        if must_exist and not _keeps_threads(given):
            raise ValueError(f"{given} keeps no threads of turnflow")
        return given
    home = Path(os.environ.get("TURNFLOW_HOME") or typer.get_app_dir("turnflow"))
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"TURNFLOW_HOME: no folder can be made at {home}: {error.strerror}") from error
    return home / "threads.sqlite"


def _keeps_threads(file: Path) -> bool:
    """Whether a database has the table of threads, or no table yet.

    True for what is no database, as opening it tells why.
    """
    if not file.is_file():
        return True
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error:
        return True
    return not tables or ("checkpoints",) in tables


class Agent(NamedTuple):
    """A graph, and the tools that it was built with."""

    graph: Any
    tools: ToolRegistry


def build_agent(options: Options, saver: BaseCheckpointSaver[Any], *, notice: Callable[[str], None]) -> Agent:
    """The graph of the command line.

    The embedded toy model is offered what such a model can handle: `calculate`, and no questions.

    Raises:
        ValueError: An option is wrong; the text names it.
    """
    tools: list[BaseTool] = [calculate]
    policies: dict[str, ToolPolicy] = {}
    if options.sqlite and options.sqlite_write:
        raise ValueError("give either --sqlite or --sqlite-write")
    if options.uses_local_model:
        if options.root or options.sqlite or options.sqlite_write:
            raise ValueError(
                "--root, --sqlite and --sqlite-write need a real model: set OPENAI_API_KEY, or give "
                "--base-url"
            )
        if options.profile is not None:
            raise ValueError("--profile needs a real model: set OPENAI_API_KEY, or give --base-url")
        from turnflow.apps.local_model import TOY_NOTICE, TOY_NOTICE_ZH, LocalChatModel, find_weights

        find_weights()  # says what is missing before anything runs
        notice(TOY_NOTICE_ZH if options.language == "zh" else TOY_NOTICE)
        model: BaseChatModel = LocalChatModel()
    else:
        name = options.model or os.environ.get("TURNFLOW_MODEL") or DEFAULT_MODEL
        base_url = check_base_url(options.base_url, "--base-url") if options.base_url else None
        model = OpenAICompatibleChat(model=name, base_url=base_url)
        tools.append(now)
        if options.root:
            tools.extend(file_tools(options.root))
        if options.sqlite:
            tools.append(sqlite_query_tool(options.sqlite))
        if options.sqlite_write:
            writing = _writing_tool(options.sqlite_write)
            tools.append(writing)
            policies[writing.name] = sqlite_policy(options.sqlite_write)
    settings = TurnSettings.model_validate(
        {
            "max_rounds": options.max_rounds,
            "ask_user": not options.uses_local_model,
            "locale": options.language,
        }
    )
    graph = build_turn_graph(
        model,
        tools,
        policies={**{tool.name: ToolPolicy(read_only=True) for tool in tools}, **policies},
        settings=settings,
        instructions=options.instructions,
        behaviour=options.behaviour,
        protocol=cast("ProtocolName | None", options.protocol),
        provider_profile=None if options.profile is None else read_profile(options.profile),
        checkpointer=saver,
    )
    return Agent(graph, ToolRegistry(tools))


def read_profile(given: str) -> ProviderProfile:
    """The profile of `--profile`: a file's, if the text is a path or names a file; else a known one.

    Raises:
        ValueError: There is none, or it is wrong; the text says which.
    """
    path = Path(given)
    looks_like_path = path.suffix.lower() in {".json", ".toml"} or any(c in given for c in "/\\")
    if looks_like_path or (given and path_is(path.is_file)):
        return load_profile(given)
    try:
        return named_profile(given, files="a file's name ends in .json or .toml")
    except ValueError:
        if given and path_is(path.is_dir):
            return load_profile(given)  # which says that it is a folder
        raise


def _writing_tool(database: Path) -> BaseTool:
    """The tool that changes a database; who is asked to approve a call reads in its description which one."""
    tool = sqlite_query_tool(database, writable=True)
    named = f"{tool.description} The database is {storable(database.resolve().name)}."
    return tool.model_copy(update={"description": named})
