"""Each notebook: its cells run on this interpreter, and the outputs that are stored are true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.notebooks.execution import METADATA, NOTEBOOKS, executed, read
from tests.notebooks.outputs import differences, faults

NOTEBOOK_FILES = sorted(NOTEBOOKS.glob("*.ipynb"))
REFRESH = "python -m tests.notebooks.refresh"

_LINK = re.compile(r"\]\(([^)\s]+)\)")

each_notebook = pytest.mark.parametrize("path", NOTEBOOK_FILES, ids=lambda path: path.stem)


def test_there_are_notebooks_and_the_page_lists_each() -> None:
    page = (NOTEBOOKS.parent / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert NOTEBOOK_FILES
    assert [path.name for path in NOTEBOOK_FILES if f"(../notebooks/{path.name})" not in page] == []


@pytest.mark.local_model
@pytest.mark.timeout(300)
@each_notebook
def test_its_outputs_are_what_it_gives(path: Path) -> None:
    stored = read(path)
    different = differences(stored, executed(stored))
    assert not different, "\n\n".join([*different, f"If this is as it should be: {REFRESH} {path.stem}"])


@each_notebook
def test_its_stored_form_is_clean(path: Path) -> None:
    assert faults(path, read(path)) == []


@each_notebook
def test_it_says_nothing_about_the_machine_that_ran_it(path: Path) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["metadata"] == METADATA
    assert [cell["id"] for cell in stored["cells"] if set(cell["metadata"]) - {"tags"}] == []


@each_notebook
def test_its_links_lead_somewhere(path: Path) -> None:
    prose = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    links = [link.partition("#")[0] for text in prose for link in _LINK.findall(text) if "://" not in link]
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []
