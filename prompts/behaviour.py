"""Behaviours: a system prompt with the protocol that belongs to it, as one file (docs/prompts.md)."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from turnflow.graph.protocol import PROTOCOL_NAMES, LabelProtocol, Protocol, as_protocol

_FENCE = "+++"
"""The line before and behind a file's settings, which are TOML."""

_SETTINGS = ("version", "protocol", "labels")
_LABELS = ("allowed", "terminal", "intermediate", "final", "tool", "stream_final", "meanings")
"""What a table `[labels]` may hold: the fields of `LabelProtocol` that are data."""


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
    try:
        _check(settings)
        protocol = _protocol(settings)
    except ValueError as error:
        raise ValueError(f"behaviour {name!r}: {error}") from error
    if not text:
        raise ValueError(f"behaviour {name!r} has no text; write the system prompt behind the settings")
    return Behaviour(name, text, str(settings.get("version", "1")), protocol)


def _parts(name: str, source: str) -> tuple[dict[str, Any], str]:
    """The settings and the text."""
    lines = source.removeprefix("\ufeff").strip().splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return {}, "\n".join(lines)
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise ValueError(f"behaviour {name!r}: the settings have no end; close them with a line of {_FENCE}")
    try:
        settings = tomllib.loads("\n".join(lines[1:end]))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"behaviour {name!r}: the settings are no TOML: {error}") from error
    return settings, "\n".join(lines[end + 1 :]).strip()


def _check(settings: dict[str, Any]) -> None:
    """Refuse settings that there are not, or that are not what they should be."""
    _check_names("setting", settings, _SETTINGS)
    version, protocol = settings.get("version", "1"), settings.get("protocol", "native")
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        raise ValueError(f"version is a text or a number, not {version!r}")
    if protocol not in PROTOCOL_NAMES:
        raise ValueError(f"protocol is one of {', '.join(PROTOCOL_NAMES)}, not {protocol!r}")
    labels = settings.get("labels")
    if labels is None:
        return
    if settings.get("protocol", "label") != "label":
        raise ValueError(f'[labels] goes with protocol = "label", not {protocol!r}')
    if not isinstance(labels, dict):
        raise ValueError(f"[labels] is a table, not {labels!r}")
    _check_names("field of [labels]", labels, _LABELS)
    for field in ("allowed", "terminal", "intermediate", "final"):
        given = labels.get(field, [])
        if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
            raise ValueError(f"[labels] {field} is a list of texts, not {given!r}")
    if not isinstance(labels.get("tool", ""), str):
        raise ValueError(f"[labels] tool is a text, not {labels['tool']!r}")


def _check_names(what: str, given: dict[str, Any], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"no {what} is named {unknown[0]!r}; there are: {', '.join(known)}")


def _protocol(settings: dict[str, Any]) -> Protocol:
    labels = settings.get("labels")
    if labels is None:
        return as_protocol(settings.get("protocol", "native"))
    mentioned = [
        *labels.get("terminal", ()),
        *labels.get("intermediate", ()),
        *labels.get("final", ()),
        *([labels["tool"]] if "tool" in labels else ()),
    ]
    return LabelProtocol(**{"allowed": mentioned, "terminal": (), **labels})
