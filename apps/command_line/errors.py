"""How a command ends that cannot go on: one line on standard error, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from pydantic import ValidationError

from turnflow import TurnError
from turnflow.apps.command_line.plain import plain
from turnflow.apps.local_model import LocalModelError

TURN_FAILED = 1
USED_WRONGLY = 2


@contextmanager
def plain_errors() -> Iterator[None]:
    """One line instead of a traceback, for what a user can mend."""
    try:
        yield
    except TurnError as error:
        fail(str(error), TURN_FAILED)
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
