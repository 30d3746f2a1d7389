"""The package lists in pyproject.toml, and what a user of the types sees."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import turnflow

ROOT = Path(__file__).parent.parent
ROOMS = ("graph", "nodes", "prompts", "apps")


def settings() -> dict[str, Any]:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(tables["tool"]["setuptools"])


def test_every_package_is_listed_in_both_tables() -> None:
    folders = {"turnflow": "turnflow"}
    for room in ROOMS:
        for init in (ROOT / room).rglob("__init__.py"):
            folder = init.parent.relative_to(ROOT)
            folders["turnflow." + ".".join(folder.parts)] = folder.as_posix()
    for language in (ROOT / "prompts").iterdir():  # data, so without an __init__.py
        if (language / "texts.toml").exists():
            folders[f"turnflow.prompts.{language.name}"] = f"prompts/{language.name}"
    assert sorted(settings()["packages"]) == sorted(folders)
    assert settings()["package-dir"] == folders


def test_nothing_else_lands_in_site_packages() -> None:
    assert all(name == "turnflow" or name.startswith("turnflow.") for name in settings()["packages"])


def test_rooms_are_linked() -> None:
    for room in ROOMS:
        assert (ROOT / "turnflow" / room).resolve() == ROOT / room


def test_public_names_exist() -> None:
    assert sorted(turnflow.__all__) == turnflow.__all__
    for name in turnflow.__all__:
        assert getattr(turnflow, name).__doc__ or name in {"TurnGraph", "Policy", "Verdict"}  # aliases


def test_the_library_imports_without_any_extra() -> None:
    absent = ["typer", "rich", "xllamacpp", "langgraph_cli", "numpy", "torch", "sentence_transformers"]
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import turnflow"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
