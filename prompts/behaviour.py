"""Behaviours: a system prompt with the protocol that belongs to it, as one file (docs/prompts.md)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

from turnflow.graph.protocol import LabelProtocol, Protocol, as_protocol

_FENCE = "+++"
"""The line before and behind a file's settings, which are TOML."""

_SETTINGS = {"version", "protocol", "labels"}


@dataclass(frozen=True)
class Behaviour:
    """How the model is to go about a turn.

    Attributes:
        name: Its name, or its file's.
        text: The system prompt.
        version: As its file says; it stands in the manifest of each request.
        protocol: How a reply says what it wants.
    """

    name: str
    text: str
    version: str
    protocol: Protocol


def read_behaviour(name: str, source: str) -> Behaviour:
    """The behaviour that a file describes: the prompt, behind settings between two lines of `+++`.

    The settings are `version`, `protocol` (`native`, `label` or `json`) and, for labels of one's own, a table
    `[labels]` with the fields of `LabelProtocol` that are data. All of them may be left out.

    Raises:
        ValueError: The file is wrong; the text names it, the place and the mend.
    """
    settings, text = _parts(name, source)
    unknown = sorted(settings.keys() - _SETTINGS)
    if unknown:
        raise ValueError(
            f"behaviour {name!r}: no setting is named {unknown[0]!r}; there are: "
            f"{', '.join(sorted(_SETTINGS))}"
        )
    if not text:
        raise ValueError(f"behaviour {name!r} has no text; write the system prompt behind the settings")
    try:
        protocol = _protocol(settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"behaviour {name!r}: {error}") from error
    return Behaviour(name, text, str(settings.get("version", "1")), protocol)


def _parts(name: str, source: str) -> tuple[dict[str, Any], str]:
    """The settings and the text."""
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").strip()
    if not source.startswith(f"{_FENCE}\n"):
        return {}, source
    settings, fence, text = source.removeprefix(f"{_FENCE}\n").partition(f"\n{_FENCE}\n")
    if not fence:
        raise ValueError(f"behaviour {name!r}: the settings have no end; close them with a line of {_FENCE}")
    try:
        return tomllib.loads(settings), text.strip()
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"behaviour {name!r}: the settings are no TOML: {error}") from error


def _protocol(settings: dict[str, Any]) -> Protocol:
    labels = settings.get("labels")
    named = settings.get("protocol", "native" if labels is None else "label")
    if labels is None:
        return as_protocol(named)
    if named != "label":
        raise ValueError(f'[labels] goes with protocol = "label", not {named!r}')
    if not isinstance(labels, dict):
        raise ValueError(f"[labels] is a table, not {labels!r}")
    mentioned = [
        *labels.get("terminal", ()),
        *labels.get("intermediate", ()),
        *labels.get("final", ()),
        *([labels["tool"]] if "tool" in labels else ()),
    ]
    return LabelProtocol(**{"allowed": mentioned, "terminal": (), **labels})
