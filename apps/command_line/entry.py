"""Entry point of the `turnflow` command."""

from __future__ import annotations

import logging
import sys

USED_WRONGLY = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command; exit codes are in docs/command-line.md."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        from turnflow.apps.command_line.commands import app
    except ImportError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(
            f"turnflow: the command needs the package {error.name!r}: pip install 'turnflow[cli]'\n"
        )
        sys.exit(USED_WRONGLY)
    _log_plainly()
    app()


def _log_plainly() -> None:
    from turnflow.apps.command_line.plain import PlainFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    handler.setLevel(logging.WARNING)  # turns are logged to the file of --log alone
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
