"""The commands: `chat`, `run`, `threads`, `grants`, `fake-provider`, `doctor`, and those of `reading.py`."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version as package_version
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from turnflow import TurnError, TurnResult, TurnSaver, open_saver
from turnflow.apps.command_line.asking import show
from turnflow.apps.command_line.doctor import doctor
from turnflow.apps.command_line.errors import TURN_FAILED, plain_errors, used_wrongly
from turnflow.apps.command_line.grants import grants_of, revoke
from turnflow.apps.command_line.plain import json_line, plain, visible
from turnflow.apps.command_line.reading import AsJson, Threads, gc, history, record, replay
from turnflow.apps.command_line.screen import TurnScreen
from turnflow.apps.command_line.setup import Options, build_agent, threads_file
from turnflow.apps.command_line.threads import (
    checked_id,
    last_thread,
    list_threads,
    parse_tags,
    print_threads,
)
from turnflow.apps.command_line.turns import (
    BrokenOffError,
    is_waiting,
    new_thread,
    resume_with,
    run_to_the_end,
)
from turnflow.graph.logs import logging_to

app = typer.Typer(
    help="Run agent turns: chat with a model, run one turn, or play a scripted provider.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_FAILED = {"provider_error", "context_overflow", "filtered", "cancelled", "empty"}
"""Statuses under which `run` exits with 1: the model gave no answer."""

_ABOUT_THE_PORT = {errno.EADDRINUSE, errno.EACCES}
"""Why an address cannot be listened on, where it is the port; else it is the host."""

Model = Annotated[str | None, typer.Option("--model", "-m", help="Model name; default: TURNFLOW_MODEL.")]
BaseUrl = Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint; default: OPENAI_BASE_URL.")]
Local = Annotated[bool, typer.Option("--local", help="Use the embedded toy model whatever is configured.")]
Instructions = Annotated[
    str, typer.Option("--instructions", "-i", help="Your own instructions to the model.")
]
Behaviour = Annotated[
    str, typer.Option("--behaviour", "-b", help="chat, solve, research, decide, or a .md file of your own.")
]
Protocol = Annotated[
    str | None, typer.Option("--protocol", "-p", help="native, label or json; default: the behaviour's.")
]
Profile = Annotated[
    str | None,
    typer.Option(help="Provider profile: a file (of `turnflow doctor --out`, say) or a known name."),
]
Root = Annotated[Path | None, typer.Option(help="Offer read_file and list_files in this folder.")]
Database = Annotated[Path | None, typer.Option("--sqlite", help="Offer sqlite_query on this database.")]
WritableDatabase = Annotated[
    Path | None,
    typer.Option("--sqlite-write", help="Offer sqlite_query on this database; what writes is asked about."),
]
Rounds = Annotated[int, typer.Option(help="Rounds before the turn settles.")]
Language = Annotated[str, typer.Option(help="Language of turnflow's own texts: en or zh.")]
Log = Annotated[Path | None, typer.Option("--log", help="File that takes a JSON line per step of a turn.")]
Thread = Annotated[str | None, typer.Option("--thread", "-t", help="Thread to go on with.")]
Last = Annotated[bool, typer.Option("--last", help="Go on with the thread that was active last.")]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(package_version("turnflow"))
        raise typer.Exit


@app.command()
def run(
    message: Annotated[str | None, typer.Argument(help="The user's message.")] = None,
    *,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            help="Answer what the thread asks: once for each question, or for each call that waits for "
            "approval (approve, approve session, reject, reject: why, respond: text, or JSON)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    thread: Thread = None,
    last: Last = False,
    db: Threads = None,
    model: Model = None,
    base_url: BaseUrl = None,
    local: Local = False,
    instructions: Instructions = "",
    behaviour: Behaviour = "chat",
    protocol: Protocol = None,
    profile: Profile = None,
    root: Root = None,
    sqlite: Database = None,
    sqlite_write: WritableDatabase = None,
    max_rounds: Rounds = 8,
    language: Language = "en",
    log: Log = None,
) -> None:
    """Run one turn and print it."""
    if (message is None) == (not answer):
        used_wrongly("give either a message or --answer")
    if answer and thread is None and not last:
        used_wrongly("--answer needs --thread or --last, the thread whose question it answers")
    options = Options(
        model=model,
        base_url=base_url,
        local=local,
        instructions=instructions,
        behaviour=behaviour,
        protocol=protocol,
        profile=profile,
        root=root,
        sqlite=sqlite,
        sqlite_write=sqlite_write,
        max_rounds=max_rounds,
        language=language,
    )
    console = Console(stderr=as_json, highlight=False)
    with plain_errors(), logging_to(log), open_saver(threads_file(db, must_exist=last)) as saver:
        thread_id = _thread(saver, thread, last=last)
        agent = build_agent(options, saver, notice=_notice_on(console))
        screen = TurnScreen(None if as_json else console)
        given: Any = resume_with(agent, thread_id, answer) if answer else message
        asks = None if as_json or not sys.stdin.isatty() else console
        with _failure_as_json(wanted=as_json, thread=thread_id):
            result = run_to_the_end(agent, given, thread_id=thread_id, screen=screen, asks=asks)
    if as_json:
        typer.echo(json_line(_as_json(result)))
    elif result.interrupts:
        for interrupt in result.interrupts:
            show(console, interrupt.value)
        _notice_on(console)(f"Answer with: {_command('run', thread_id, db)} --answer …")
    if result.status in _FAILED:
        raise typer.Exit(TURN_FAILED)


@app.command()
def chat(
    *,
    thread: Thread = None,
    last: Last = False,
    db: Threads = None,
    model: Model = None,
    base_url: BaseUrl = None,
    local: Local = False,
    instructions: Instructions = "",
    behaviour: Behaviour = "chat",
    protocol: Protocol = None,
    profile: Profile = None,
    root: Root = None,
    sqlite: Database = None,
    sqlite_write: WritableDatabase = None,
    max_rounds: Rounds = 8,
    language: Language = "en",
    log: Log = None,
) -> None:
    """Chat with a model. Ctrl-C cancels the turn and keeps the thread; Ctrl-D leaves."""
    options = Options(
        model=model,
        base_url=base_url,
        local=local,
        instructions=instructions,
        behaviour=behaviour,
        protocol=protocol,
        profile=profile,
        root=root,
        sqlite=sqlite,
        sqlite_write=sqlite_write,
        max_rounds=max_rounds,
        language=language,
    )
    console = Console(highlight=False)
    with plain_errors(), logging_to(log), open_saver(threads_file(db, must_exist=last)) as saver:
        thread_id = _thread(saver, thread, last=last)
        agent = build_agent(options, saver, notice=_notice_on(console))
        screen = TurnScreen(console)
        said = False
        open_first = [None] if is_waiting(agent, thread_id) else []
        for message in chain(open_first, _messages(console)):
            said = True
            try:
                run_to_the_end(agent, message, thread_id=thread_id, screen=screen, asks=console)
            except TurnError as error:
                console.print(plain(str(error)), style="red", markup=False, soft_wrap=True)
            except BrokenOffError:
                console.print("broken off", style="red")
            except (EOFError, KeyboardInterrupt):
                console.print("left unanswered: it stays open until the next message", style="red")
    if said:
        _notice_on(console)(f"Go on with: {_command('chat', thread_id, db)}")


@app.command()
def threads(
    *,
    db: Threads = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Only threads with this tag, name=value.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the threads, the one that was active last first."""
    console = Console(highlight=False)
    with plain_errors(), open_saver(threads_file(db, must_exist=True)) as saver:
        found = list_threads(saver, limit, parse_tags(tags or ()))
        if as_json:
            for thread in found:
                typer.echo(json_line(thread))
        else:
            print_threads(console, found)


app.command()(history)
app.command()(record)
app.command()(replay)
app.command()(gc)
app.command()(doctor)


@app.command()
def grants(
    thread: Annotated[str, typer.Argument(help="Thread whose grants are listed.")],
    *,
    revoked: Annotated[
        list[str] | None, typer.Option("--revoke", help="Take back what was granted to this tool.")
    ] = None,
    db: Threads = None,
    as_json: AsJson = False,
) -> None:
    """List the tools whose calls a person has allowed for good in a thread, or take that back."""
    with plain_errors(), open_saver(threads_file(db, must_exist=True)) as saver:
        thread_id = checked_id(thread)
        if revoked:
            revoke(saver, thread_id, revoked)
        for name, grant in grants_of(saver, thread_id).items():
            line = {"tool": name, "turn_id": grant.get("turn_id")}
            typer.echo(json_line(line) if as_json else visible(name))


@app.command("fake-provider")
def fake_provider(
    script: Annotated[
        str, typer.Argument(help="Script, YAML or JSON, or a personality's name (docs/fake-provider.md).")
    ],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8321,
    strict: Annotated[bool | None, typer.Option(help="Refuse what strict providers refuse.")] = None,
) -> None:
    """Play a script as an OpenAI-compatible server, until Ctrl-C."""
    with plain_errors():
        from turnflow.apps.fake_provider import FakeProvider, load_script, serve
        from turnflow.apps.fake_provider.personality import personality

        def ready(provider: FakeProvider) -> None:
            typer.echo(f"Listening on {provider.base_url} (OPENAI_BASE_URL); Ctrl-C stops.")

        if not script.strip():
            raise ValueError("the name of the script is empty; give a file or a personality's name")
        path = Path(script)
        if path.is_dir():
            raise ValueError(f"{script} is a folder; give a script's file or a personality's name")
        is_name = path.name == script and not path.suffix and not path.exists()
        loaded = load_script(personality(script) if is_name else path)
        if strict is not None:
            loaded = loaded.model_copy(update={"strict": strict})
        try:
            serve(loaded, host=host, port=port, on_ready=ready)
        except (OSError, UnicodeError) as error:
            said = (error.strerror if isinstance(error, OSError) else None) or "no such address"
            why = said.partition(" (while ")[0]
            other = "--port" if getattr(error, "errno", None) in _ABOUT_THE_PORT else "--host"
            raise ValueError(f"cannot listen on {host}:{port}: {why}; give another {other}") from error


def _thread(saver: TurnSaver, given: str | None, *, last: bool) -> str:
    """The thread to run in."""
    if given is not None and last:
        raise ValueError("give either --thread or --last")
    if last:
        return last_thread(saver)
    return new_thread() if given is None else checked_id(given)


def _command(name: str, thread: str, db: Path | None) -> str:
    """The command that goes on with a thread, as it is typed in a shell."""
    return shlex.join(["turnflow", name, "--thread", thread, *(["--db", str(db)] if db else [])])


def _notice_on(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(plain(text), style="dim", markup=False, soft_wrap=True)


def _messages(console: Console) -> Iterator[str]:
    while True:
        try:
            message = console.input("[bold]> [/bold]" if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if message.strip() in {"/quit", "/exit"}:
            return
        if message.strip():
            yield message


def _as_json(result: TurnResult) -> dict[str, Any]:
    return {
        "answer": result.answer,
        "outcome": result.outcome,
        "thread_id": result.thread_id,
        "interrupts": [{"id": i.id, "value": i.value} for i in result.interrupts],
    }


@contextmanager
def _failure_as_json(*, wanted: bool, thread: str) -> Iterator[None]:
    """Print a failed turn as JSON too, where JSON is wanted."""
    try:
        yield
    except TurnError as error:
        if not wanted:
            raise
        failed = {"answer": "", "outcome": error.outcome, "thread_id": thread, "interrupts": []}
        typer.echo(json_line(failed))
        raise typer.Exit(TURN_FAILED) from error
