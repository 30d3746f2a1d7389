"""What a notebook's outputs say, and what they must not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.notebooks.pictures import are_alike

VARIES = "varies"
"""The tag of a cell whose output another machine may give otherwise, such as a model's answer."""
MAX_BYTES = 200_000

_SECONDS = re.compile(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b")
_TEMPORARY = re.compile(r"/tmp\b|/var/folders\b|AppData")  # noqa: S108 - looked for, not used
_REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.|mermaid\.ink|smith\.langchain")


def code_cells(notebook: Any) -> list[Any]:
    """The cells that hold code, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def said(cell: Any) -> list[tuple[str, str]]:
    """The outputs of a cell as pairs of kind and text, without how long something took.

    Kinds are `stdout`, `stderr`, `error`, or a media type. Of a picture the pair says only that
    there is one; `pictures` has it.
    """
    pairs = [pair for output in cell.outputs for pair in _pairs(output)]
    return [(kind, _SECONDS.sub("<time>", text)) for kind, text in pairs]


def pictures(cell: Any) -> list[str]:
    """The pictures of a cell, as the notebook holds PNG files."""
    shown = [output.data for output in cell.outputs if "data" in output]
    return [data["image/png"] for data in shown if "image/png" in data]


def differences(stored: Any, fresh: Any) -> list[str]:
    """Where the stored outputs are not what a fresh run gave; cells that vary only have to say something.

    Pictures are compared as a viewer from afar would: fonts and edges may be drawn a little otherwise.
    """
    found = []
    for old, new in zip(code_cells(stored), code_cells(fresh), strict=True):
        before, after = said(old), said(new)
        if VARIES in old.metadata.get("tags", []):
            before, after = [(kind, "") for kind, _ in before], [(kind, "") for kind, _ in after]
        elif before == after and not all(map(are_alike, pictures(old), pictures(new))):
            found.append(f"cell {old.id}:\n{old.source}\nthe picture is another one now")
        if before != after:
            found.append(f"cell {old.id}:\n{old.source}\nstored: {before}\nnow:    {after}")
    return found


def faults(path: Path, notebook: Any) -> list[str]:
    """What is wrong with a stored notebook, by looking at it."""
    found = []
    size = path.stat().st_size
    if size >= MAX_BYTES:
        found.append(f"it has {size} bytes; {MAX_BYTES} are too many")
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        found.append(f"its cells were not run once each, from the top: {counts}")
    for cell in code_cells(notebook):
        found.extend(f"cell {cell.id} {fault}" for kind, text in said(cell) for fault in _faults(kind, text))
    return found


def _pairs(output: Any) -> list[tuple[str, str]]:
    if output.output_type == "stream":
        return [(output.name, output.text)]
    if output.output_type == "error":
        return [("error", "\n".join(output.traceback))]
    data = sorted(output.data.items())
    return [(kind, text if kind.startswith("text/") else "a picture") for kind, text in data]


def _faults(kind: str, text: str) -> list[str]:
    forbidden = {
        "has an error": kind == "error" or "Traceback" in text,
        "writes to stderr": kind == "stderr",
        "names the home folder": str(Path.home()) in text,
        "names a temporary folder": bool(_TEMPORARY.search(text)),
        "names a host on the internet": bool(_REGISTRY.search(text)),
    }
    return [fault for fault, holds in forbidden.items() if holds]
