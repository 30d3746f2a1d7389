"""Loads the texts of a language from its folder."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from turnflow.prompts.behaviour import Behaviour, read_behaviour


class Prompts:
    """The texts of one language.

    `behaviour_<name>.md` holds a behaviour, `texts.toml` everything else, by section and key, with `{fields}`
    in the manner of `str.format`.
    """

    def __init__(self, locale: str) -> None:
        self._locale = locale
        self._folder = files("turnflow.prompts") / locale
        self._texts: dict[str, Any] = tomllib.loads((self._folder / "texts.toml").read_text("utf-8"))
        self._behaviours: dict[str, Behaviour] = {}

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

    def has(self, section: str, key: str) -> bool:
        """Whether there is such a text."""
        return key in self._texts[section]

    def behaviour(self, named: str | Path) -> Behaviour:
        """A behaviour by its name, or from a file of one's own (a path, or a name that ends in `.md`).

        Beside a file `x.md`, `x.zh.md` is taken for Chinese. A file is read once.

        Raises:
            ValueError: There is no such behaviour, or its file is wrong; the text says what to do.
        """
        if not isinstance(named, Path) and not str(named).endswith(".md"):
            if named not in self._behaviours:
                self._behaviours[named] = self._packaged(named)
            return self._behaviours[named]
        path = Path(named).absolute()  # a relative one means another file in another folder
        if str(path) not in self._behaviours:
            self._behaviours[str(path)] = self._from_file(path)
        return self._behaviours[str(path)]

    def behaviours(self) -> list[str]:
        """Names of all behaviours that come along."""
        names = (entry.name for entry in self._folder.iterdir())
        return sorted(
            name[len("behaviour_") : -len(".md")] for name in names if name.startswith("behaviour_")
        )

    def _packaged(self, name: str) -> Behaviour:
        if name not in self.behaviours():
            raise ValueError(
                f"behaviour {name!r} does not exist; there are: {', '.join(self.behaviours())} (or give the "
                "path of a .md file)"
            )
        return read_behaviour(name, (self._folder / f"behaviour_{name}.md").read_text("utf-8"))

    def _from_file(self, path: Path) -> Behaviour:
        file = path
        try:
            translated = path.with_suffix(f".{self._locale}.md")
            file = translated if translated.is_file() else path
            source = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise ValueError(f"behaviour {str(path)!r} cannot be read: {error}") from error
        behaviour = read_behaviour(str(file), source)
        return replace(behaviour, name=path.stem)
