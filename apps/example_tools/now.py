"""The current date and time."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from langchain_core.tools import tool

_MAX_NEAREST = 3


@tool
def now(
    timezone: Annotated[str, "IANA name of the time zone, for example Europe/Paris or Asia/Shanghai"] = "UTC",
) -> str:
    """Tell the current date, time, weekday and offset from UTC in a time zone."""
    name, zone = _zone(timezone)
    moment = datetime.now(zone)
    return f"{moment.isoformat(timespec='seconds')} ({moment:%A}, {name})"


def _zone(timezone: str) -> tuple[str, tzinfo]:
    """The zone of that name, however it is spelt; UTC needs no database of zones."""
    wanted = timezone.strip().replace(" ", "_").lower()
    if wanted == "utc":
        return "UTC", UTC
    name = _names().get(wanted)
    if name is None:
        raise ValueError(
            f"no time zone is named {timezone[:64]!r}; the nearest are: {', '.join(_nearest(wanted[:64]))}"
        )
    return name, ZoneInfo(name)


def _nearest(wanted: str) -> list[str]:
    """Zones whose name or city looks like the text."""
    names = _names()
    cities: dict[str, str] = {}
    for spelt, name in sorted(names.items()):
        cities.setdefault(spelt.rpartition("/")[2], name)
    found = [cities[city] for city in difflib.get_close_matches(wanted.rpartition("/")[2], cities, n=2)]
    found += [names[spelt] for spelt in difflib.get_close_matches(wanted, names, n=_MAX_NEAREST, cutoff=0.5)]
    return list(dict.fromkeys(found))[:_MAX_NEAREST] or ["UTC"]


@cache
def _names() -> dict[str, str]:
    """Names of all zones by their small letters."""
    return {name.lower(): name for name in available_timezones()}
