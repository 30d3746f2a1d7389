"""Drawing graphs offline."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from IPython.core.formatters import DisplayFormatter
from langgraph.graph import END, START, MessagesState, StateGraph

from turnflow import build_turn_graph
from turnflow.apps.drawing import Drawing, draw_graph

PNG = b"\x89PNG\r\n\x1a\n"
NODES = {"assemble_context", "call_llm", "classify_label", "repair", "dispatch_tools", "fold_checkpoint"}


def labels(drawing: Drawing) -> set[str]:
    """The texts in the picture."""
    root = ET.fromstring(drawing.svg)  # noqa: S314 - drawn here
    return {"".join(text.itertext()).strip() for text in root.iter("{http://www.w3.org/2000/svg}text")}


@pytest.fixture(scope="module")
def drawing() -> Drawing:
    return draw_graph(build_turn_graph("some-model"))


def test_every_node_is_in_the_picture(drawing: Drawing) -> None:
    assert labels(drawing) >= {*NODES, "finalize", "__start__", "__end__"}
    assert "call_llm --> classify_label" in drawing.mermaid
    assert drawing.png.startswith(PNG)
    assert "foreignObject" not in drawing.svg  # HTML, which only browsers show


def test_it_needs_no_network_and_is_the_same_each_time(
    drawing: Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("drawing opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    assert draw_graph(build_turn_graph("some-model")) == drawing


def test_xray_shows_the_inside_of_an_embedded_graph() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("turn", build_turn_graph("some-model"))
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    parent = builder.compile()
    assert not labels(draw_graph(parent)) & NODES
    assert labels(draw_graph(parent, xray=True)) >= NODES


def test_a_notebook_shows_the_picture_and_a_short_text(drawing: Drawing) -> None:
    shown, _ = DisplayFormatter().format(drawing)  # type: ignore[no-untyped-call]
    assert set(shown) == {"image/png", "text/plain"}
    assert shown["image/png"] == drawing.png
    assert shown["text/plain"] == "<Drawing>"


def test_it_is_saved_in_the_format_of_the_ending(drawing: Drawing, tmp_path: Path) -> None:
    for name in ("graph.svg", "graph.png", "graph.mmd"):
        drawing.save(tmp_path / name)
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == drawing.svg
    assert (tmp_path / "graph.png").read_bytes() == drawing.png
    assert (tmp_path / "graph.mmd").read_text(encoding="utf-8") == drawing.mermaid
    with pytest.raises(ValueError, match=r"graph\.jpg: a drawing is saved as \.svg, \.png, \.mmd"):
        drawing.save(tmp_path / "graph.jpg")
    assert not (tmp_path / "graph.jpg").exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    with pytest.raises(ImportError, match=r"mermaidx.*pip install 'turnflow\[draw\]'"):
        draw_graph(build_turn_graph("some-model"))
