"""How a command ends that cannot go on: one line on standard error, and an exit code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from pydantic import ValidationError

from turnflow import TurnError, TurnSaver
from turnflow.apps.command_line.plain import plain
from turnflow.apps.local_model import LocalModelError

TURN_FAILED = 1
USED_WRONGLY = 2

_LONGEST = 500
"""Characters of what is said about damage; a decoder may quote all that it was given."""


class DamagedError(Exception):
    """What a file of threads holds cannot be read; the text names the file and the thread."""


@contextmanager
def damage_named(saver: TurnSaver, thread: str | None = None) -> Iterator[None]:
    """Only reads what is stored: whatever that raises, but for the file's own errors, is damage.

    Args:
        saver: The file of threads.
        thread: The thread that is read; None for all.

    Raises:
        DamagedError: Something was raised; stored bytes can be such that a decoder raises anything.
    """
    try:
        yield
    except (OSError, DamagedError):
        raise
    except Exception as error:
        what = "the file is damaged" if thread is None else f"thread {thread!r} is damaged"
        said = f"{type(error).__name__}: {error}"
        raise DamagedError(f"{file_of(saver)}: {what}: {said[:_LONGEST]}") from error


def file_of(saver: TurnSaver) -> str:
    """The path of a saver's file."""
    return str(saver.conn.execute("PRAGMA database_list").fetchone()[2])


@contextmanager
def plain_errors() -> Iterator[None]:
    """One line instead of a traceback, for what a user can mend."""
    try:
        yield
    except (TurnError, DamagedError) as error:
        fail(str(error), TURN_FAILED)
    except sqlite3.Error as error:
        fail(f"the file of threads cannot be used: {error}", TURN_FAILED)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        used_wrongly(f"{place}: {text}" if place else text)
    except BrokenPipeError:  # `turnflow threads --json | head`: typer ends without a word
        raise
    except (ValueError, OSError, ImportError, LocalModelError) as error:
        used_wrongly(str(error))


def used_wrongly(text: str) -> NoReturn:
    """End the command: it was used wrongly."""
    fail(text, USED_WRONGLY)


def fail(text: str, code: int) -> NoReturn:
    """End the command with an exit code."""
    typer.echo(f"turnflow: {plain(' '.join(text.split()))}", err=True)
    raise typer.Exit(code)
