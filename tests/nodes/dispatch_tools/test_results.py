"""Rendering a tool's value: limits, and values that cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from turnflow import ToolOutput
from turnflow.nodes.dispatch_tools.results import Rendered, render, render_failure
from turnflow.prompts import Prompts

PROMPTS = Prompts("en")


def rendered(value: Any, max_chars: int = 200) -> Rendered:
    return render(value, max_chars=max_chars, prompts=PROMPTS)


def test_the_limit_is_one_for_all_blocks_together() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    blocks = [{"type": "text", "text": letter * 150} for letter in "abcd"]
    content = rendered([*blocks, image]).content
    assert isinstance(content, list)
    assert content[0] == blocks[0]
    assert content[-1] == image
    told = "".join(block.get("text", "") for block in content)
    assert 0 < told.count("b") <= 50
    assert "c" * 20 not in told
    assert "d" * 20 not in told
    assert "characters left out" in told


def test_the_answer_of_a_terminating_tool_is_not_cut() -> None:
    answer = "x" * 5000
    assert rendered(ToolOutput(answer, terminate=True)).content == answer
    assert len(rendered(ToolOutput(answer)).content) < 300


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class WordlessError(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value] # noqa: PLE0307 - foreign code does so


@pytest.mark.parametrize("error", [MuteError(), WordlessError(), Exception()])
def test_an_exception_without_a_text_is_told_by_its_type(error: Exception) -> None:
    failure = render_failure(error, PROMPTS)
    assert not failure.ok
    assert f"failed with {type(error).__name__}" in str(failure.content)


def test_circular_sources_are_an_error_result() -> None:
    circle: list[Any] = []
    circle.append(circle)
    failure = rendered(ToolOutput("text", sources=circle))
    assert not failure.ok
    assert "failed with ValueError" in str(failure.content)
    assert failure.report == {}


def test_a_circular_value_is_told_in_python_words() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    assert rendered(circle).content == "{'self': {...}}"
