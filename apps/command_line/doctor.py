"""The command `doctor`: examines an endpoint, prints what it found, writes a profile."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.console import Console

from turnflow.apps.command_line.errors import TURN_FAILED, fail, plain_errors
from turnflow.apps.command_line.plain import json_line, plain
from turnflow.graph.base_url import check_base_url

DEFAULT_KEY = "OPENAI_API_KEY"


def doctor(
    *,
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible endpoint; default: OPENAI_BASE_URL.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model name; default: TURNFLOW_MODEL, or the only one."),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key; default: OPENAI_API_KEY.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File that takes the profile, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for all of it.")] = 60.0,
) -> None:
    """Find out what an endpoint can do and how it wants to be spoken to, and write a profile of it."""
    console = Console(highlight=False)
    with plain_errors():
        from turnflow.apps.doctor import DoctorError, examine
        from turnflow.apps.doctor.report import as_json as report_as_json
        from turnflow.apps.doctor.report import print_report, profile_fields

        address = _address(base_url)
        key = _key(api_key_env)
        _check_writable(out)
        waiting = Console(stderr=True)
        try:
            with waiting.status("asking …") if sys.stderr.isatty() else _Quiet() as status:
                examination = asyncio.run(
                    examine(
                        address,
                        model or os.environ.get("TURNFLOW_MODEL") or None,
                        api_key=key,
                        key_name=api_key_env or DEFAULT_KEY,
                        timeout=timeout,
                        on_finding=lambda finding: status.update(plain(f"asked: {finding.tried} …")),
                    )
                )
        except DoctorError as error:
            fail(str(error), TURN_FAILED)
        if as_json:
            typer.echo(json_line(report_as_json(examination)))
        else:
            print_report(console, examination)
        if out is not None:
            text = json.dumps(profile_fields(examination), ensure_ascii=False, indent=2)
            _write(out, text + "\n")
            if not as_json:
                told = f"Written to {out}; use it with --profile {out}"
                console.print(plain(told), style="dim", soft_wrap=True)


class _Quiet:
    """Shows nothing, where nobody watches."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _text: str) -> None:
        """Do nothing."""


def _address(given: str | None) -> str:
    address = given or os.environ.get("OPENAI_BASE_URL")
    if not address:
        raise ValueError("give the endpoint with --base-url, or set OPENAI_BASE_URL")
    return check_base_url(address, "--base-url" if given else "OPENAI_BASE_URL")


def _key(name: str | None) -> str | None:
    """The key; a variable that was named must be there.

    Raises:
        ValueError: It is not set, or holds what no header takes.
    """
    key = os.environ.get(name or DEFAULT_KEY, "").strip()
    if name and not key:
        raise ValueError(f"the environment variable {name} is not set")
    if not key.isascii() or not key.isprintable():
        raise ValueError(f"{name or DEFAULT_KEY} holds no key: it has characters that no key has")
    return key or None


def _check_writable(out: Path | None) -> None:
    """Refuse a file that cannot be written before a minute is spent."""
    if out is None:
        return
    if out.suffix.lower() != ".json":
        raise ValueError(f"{out} does not end in .json; profiles are found by that")
    if out.is_dir():
        raise ValueError(f"{out} is a folder")
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent}")
    try:
        is_new = not out.exists()
        with out.open("ab"):
            pass
        if is_new:
            out.unlink()
    except OSError as error:
        raise _not_written(out, error) from error


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_written(out, error) from error


def _not_written(out: Path, error: OSError) -> ValueError:
    return ValueError(f"the profile could not be written to {out}: {error.strerror or error}")
