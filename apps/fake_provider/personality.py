"""The personalities: scripts that answer as well-known kinds of providers do, for as long as one asks."""

from __future__ import annotations

from pathlib import Path

from turnflow.apps.fake_provider.loading import ScriptError

_FOLDER = Path(__file__).with_name("personalities")


def personality_names() -> list[str]:
    """The names that there are, in order."""
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def personality(name: str) -> Path:
    """The script of a personality.

    Raises:
        ScriptError: There is none of this name.
    """
    if name not in personality_names():
        raise ScriptError(f"there is no personality {name!r}; there are: {', '.join(personality_names())}")
    return _FOLDER / f"{name}.yaml"
