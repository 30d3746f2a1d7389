"""Findings for people: the table, and what the profile says. For programs: JSON."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnflow.apps.command_line.plain import plain
from turnflow.apps.doctor.examine import TIME_OVER, Examination
from turnflow.apps.doctor.probe import Finding

MAX_CELL = 22
"""Widest column but for the evidence, in characters."""
NOT_KNOWN = "not known"


def as_json(examination: Examination) -> dict[str, Any]:
    """An examination as one JSON object."""
    return {
        "base_url": examination.base_url,
        "model": examination.model,
        "seconds": round(examination.seconds, 3),
        "requests": examination.requests,
        "findings": [
            {
                "probe": finding.name,
                "tried": finding.tried,
                "found": finding.value,
                "evidence": finding.evidence,
                "seconds": round(finding.seconds, 3),
                "requests": finding.requests,
            }
            for finding in examination.findings.values()
        ],
        "profile": profile_fields(examination),
    }


def profile_fields(examination: Examination) -> dict[str, Any]:
    """The fields of the profile that are not the default."""
    return examination.profile.model_dump(mode="json", exclude_defaults=True)


def print_report(console: Console, examination: Examination) -> None:
    """Print the table and the profile."""
    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    table.add_column("probe", no_wrap=True)
    for column in ("tried", "found"):
        table.add_column(column, overflow="fold", max_width=MAX_CELL)
    table.add_column("evidence", overflow="fold", ratio=1)
    table.add_column("seconds", justify="right", no_wrap=True)
    for finding in examination.findings.values():
        style = "dim" if finding.value is None else ""
        seconds = f"{finding.seconds:.2f}" if finding.requests else ""
        cells = (finding.name, finding.tried, found_text(finding), finding.evidence, seconds)
        table.add_row(*(Text(plain(cell), style=style) for cell in cells))
    console.print(table)
    told = f"{plain(examination.model)} at {plain(examination.base_url)}"
    took = f"{examination.requests} requests in {examination.seconds:.1f} s"
    console.print(Text(f"{told}: {took}"), style="dim", soft_wrap=True)
    if missed := sum(finding.evidence == TIME_OVER for finding in examination.findings.values()):
        console.print(f"The time was over before {missed} probes; --timeout gives more.", soft_wrap=True)
    fields = profile_fields(examination)
    if not fields:
        console.print("The default profile fits.")
        return
    console.print("What the profile says:")
    for name, value in fields.items():
        console.print(Text(f"  {name} = {json.dumps(value, ensure_ascii=False)}"), soft_wrap=True)


def found_text(finding: Finding) -> str:
    """What was found, in a word or two."""
    value = finding.value
    if value is None:
        return NOT_KNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
