"""Rendering a tool's value: what a tool says beside its content, failures, limits, handles, time."""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.types import Command

from turnflow import CancelToken, ToolOutput
from turnflow.graph.result_shelf import result_handle
from turnflow.nodes.dispatch_tools.results import (
    MAX_MEDIA,
    MAX_MEDIA_BLOCKS,
    Rendered,
    RenderResult,
    render,
    render_failure,
)
from turnflow.nodes.dispatch_tools.tool_values import with_values
from turnflow.prompts import Prompts

PROMPTS = Prompts("en")
HANDLE = result_handle("m1", "c1")
PNG = b"\x89PNG\r\n\x1a\nrest"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def rendered(value: Any, max_chars: int = 200, handle: str | None = None) -> Rendered:
    return render(value, max_chars=max_chars, prompts=PROMPTS, handle=handle)


def said(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


# What a result is


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, "null"),
        ("", "(no output)"),
        (" \n", "(no output)"),
        (b"", "(no output)"),
        (ToolOutput(None), "(no output)"),
        (ToolOutput({"a": 1}), '{"a": 1}'),
        (ToolMessage("text", tool_call_id="c"), "text"),
        (ToolMessage(["a", "b"], tool_call_id="c"), '["a", "b"]'),
        (text_block("hi"), [text_block("hi")]),
        ([text_block("hi"), text_block(" ")], [text_block("hi")]),
        (("see", IMAGE), [text_block("see"), IMAGE]),
        ([text_block(" ")], "(no output)"),
        ({"type": "image", "base64": "AA==", "mime_type": "image/png"}, [IMAGE]),
        ([{"type": "image", "url": "data:image/png;base64,AA==", "id": 7}], [IMAGE]),
        (["a", "b"], '["a", "b"]'),
        ([{"type": "file", "name": "a.txt"}], '[{"type": "file", "name": "a.txt"}]'),
        ({"type": "video", "url": "u"}, '{"type": "video", "url": "u"}'),
        ([IMAGE, {"type": "json"}], None),
    ],
)
def test_a_result_is_text_or_blocks(value: Any, content: Any) -> None:
    found = rendered(value)
    assert found.ok
    assert found.content == content if content is not None else isinstance(found.content, str)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a..", "image/gif"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_the_bytes_of_a_picture_are_an_image(data: bytes, kind: str, make: Callable[[bytes], Any]) -> None:
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    assert rendered(make(data)).content == [{"type": "image_url", "image_url": {"url": url}}]


def test_a_picture_that_is_too_large_is_told_by_its_size() -> None:
    data = PNG + bytes(MAX_MEDIA)
    assert rendered(data).content == f"({len(data)} bytes of binary data, type image/png)"


def test_media_are_limited_in_size_and_number() -> None:
    large = {"type": "image_url", "image_url": {"url": "x" * (MAX_MEDIA // 2 + 1)}}
    content = rendered([large, large]).content
    assert content == [large, text_block(f"({MAX_MEDIA // 2 + 1} bytes of binary data, type image_url)")]
    many = rendered([IMAGE] * (MAX_MEDIA_BLOCKS + 1)).content
    assert [block["type"] for block in many if isinstance(block, dict)] == [
        *["image_url"] * MAX_MEDIA_BLOCKS,
        "text",
    ]


# What a tool says beside its content


def test_a_tool_output_is_reported() -> None:
    output = ToolOutput(
        "x",
        sources=[{"n": float("nan")}],
        checkpoint="so far\ud800",
        load=["a", "b"],
        unload=("c",),
        instructions="Do so.",
        variables={"form": {"step": 2, "gone": None}, "old": None},
    )
    report = rendered(output).report
    assert str(report.pop("sources")[0]["n"]).lower() == "nan"
    assert report == {
        "checkpoint": "so far\ufffd",
        "terminate": False,
        "load": ["a", "b"],
        "unload": ["c"],
        "instructions": "Do so.",
        "variables": {"form": {"step": 2, "gone": None}, "old": None},
    }


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"form": {"file": b"x"}}, "ToolOutput.variables['form']['file'] is a value of type bytes"),
        (
            {"form": {"seen": [1, {"at": {2}}]}},
            "ToolOutput.variables['form']['seen'][1]['at'] is a value of type",
        ),
        ({"form": {"part": float("nan")}}, "ToolOutput.variables['form']['part'] is a number that JSON"),
        ({"form": {"large": 2**64}}, "ToolOutput.variables['form']['large'] is a number that JSON"),
        ({"form": {1: 2}}, "ToolOutput.variables['form'][1]: the name of a variable"),
        ({"form": {"": 2}}, "ToolOutput.variables['form']['']: the name of a variable"),
        ({"form": 3}, "ToolOutput.variables['form'] is a dict of values by key"),
        ([("form", {})], "ToolOutput.variables is a dict by namespace"),
        (None, "ToolOutput.variables is a dict by namespace"),
    ],
)
def test_variables_are_plain_json(variables: Any, named: str) -> None:
    result = rendered(ToolOutput("x", variables=variables))
    assert not result.ok
    assert named in str(result.content)
    assert result.report == {}


def test_instructions_may_be_taken_out() -> None:
    assert rendered(ToolOutput("x", instructions="")).report["instructions"] == ""
    assert rendered(ToolOutput("x")).report["instructions"] is None
    assert rendered(ToolOutput("x", instructions={"a": "b"})).report["instructions"] == {"a": "b"}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"load": "search"}, "TypeError: ToolOutput.load is a list, not str"),
        ({"load": ["a", 1]}, "TypeError: ToolOutput.load is a list of tool names; int is no name"),
        ({"unload": {"a": 1}}, "TypeError: ToolOutput.unload is a list, not dict"),
        ({"unload": None}, "TypeError: ToolOutput.unload is a list, not NoneType"),
        (
            {"instructions": b"x"},
            "TypeError: ToolOutput.instructions is a text or a dict of texts, not bytes",
        ),
        ({"checkpoint": 1}, "TypeError: ToolOutput.checkpoint is a text, not int"),
        ({"sources": 5}, "TypeError: ToolOutput.sources is a list, not int"),
        ({"sources": itertools.count()}, "TypeError: ToolOutput.sources is a list, not count"),
        ({"sources": [0] * 10_001}, "TypeError: ToolOutput.sources is a list of at most 10000"),
        ({"sources": [{("a", 1): 2}]}, "TypeError: keys must be"),
        ({"content": Command()}, "TypeError: a tool cannot return a Command"),
    ],
)
def test_an_impossible_output_is_a_failure(fields: dict[str, Any], complaint: str) -> None:
    failure = rendered(ToolOutput(**{"content": "x", **fields}))
    assert not failure.ok
    assert failure.content.startswith(f"The tool failed with {complaint}")  # type: ignore[union-attr]
    assert failure.report == {}


def test_circular_sources_are_a_failure() -> None:
    circle: list[Any] = []
    circle.append(circle)
    failure = rendered(ToolOutput("text", sources=circle))
    assert "failed with ValueError" in str(failure.content)
    assert failure.report == {}


def test_an_artifact_that_cannot_be_stored_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    fine = ToolMessage("x", tool_call_id="c", artifact={"rows": [1]}, status="error")
    assert (rendered(fine).artifact, rendered(fine).ok) == ({"rows": [1]}, False)
    with caplog.at_level(logging.WARNING):
        assert rendered(ToolMessage("x", tool_call_id="c", artifact=threading.Lock())).artifact is None
    assert "an artifact of type lock cannot be stored" in caplog.text


# Failures


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class WordlessError(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value] # noqa: PLE0307 - foreign code does so


class LeavingError(Exception):
    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize("error", [MuteError(), WordlessError(), LeavingError(), Exception()])
def test_an_exception_without_a_text_is_told_by_its_type(error: Exception) -> None:
    failure = render_failure(error, PROMPTS)
    assert not failure.ok
    assert failure.content == f"The tool failed with {type(error).__name__}: (no output)"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: (no output)"),
        (asyncio.CancelledError("stop"), "CancelledError: stop"),
        (GeneratorExit(), "GeneratorExit: (no output)"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError("half \ud800"), "ValueError: half \ufffd"),
        (OSError(2, "No such file", "a.txt"), "FileNotFoundError: [Errno 2] No such file: 'a.txt'"),
        (
            ExceptionGroup("two", [ValueError("a"), TypeError("b")]),
            "ExceptionGroup: two (2 sub-exceptions); ValueError: a; TypeError: b",
        ),
    ],
)
def test_an_exception_is_told_by_type_and_message(error: BaseException, text: str) -> None:
    assert render_failure(error, PROMPTS).content == f"The tool failed with {text}"
    assert render_failure(error, PROMPTS) == rendered(error)
    assert rendered(ToolOutput(error)).ok is False


def test_a_failure_is_bounded() -> None:
    failure = render_failure(ValueError("x" * 50_000_000), PROMPTS)
    assert len(failure.content) == 2000
    assert "characters left out" in str(failure.content)


# Limits


def test_text_keeps_head_and_tail_within_the_limit() -> None:
    text = "head" + "x" * 10_000 + "tail"
    found = rendered(text)
    content = str(found.content)
    assert 190 < len(content) <= 200
    assert content.startswith("head")
    assert content.endswith("tail")
    assert f"[… {10_008 - content.count('x') - 8} of 10008 characters left out …]" in content
    assert (found.report, found.whole) == ({}, None)


@pytest.mark.parametrize("length", [199, 200])
def test_text_that_fits_is_left_alone(length: int) -> None:
    assert rendered("x" * length, handle=HANDLE) == Rendered("x" * length)


@pytest.mark.parametrize("locale", ["en", "zh"])
@pytest.mark.parametrize("length", [201, 1000, 99_999, 1_000_000])
def test_the_notice_of_a_kept_result_says_where_to_read_on(locale: str, length: int) -> None:
    text = "".join(map(str, range(length)))[:length]
    prompts = Prompts(locale)
    found = render(text, max_chars=200, prompts=prompts, handle=HANDLE)
    content = str(found.content)
    assert len(content) <= 200
    head, notice, tail = content.split("\n")
    assert notice == prompts.text(
        "result",
        "cut_kept",
        cut=length - len(head) - len(tail),
        total=length,
        tool="read_result",
        handle=HANDLE,
        offset=len(head),
    )
    assert text.startswith(head)
    assert text.endswith(tail)
    assert (found.whole, found.report) == (text, {"handle": HANDLE})


def test_a_result_that_could_not_be_kept_names_no_handle() -> None:
    output = ToolOutput("x" * 1000, sources=["a"], checkpoint="c")
    kept, unkept = rendered(output, handle=HANDLE), rendered(output)
    assert kept.report == {**unkept.report, "handle": HANDLE}
    assert kept.without_whole() == unkept
    assert HANDLE not in str(unkept.content)


def test_the_limit_is_one_for_all_blocks_together() -> None:
    blocks = [text_block(letter * 150) for letter in "abcd"]
    found = rendered([blocks[0], IMAGE, *blocks[1:], IMAGE], handle=HANDLE)
    assert isinstance(found.content, list)
    assert [block["type"] for block in found.content] == ["text", "image_url", "text", "image_url"]
    told = said(found.content)
    assert len(told) <= 200
    assert told.startswith("aaa")
    assert told.endswith("ddd")
    assert "bb" not in told
    assert "cc" not in told
    assert found.whole == "\n".join(block["text"] for block in blocks)


def test_blocks_before_the_cut_stay_as_they_are() -> None:
    blocks = [text_block("first"), IMAGE, text_block("x" * 1000), text_block("last")]
    content = rendered(blocks).content
    assert isinstance(content, list)
    assert content[:2] == blocks[:2]
    assert content[-1] == blocks[-1]


def test_the_answer_of_a_terminating_tool_is_not_cut() -> None:
    answer = "x" * 5000
    found = rendered(ToolOutput(answer, terminate=True), handle=HANDLE)
    assert (found.content, found.whole) == (answer, None)
    assert "handle" not in found.report
    assert len(rendered(ToolOutput(answer)).content) <= 200


def test_handles_are_the_same_for_the_same_call() -> None:
    assert result_handle("m1", "c1") == HANDLE
    assert (
        len({result_handle(*pair) for pair in (("m1", "c1"), ("m1c", "1"), ("m", "1c1"), ("", "\ud800"))})
        == 4
    )


# LangChain's tools


class Rows:
    def __init__(self) -> None:
        self.read = 0

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("nobody asked for the rows")

    def __str__(self) -> str:
        return "rows"


class Given(BaseTool):
    name: str = "given"
    description: str = "Give."

    def _run(self, number: int) -> Any:
        return {number}


def call(made: BaseTool, **args: Any) -> list[Any]:
    """What the tool gives, called both ways."""
    request = {"type": "tool_call", "id": "c1", "name": made.name, "args": args}
    given = [asyncio.run(with_values(made).ainvoke(request))]
    if getattr(made, "func", True) is not None:
        given.append(with_values(made).invoke(request))
    return given


@pytest.mark.parametrize(
    ("value", "content"),
    [({1}, "[1]"), (b"text", "text"), (None, "null"), ("text", "text"), (["a"], '["a"]'), (Rows(), "rows")],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_values_come_through_langchains_tools(value: Any, content: str, *, is_async: bool) -> None:
    def give() -> Any:
        return value

    async def agive() -> Any:
        return value

    made = (
        StructuredTool.from_function(coroutine=agive, description="Give.")
        if is_async
        else StructuredTool.from_function(give, description="Give.")
    )
    assert [rendered(given).content for given in call(made)] == [content] * (1 if is_async else 2)


def test_values_come_through_tool_classes_and_config_arguments() -> None:
    @tool
    def who(name: str, config: Any = None) -> dict[str, Any]:
        """Say who."""
        return {"name": name}

    assert [rendered(given).content for given in call(Given(), number=3)] == ["[3]"] * 2
    assert [rendered(given).content for given in call(who, name="x")] == ['{"name": "x"}'] * 2


@pytest.mark.parametrize(("content", "text"), [({1}, "[1]"), ("text", "text")])
def test_artifacts_come_through_langchains_tools(content: Any, text: str) -> None:
    @tool(response_format="content_and_artifact")
    def both() -> tuple[Any, Any]:
        """Give both."""
        return content, {"rows": [1]}

    for given in call(both):
        assert (rendered(given).content, rendered(given).artifact) == (text, {"rows": [1]})


def test_errors_that_langchain_handles_stay_errors() -> None:
    @tool
    def bad() -> str:
        """Fail."""
        raise ToolException("not so")

    bad.handle_tool_error = True
    assert [(rendered(given).content, rendered(given).ok) for given in call(bad)] == [("not so", False)] * 2


# As a wait


class Endless:
    def __init__(self) -> None:
        self.release = threading.Event()

    def __str__(self) -> str:
        self.release.wait(30)
        return "late"


class Leaving:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise KeyboardInterrupt


def both_ways(value: Any, **options: Any) -> list[Rendered]:
    def wait() -> RenderResult:
        return RenderResult(value, max_chars=200, prompts=PROMPTS, **{"timeout": 30, **options})

    return [wait().call(), asyncio.run(wait().acall())]


@pytest.mark.parametrize(
    "value", ["text", {"a": 1}, ToolMessage("x", tool_call_id="c"), ToolOutput("x" * 900)]
)
def test_waiting_gives_the_same(value: Any) -> None:
    assert both_ways(value) == [rendered(value)] * 2


def test_a_value_that_never_ends_is_given_up() -> None:
    value, token = Endless(), CancelToken()
    given_up = both_ways(value, timeout=0.02)
    token.cancel()
    given_up += both_ways(value, cancel=token)
    value.release.set()
    assert [found.ok for found in given_up] == [False] * 4
    assert ["no result within 0.02 seconds" in str(found.content) for found in given_up] == [True] * 2 + [
        False
    ] * 2
    assert all(str(found.content).startswith("Cancelled") for found in given_up[2:])


def test_whatever_a_value_raises_is_its_result() -> None:
    for found in both_ways(Leaving()):
        assert "failed with KeyboardInterrupt" in str(found.content)


def test_the_event_loop_goes_on_while_a_value_is_rendered() -> None:
    value = Endless()

    async def main() -> Rendered:
        asyncio.get_running_loop().call_later(0.01, value.release.set)
        return await RenderResult(value, max_chars=200, prompts=PROMPTS, timeout=30).acall()

    started = time.monotonic()
    assert asyncio.run(main()).content == "late"
    assert time.monotonic() - started < 25
