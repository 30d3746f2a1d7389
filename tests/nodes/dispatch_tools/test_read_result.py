"""Reading on in a kept result: parts, their ends, and handles that do not exist."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.graph.test_result_shelf import made_run
from turnflow.graph.flow import drive
from turnflow.graph.result_shelf import KeepResult, result_handle
from turnflow.nodes.dispatch_tools.read_result import (
    MAX_LIMIT,
    ReadResult,
    no_result,
    read_on,
    read_result_tool,
    slice_of,
)
from turnflow.nodes.dispatch_tools.results import render
from turnflow.prompts import Prompts

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)
PROMPTS = Prompts("en")
HANDLE = result_handle("m", "c")
_LINE = re.compile(r"\[characters (\d+) to (\d+) of (\d+)\]\n")


def part(text: str, offset: int, limit: int, max_chars: int = 16_000) -> tuple[int, int, str]:
    """A part's first character and the one behind its last, and the part."""
    found = slice_of(text, offset, limit, max_chars=max_chars, prompts=PROMPTS)
    content = str(found.content)
    assert found.ok
    assert len(content) <= max_chars
    line = _LINE.match(content)
    assert line
    assert int(line[3]) == len(text)
    return int(line[1]), int(line[2]), content[line.end() :]


@pytest.mark.parametrize(
    ("offset", "limit", "bounds"),
    [
        (0, 4, (0, 4)),
        (4, 4, (4, 8)),
        (8, 4, (8, 10)),
        (9, 1, (9, 10)),
        (0, 100, (0, 10)),
        (3, MAX_LIMIT, (3, 10)),
    ],
)
def test_a_part_says_which_it_is(offset: int, limit: int, bounds: tuple[int, int]) -> None:
    assert part("0123456789", offset, limit) == (*bounds, "0123456789"[slice(*bounds)])


@pytest.mark.parametrize("offset", [10, 11, 10**8])
def test_there_is_nothing_past_the_end(offset: int) -> None:
    found = slice_of("0123456789", offset, 5, max_chars=200, prompts=PROMPTS)
    assert found.content == f"The result has 10 characters; there is nothing at {offset}."
    assert not found.ok


@FUZZ
@given(
    st.text(min_size=1),
    st.integers(1, 50),
    st.lists(st.integers(1, MAX_LIMIT), min_size=1),
    st.sampled_from([200, 210, 16_000]),
)
def test_parts_one_after_the_other_are_the_whole(
    text: str, times: int, limits: list[int], max_chars: int
) -> None:
    text *= times
    read, at = "", 0
    for turn in range(len(text)):
        start, end, piece = part(text, at, limits[turn % len(limits)], max_chars)
        assert (start, end - start) == (at, len(piece))
        assert piece
        read, at = read + piece, end
        if at == len(text):
            break
    assert read == text


@FUZZ
@given(st.text(min_size=201), st.sampled_from(["en", "zh"]))
def test_the_notice_leads_to_what_was_left_out(text: str, locale: str) -> None:
    prompts = Prompts(locale)
    found = render(text, max_chars=200, prompts=prompts, handle=HANDLE)
    if not text.strip():
        assert found.whole is None
        return
    assert found.whole is not None
    numbers = [
        int(number) for number in re.findall(r"(?<![0-9a-f])\d+(?![0-9a-f])", _notice_in(found.content))
    ]
    offset, cut = numbers[-1], next(number for number in numbers if number != len(found.whole))
    head, tail = found.whole[:offset], found.whole[offset + cut :]
    assert str(found.content).startswith(head)
    assert str(found.content).endswith(tail)


def _notice_in(content: Any) -> str:
    """The line of the notice: the last that names the tool, since a text could look like one."""
    return [line for line in str(content).split("\n") if "read_result" in line][-1]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"handle": HANDLE, "offset": -1},
        {"handle": HANDLE, "limit": 0},
        {"handle": HANDLE, "limit": MAX_LIMIT + 1},
        {"handle": HANDLE, "offset": 10**100},
        {"handle": 5},
    ],
)
def test_arguments_are_checked(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReadResult.model_validate(args)


def test_the_tool_is_run_by_the_graph() -> None:
    tool = read_result_tool(PROMPTS)
    assert (tool.name, set(tool.args)) == ("read_result", {"handle", "offset", "limit"})
    with pytest.raises(RuntimeError, match="cannot be called by itself"):
        tool.invoke({"handle": HANDLE})


@pytest.mark.parametrize("handle", ["", "r0000000000", "x" * 10**6, "a\nb\ud800", "{handle}", "../../etc"])
def test_a_handle_can_be_anything(handle: str) -> None:
    run = made_run(thread="t")
    ended = drive(read_on({"handle": handle}, run))
    content = str(ended.rendered.content)
    assert ended.status == "error"
    assert content.startswith("There is no result with the handle")
    assert len(content.encode()) < 250
    assert ended.rendered == no_result(handle, PROMPTS)


def test_a_kept_result_is_read_with_its_defaults() -> None:
    run = made_run(thread="t-read")
    assert KeepResult(run, HANDLE, "0123456789" * 1000).call()
    ended = drive(read_on({"handle": HANDLE, "offset": 5}, run))
    assert ended.status == "ok"
    assert str(ended.rendered.content).startswith("[characters 5 to 8005 of 10000]\n56789")
    past = drive(read_on({"handle": HANDLE, "offset": 10_000}, run))
    assert past.status == "error"
