"""What results bring into a thread: deferred tools, instructions (docs/tools.md) and variables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from turnflow.graph.batch import Batch, BatchCall
from turnflow.graph.session import merged_changes


def loaded_by(calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The change of the `session` channel that calls ask for, each with `name` and what its result said."""
    calls = list(calls)
    loaded: dict[str, Any] = {}
    instructions: dict[str, Any] = {}
    for call in calls:
        loaded |= dict.fromkeys(call.get("load", ()), True) | dict.fromkeys(call.get("unload", ()))
        if (said := call.get("instructions")) is not None:
            texts = said if isinstance(said, dict) else {call["name"]: said}
            instructions |= {key: text or None for key, text in texts.items()}
    variables = merged_changes(call.get("variables") or {} for call in calls)
    session = {"loaded": loaded, "instructions": instructions, "vars": variables}
    return {section: changes for section, changes in session.items() if changes}


def left_behind(batch: Batch, turn: Mapping[str, Any]) -> list[BatchCall]:
    """The calls of a batch that are done, where the turn was given up before it took in what they said."""
    if batch["joined"] or turn.get("phase") == "ended":
        return []
    return [call for call in batch["calls"].values() if call["done"]]
