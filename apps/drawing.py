"""Draws a graph as a picture on this machine: no network, no browser (docs/notebooks.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.pregel import Pregel

HOW_TO_INSTALL = "pip install 'turnflow[draw]'"

# Labels as plain SVG text show in every viewer, HTML inside SVG in browsers only. The seed is for the rounded
# shapes, whose outlines are drawn at random otherwise.
_CONFIG = {"htmlLabels": False, "flowchart": {"htmlLabels": False}, "handDrawnSeed": 1}
_BACKGROUND = "#ffffff"

_PARAGRAPH = re.compile(r"</?p>|&nbsp;")


@dataclass(frozen=True, repr=False)
class Drawing:
    """A drawn graph; a notebook shows it as a picture."""

    mermaid: str
    """The drawing as Mermaid text."""
    svg: str
    """The same as an SVG document, transparent."""
    png: bytes
    """The same as a PNG file, on white."""

    def __repr__(self) -> str:
        """Short, as it stands beside the picture in a notebook."""
        return "<Drawing>"

    def _repr_png_(self) -> bytes:
        # One format only, as a notebook stores all that are offered; PNG looks the same in every viewer.
        return self.png

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, in the format that its ending names.

        Args:
            path: A file that ends in `.svg`, `.png` or `.mmd` (the Mermaid text). One that exists
                is replaced.

        Raises:
            ValueError: The ending is another one.
            OSError: The file cannot be written.
        """
        file = Path(path)
        content = {".svg": self.svg.encode(), ".png": self.png, ".mmd": self.mermaid.encode()}
        if file.suffix not in content:
            raise ValueError(f"{file.name}: a drawing is saved as {', '.join(content)}")
        file.write_bytes(content[file.suffix])


def draw_graph(graph: Pregel[Any, Any, Any, Any], *, xray: int | bool = False) -> Drawing:
    """Draw a compiled graph. It takes about a second.

    LangGraph's own `draw_mermaid_png`, and the picture that a notebook shows for a graph, are made by a web
    service; this one is made here.

    Args:
        graph: A compiled graph, of turnflow or any other.
        xray: Draw what is inside embedded graphs too; a number says how many levels deep.

    Returns:
        The drawing; the same graph gives the same bytes each time.

    Raises:
        ImportError: `mermaidx` is not installed; the text says how to install it.
    """
    try:
        import mermaidx  # type: ignore[import-untyped]  # it brings no types
    except ImportError as error:
        raise ImportError(
            f"Drawing needs the package mermaidx, which is not installed. Run: {HOW_TO_INSTALL}"
        ) from error
    text = graph.get_graph(xray=xray).draw_mermaid()
    # LangGraph wraps some labels in HTML, which would be shown as it stands.
    diagram = mermaidx.render(_PARAGRAPH.sub("", text), config=_CONFIG)
    return Drawing(mermaid=text, svg=diagram.svg(), png=diagram.png(background=_BACKGROUND))
