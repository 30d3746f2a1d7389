"""Entry point of the `turnflow` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; exit codes are 0, 1 (the turn failed) and 2 (used wrongly)."""
    try:
        import rich
        import typer
    except ImportError as error:
        sys.stderr.write(
            f"turnflow: the command needs the package {error.name!r}: pip install 'turnflow[cli]'\n"
        )
        sys.exit(2)
    del rich, typer
    from turnflow.apps.command_line.commands import app

    app()
