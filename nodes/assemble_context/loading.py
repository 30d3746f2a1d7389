"""What results load into a thread: deferred tools and instructions (docs/tools.md). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def loaded_by(calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The change of the `session` channel that calls ask for, each with `name` and what its result said."""
    loaded: dict[str, Any] = {}
    instructions: dict[str, Any] = {}
    for call in calls:
        loaded |= dict.fromkeys(call.get("load", ()), True) | dict.fromkeys(call.get("unload", ()))
        if (said := call.get("instructions")) is not None:
            texts = said if isinstance(said, dict) else {call["name"]: said}
            instructions |= {key: text or None for key, text in texts.items()}
    session = {"loaded": loaded, "instructions": instructions}
    return {section: changes for section, changes in session.items() if changes}
