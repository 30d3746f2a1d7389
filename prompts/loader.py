"""Loads the texts of a language from its folder."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


class Prompts:
    """The texts of one language.

    `behaviour_<name>.md` holds the system prompt of a behaviour, `texts.toml` everything else, by section
    and key, with `{fields}` in the manner of `str.format`.
    """

    def __init__(self, locale: str) -> None:
        self._folder = files("turnflow.prompts") / locale
        self._texts: dict[str, Any] = tomllib.loads((self._folder / "texts.toml").read_text("utf-8"))
        self._behaviours: dict[str, str] = {}

    @property
    def version(self) -> str:
        """Version of the texts, as it stands in the manifest of a request."""
        return str(self._texts["version"])

    def text(self, section: str, key: str, /, **fields: Any) -> str:
        """One text with its fields filled in."""
        return self.template(section, key).format(**fields)

    def template(self, section: str, key: str) -> str:
        """One text with its fields still open."""
        template: str = self._texts[section][key]
        return template.strip()

    def behaviour(self, name: str) -> str:
        """The system prompt of a behaviour.

        Raises:
            ValueError: There is no such behaviour; the text lists those that there are.
        """
        if name not in self._behaviours:
            file = self._folder / f"behaviour_{name}.md"
            if not file.is_file():
                raise ValueError(
                    f"behaviour {name!r} does not exist; there are: {', '.join(self.behaviours())}"
                )
            self._behaviours[name] = file.read_text("utf-8").strip()
        return self._behaviours[name]

    def behaviours(self) -> list[str]:
        """Names of all behaviours."""
        names = (entry.name for entry in self._folder.iterdir())
        return sorted(
            name[len("behaviour_") : -len(".md")] for name in names if name.startswith("behaviour_")
        )
