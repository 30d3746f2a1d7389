"""The commands about what is kept: `history`, `record`, `replay`, `gc`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from rich.console import Console

from turnflow import TurnSaver, open_saver
from turnflow.apps.command_line.errors import (
    TURN_FAILED,
    DamagedError,
    damage_named,
    file_of,
    plain_errors,
)
from turnflow.apps.command_line.plain import json_line, plain
from turnflow.apps.command_line.setup import threads_file
from turnflow.apps.command_line.threads import (
    checked_id,
    message_as_json,
    print_messages,
    reading_graph,
    thread_state,
)
from turnflow.graph.history import full_history, missing_turns
from turnflow.graph.record import line_of, read_record
from turnflow.graph.replay import Replayed, replay_facts, turns_on_record
from turnflow.graph.text import plain_json

DAY = 86400.0

Threads = Annotated[Path | None, typer.Option("--db", help="SQLite file that keeps the threads.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
Turn = Annotated[
    int | None,
    typer.Option("--turn", help="One turn: 1 is the first that is on record, -1 the last."),
]


def history(
    thread: Annotated[str, typer.Argument(help="Thread to print.")],
    *,
    last: Annotated[int | None, typer.Option(min=1, help="How many turns, the newest; default: all.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="With each call's arguments, and results whole.")
    ] = False,
    db: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Print what was said in a thread, from its first turn on."""
    console = Console(highlight=False)
    with plain_errors(), open_saver(threads_file(db, must_exist=True)) as saver:
        thread_id = checked_id(thread)
        snapshot = thread_state(saver, thread_id)  # says what to do where there is none
        with damage_named(saver, thread_id):
            messages = full_history(reading_graph(saver), thread_id, last=last)
            missing = missing_turns(messages, (snapshot.values.get("turn") or {}).get("position"), last)
        if as_json:
            for message in messages:
                typer.echo(message_as_json(message))
        elif full:
            _print_whole(console, messages)
        else:
            print_messages(console, [*messages])
        if missing:
            # A part of a history is still worth reading, so it is printed first.
            turns = "1 turn is" if missing == 1 else f"{missing} turns are"
            raise DamagedError(f"{file_of(saver)}: thread {thread_id!r}: {turns} missing from the archive")


def _print_whole(console: Console, messages: Iterable[BaseMessage]) -> None:
    for message in messages:
        if isinstance(message, ToolMessage):
            mark = "✗" if message.status == "error" else "✓"
            text = plain(f"{mark} {message.name} → {message.text}")
            console.print(text, style="dim", markup=False, soft_wrap=True)
            continue
        print_messages(console, [message])
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            text = f"· {plain(str(call['name']))} {json_line(plain_json(call['args']))}"
            console.print(text, style="dim", markup=False, soft_wrap=True)


def record(
    thread: Annotated[str, typer.Argument(help="Thread whose record is printed.")],
    *,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only facts of this type, model.replied say; may be given repeatedly."),
    ] = None,
    turn: Turn = None,
    db: Threads = None,
) -> None:
    """Print the record of a thread as JSON lines, oldest first."""
    with plain_errors(), open_saver(threads_file(db, must_exist=True)) as saver:
        thread_id = checked_id(thread)
        facts = _facts(saver, thread_id)
        chosen: Sequence[Mapping[str, Any]] = facts if turn is None else facts_of_turn(facts, turn)
        for fact in _of_types(chosen, kinds or (), facts):
            typer.echo(json_line(plain_json(fact)))


def _facts(saver: TurnSaver, thread_id: str) -> list[dict[str, Any]]:
    """The record of a thread.

    Raises:
        ValueError: There is no such thread.
        DamagedError: It cannot be read.
    """
    thread_state(saver, thread_id)
    with damage_named(saver, thread_id):
        return read_record(saver, thread_id)


def facts_of_turn(facts: Sequence[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
    """The facts of one turn.

    Args:
        facts: The facts of a thread.
        number: Which turn, counted from 1, or from the end as -1.

    Raises:
        ValueError: There is no such turn.
    """
    turns = list(dict.fromkeys(fact["turn_id"] for fact in facts if fact["type"] == "turn.started"))
    if not turns:
        raise ValueError("no turn is on record in this thread")
    if number == 0 or abs(number) > len(turns):
        raise ValueError(f"there is no turn {number}; give 1 to {len(turns)}, or -1 for the last")
    turn_id = turns[number - 1 if number > 0 else number]
    return [fact for fact in facts if fact["turn_id"] == turn_id]


def _of_types(
    facts: Iterable[Mapping[str, Any]], kinds: Sequence[str], known: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    there_are = sorted({str(fact["type"]) for fact in known})
    if wrong := [kind for kind in kinds if kind not in there_are]:
        raise ValueError(f"no fact of the type {wrong[0]!r} is on record; there are: {', '.join(there_are)}")
    return (fact for fact in facts if not kinds or fact["type"] in kinds)


def replay(
    thread: Annotated[str, typer.Argument(help="Thread whose turns are played again.")],
    *,
    turn: Turn = None,
    db: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Play recorded turns again through this version of turnflow, without asking a model or running a tool.

    Exit code 1 says that a turn went another way.
    """
    console = Console(highlight=False)
    with plain_errors(), open_saver(threads_file(db, must_exist=True)) as saver:
        thread_id = checked_id(thread)
        facts = _facts(saver, thread_id)
    differs = False
    with plain_errors():
        line = line_of(facts)
        chosen = line if turn is None else facts_of_turn(line, turn)
        for turn_id in turns_on_record(chosen):
            replayed = replay_facts(facts, turn_id)
            differs = differs or replayed.difference is not None
            if as_json:
                typer.echo(json_line(plain_json(asdict(replayed))))
            else:
                _print_replayed(console, replayed)
    if differs:
        raise typer.Exit(TURN_FAILED)


def _print_replayed(console: Console, replayed: Replayed) -> None:
    difference = replayed.difference
    told = f"same path ({replayed.steps} steps)"
    if difference is not None:
        told = f"goes another way in round {difference.round}: {difference.what}"
    lines = [f"{replayed.turn_id}  {told}", *(f"  ({note})" for note in replayed.notes)]
    if difference is not None:
        lines += [f"  was: {_shown(difference.was)}", f"  now: {_shown(difference.now)}"]
    for line in lines:
        console.print(plain(line), markup=False, soft_wrap=True)


def _shown(said: Any) -> str:
    return "nothing" if said is None else json_line(plain_json(said))


def gc(
    *,
    older_than: Annotated[
        float | None,
        typer.Option(min=0, help="Also delete threads that were not active for so many days."),
    ] = None,
    vacuum: Annotated[bool, typer.Option(help="Make the file smaller.")] = True,
    db: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Remove from the file what belongs to nothing any more."""
    with plain_errors(), open_saver(threads_file(db, must_exist=True)) as saver:
        seconds = None if older_than is None else older_than * DAY
        with damage_named(saver):
            counts = saver.collect(older_than=seconds, vacuum=vacuum)
    if as_json:
        typer.echo(json_line(counts))
    else:
        typer.echo(", ".join(f"{count:,} {name}" for name, count in counts.items()))
