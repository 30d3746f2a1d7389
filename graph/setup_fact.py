"""What a turn is run with, as far as it is plain data: the `setup` fact of the record (docs/record.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from turnflow.graph.builtin_tool import BuiltinTool
from turnflow.graph.protocol import JsonProtocol, LabelProtocol, Protocol
from turnflow.graph.text import plain_json

if TYPE_CHECKING:
    from turnflow.graph.resources import TurnResources

_LABELS = ("allowed", "terminal", "intermediate", "final", "tool", "stream_final")
"""Fields of a `LabelProtocol` that are data."""

_HOOKS = ("validate_terminal", "before_round", "on_intermediate", "repair_message", "force_finalize")
"""Its fields that are functions; that they are there is all that can be said."""

_UNSAID = frozenset({"request_parameters"})
"""Fields that are not on record: they may hold what is nobody else's business."""


def setup_of(resources: TurnResources, turn: dict[str, Any]) -> tuple[Callable[[], dict[str, Any]], str]:
    """The fields of the fact, made when they are asked for, and a digest that stands for them.

    Args:
        resources: What the run works with.
        turn: The `turn` channel.
    """
    common = {
        "behaviour": str(resources.behaviour_name),
        "protocol": protocol_form(resources.protocol),
        "settings": _said(resources.settings),
        "profile": _said(resources.profile),
        "memory": resources.given_memory if isinstance(resources.given_memory, str) else "",
        "window": _window(resources),
        "model": _model_name(resources),
        "unavailable": list(turn.get("unavailable", ())),
    }
    policies = [(tool, _said(tool.policy)) for tool in resources.registry]
    told = {**common, "tools": [[tool.fingerprint, policy] for tool, policy in policies]}
    digest = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()

    def setup() -> dict[str, Any]:
        tools = [
            {
                "definition": plain_json(tool.definition),
                "policy": policy,
                **({"host_only": sorted(tool.host_only)} if tool.host_only else {}),
                **({"built_in": True} if isinstance(tool.tool, BuiltinTool) else {}),
            }
            for tool, policy in policies
        ]
        return {**common, "tools": tools}

    return setup, digest


def _window(resources: TurnResources) -> int | None:
    """Tokens of the model's window; None where there is no model."""
    try:
        return resources.window_in({})
    except ValueError:
        return None


def _model_name(resources: TurnResources) -> str:
    try:
        return resources.model_name
    except ValueError:
        return ""


def _said(model: BaseModel) -> dict[str, Any]:
    """The fields of a model that differ from their defaults; a function by its type's name."""
    said = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name not in _UNSAID and value != field.get_default(call_default_factory=True):
            said[name] = f"({type(value).__name__})" if callable(value) else plain_json(value)
    return said


def protocol_form(protocol: Protocol) -> dict[str, Any]:
    """A protocol as plain data: its `name`, and what of it is data."""
    if isinstance(protocol, LabelProtocol):
        hooks = [name for name in _HOOKS if getattr(protocol, name) is not None]
        fields = {name: getattr(protocol, name) for name in _LABELS}
        return {"name": "label", **plain_json(fields), **({"functions": hooks} if hooks else {})}
    if isinstance(protocol, JsonProtocol):
        return {"name": "json", "max_thought_chars": protocol.max_thought_chars}
    return {"name": "native"}
