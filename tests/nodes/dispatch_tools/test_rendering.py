"""Any value as text: a table of kinds, hostile objects, and the laws of rendering."""

from __future__ import annotations

import array
import asyncio
import collections
import dataclasses
import enum
import itertools
import json
import os
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.types import Command
from pydantic import BaseModel, Field, RootModel, SecretStr

from tests.linear_time import is_linear
from turnflow.graph.result_shelf import result_handle
from turnflow.nodes.dispatch_tools import rendering
from turnflow.nodes.dispatch_tools.rendering import MAX_ITERATED, text_of
from turnflow.nodes.dispatch_tools.results import render
from turnflow.prompts import Prompts

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "300")), deadline=None)
PROMPTS = Prompts("en")


def text(value: Any) -> str:
    return text_of(value, PROMPTS)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    when: date


@dataclasses.dataclass
class Account:
    name: str
    balance: Decimal
    key: str = dataclasses.field(default="secret", repr=False)


class Model(BaseModel):
    name: str
    path: Path = Path("/a")
    password: SecretStr = SecretStr("secret")
    hidden: str = Field(default="secret", exclude=True)


class Scalar:
    """Like a scalar of numpy."""

    dtype = "float64"

    def tolist(self) -> float:
        return 1.5


class Stubborn(Scalar):
    def tolist(self) -> Any:
        return self

    def __str__(self) -> str:
        return "stubborn"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


class Number(int):
    def __str__(self) -> str:
        return "not a number"

    __repr__ = __str__


def rows(*values: Any) -> Iterator[Any]:
    yield from values


def circle() -> list[Any]:
    items: list[Any] = [1]
    items.append({"all": items})
    return items


UTC = timezone.utc  # noqa: UP017 - read as what it is


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("plain é 😀", "plain é 😀"),
        ("half \ud83d, pair \ud83d\ude00", "half \ufffd, pair 😀"),
        (Text("text"), "text"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (Number(7), "7"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (2j, "2j"),
        (10**400, "1" + "0" * 400),
        (1 << 4000, "0x1" + "0" * 1000),
        ({"a": [1, None, True, "ü"]}, '{"a": [1, null, true, "ü"]}'),
        ([], "[]"),
        ({}, "{}"),
        ((1, "a"), '[1, "a"]'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (frozenset("ba"), '["a", "b"]'),
        (range(3), "[0, 1, 2]"),
        (collections.deque([1]), "[1]"),
        (array.array("i", [1, 2]), "[1, 2]"),
        ({"a": 1}.keys(), '["a"]'),
        ({"a": 1}.values(), "[1]"),
        ({"a": 1}.items(), '[["a", 1]]'),
        (MappingProxyType({"a": 1}), '{"a": 1}'),
        (collections.OrderedDict(a=1), '{"a": 1}'),
        (collections.Counter("aa"), '{"a": 2}'),
        (
            {
                7: "int",
                None: "null",
                True: "bool",
                1.5: "float",
                (1, 2): "tuple",
            },
            '{"7": "int", "null": "null", "true": "bool", "1.5": "float", "(1, 2)": "tuple"}',
        ),
        ({Colour.RED: 1, b"k": 2, 1 << 4000: 3}, '{"red": 1, "k": 2, "0x1' + "0" * 1000 + '": 3}'),
        ([float("nan"), 1 << 4000], '[NaN, "0x1' + "0" * 1000 + '"]'),
        (Colour.RED, "red"),
        (Level.LOW, "1"),
        ([Colour.RED, Level.LOW], '["red", 1]'),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        ([timedelta(seconds=1)], '["0:00:01"]'),
        (Decimal("1.10"), "1.10"),
        ([Decimal("1.10"), Fraction(1, 3)], '["1.10", "1/3"]'),
        ([PurePosixPath("/a/b")], '["/a/b"]'),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Point(1, date(2026, 1, 2)), '{"x": 1, "when": "2026-01-02"}'),
        (Account("ann", Decimal(1)), '{"name": "ann", "balance": "1"}'),
        (Account, "<class 'tests.nodes.dispatch_tools.test_rendering.Account'>"),
        ([Model(name="x")], '[{"name": "x", "path": "/a", "password": "**********"}]'),
        (RootModel[list[int]]([1]), "[1]"),
        ({"at": [Point(1, date(2026, 1, 2))]}, '{"at": [{"x": 1, "when": "2026-01-02"}]}'),
        (Scalar(), "1.5"),
        ([Scalar(), Stubborn()], '[1.5, "stubborn"]'),
        (SimpleNamespace(a=1), "namespace(a=1)"),
        (b"text", "text"),
        ([b"text", bytearray("ü", "utf-8"), memoryview(b"x")], '["text", "ü", "x"]'),
        (b"\0\1", "(2 bytes of binary data, type application/octet-stream)"),
        (b"\xff", "(1 bytes of binary data, type application/octet-stream)"),
        (b"\x1b[31m", "(5 bytes of binary data, type application/octet-stream)"),
        ({"pdf": b"%PDF-1.7\0"}, '{"pdf": "(9 bytes of binary data, type application/pdf)"}'),
        ([b"\0\0\0\x20ftypisom"], '["(12 bytes of binary data, type video/mp4)"]'),
        ([b"RIFF\0\0\0\0WAVE"], '["(12 bytes of binary data, type audio/wav)"]'),
        ([ValueError("no")], '["ValueError: no"]'),
        (rows(1, "a"), '[1, "a"]'),
        (map(str, [1]), '["1"]'),
        ({"all": rows()}, '{"all": []}'),
        (circle(), '[1, {"all": "…"}]'),
    ],
)
def test_each_kind_of_value_has_its_text(value: Any, told: str) -> None:
    assert text(value) == told


def test_what_stands_twice_is_no_circle() -> None:
    shared = [1]
    assert text([shared, shared]) == "[[1], [1]]"


def test_what_is_too_deep_is_left_out() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert text(deep) == "[" * 64 + '"…"' + "]" * 64
    while deep != 1:
        (deep,) = deep  # Python itself takes it apart with one call a level


# Hostile objects


class Mute:
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = object.__repr__  # for the test runner


class NoText:
    def __str__(self) -> str:
        return 5  # type: ignore[return-value] # noqa: PLE0307 - foreign code does so


class Deep:
    def __str__(self) -> str:
        return str(self)


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError


class Anonymous(metaclass=Nameless):
    def __str__(self) -> str:
        raise RuntimeError


class BrokenModel(BaseModel):
    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError

    def __str__(self) -> str:
        return "broken"


@dataclasses.dataclass
class BrokenData:
    name: str = "x"

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise RuntimeError(name)

    __repr__ = object.__repr__


class BrokenDate(date):
    def isoformat(self) -> str:
        raise RuntimeError


class EndlessList(list[Any]):
    __repr__ = object.__repr__

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(1)


class EndlessMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        raise RuntimeError


class BrokenList(list[Any]):
    __repr__ = object.__repr__

    def __iter__(self) -> Iterator[Any]:
        raise OSError("gone")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Mute(), "<Mute>"),
        ([Mute(), 1], '["<Mute>", 1]'),
        ({Mute(): Mute()}, '{"<Mute>": "<Mute>"}'),
        (NoText(), "<NoText>"),
        (Deep(), "<Deep>"),
        (Anonymous(), "<object>"),
        (BrokenModel(), "broken"),
        (BrokenDate(2026, 1, 2), "<BrokenDate>"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__qualname__,
)
def test_an_object_that_says_nothing_is_told_by_its_type(value: Any, told: str) -> None:
    assert text(value) == told


def test_what_never_ends_is_cut() -> None:
    numbers = ", ".join(map(str, range(MAX_ITERATED)))
    assert text(itertools.count()) == f'[{numbers}, "…"]'
    assert text(EndlessList()) == "[" + "1, " * MAX_ITERATED + '"…"]'
    assert text([iter(range(MAX_ITERATED))]) == f"[[{numbers}]]"
    assert json.loads(text(EndlessMapping())) == {**{str(n): 1 for n in range(MAX_ITERATED)}, "…": "…"}


def test_a_generator_that_is_cut_is_closed() -> None:
    closed = []

    def numbers() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    text(numbers())
    assert closed == [True]


def test_a_file_is_not_read() -> None:
    with Path(__file__).open(encoding="utf-8") as file:
        assert "TextIOWrapper" in text(file)
        assert file.tell() == 0


async def later() -> str:
    return "late"


async def soon() -> AsyncIterator[int]:
    yield 1


async def _future() -> Any:
    return asyncio.get_running_loop().create_future()


def future() -> Any:
    return asyncio.run(_future())


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (later, "TypeError: the tool returned a coroutine that was not awaited"),
        (lambda: [later()], "TypeError: the tool returned a coroutine that was not awaited"),
        (soon, "TypeError: a tool cannot return a async_generator"),
        (future, "TypeError: a tool cannot return a"),
        (lambda: [Command()], "TypeError: a tool cannot return a Command"),
        (lambda: map(int, ["1", "x"]), "ValueError: invalid literal"),
        (BrokenList, "OSError: gone"),
    ],
)
def test_what_is_no_result_yet_is_refused(make: Callable[[], Any], complaint: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that was never awaited warns
        failure = render(make(), max_chars=500, prompts=PROMPTS)
    assert not failure.ok
    assert f"failed with {complaint}" in str(failure.content)


# Laws

HOSTILE: list[Callable[[], Any]] = [
    Mute,
    NoText,
    Deep,
    lambda: Anonymous(),  # noqa: PLW0108 - the class has no name
    BrokenModel,
    BrokenData,
    BrokenList,
    EndlessList,
    EndlessMapping,
    Stubborn,
    Command,
    lambda: ValueError("\ud800"),
    itertools.count,
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 5000).map(lambda bits: 1 << bits),
    st.floats(),
    st.text(st.characters(codec=None)),
    st.binary(max_size=20),
    st.dates(),
    st.datetimes(),
    st.decimals(),
    st.uuids(),
    st.sampled_from([Colour.RED, Level.LOW, object]),
    st.sampled_from(HOSTILE).map(lambda make: make()),
    st.builds(rows, st.integers(), st.text()),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(), st.none()), inner, max_size=4),
        st.builds(lambda value: {"type": "text", "text": value}, inner),
        st.builds(lambda value: {"type": "image_url", "image_url": value}, inner),
        st.builds(lambda value: {"type": "image", "base64": value, "mime_type": "image/png"}, inner),
        st.builds(lambda value: {"type": value, "url": "x"}, inner),
        st.builds(Account, inner, inner),
    ),
    max_leaves=10,
)


def check_plain(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            assert type(key) is str
            check_plain(item)
    elif isinstance(value, list):
        for item in value:
            check_plain(item)
    else:
        assert type(value) is str
        value.encode()


@FUZZ
@given(VALUES, st.sampled_from([200, 300, 16_000]), st.sampled_from([None, result_handle("m", "c")]))
def test_any_value_becomes_bounded_content_that_can_be_stored(
    value: Any, max_chars: int, handle: str | None
) -> None:
    found = render(value, max_chars=max_chars, prompts=PROMPTS, handle=handle)
    for content in (found.content, found.unkept):
        check_plain(content)
        blocks = [{"text": content}] if isinstance(content, str) else content
        assert sum(len(block.get("text", "")) for block in blocks) <= max_chars
    assert found.content
    assert (found.whole is not None) == ("handle" in found.report)
    if found.whole is not None:
        found.whole.encode()
        assert len(found.whole) > max_chars


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@FUZZ
@given(st.lists(JSON_VALUES, max_size=5))
def test_json_is_written_as_json(value: list[Any]) -> None:
    assert text(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("count", [999, 1000, 1001, 2500])
def test_long_lists_are_written_whole(count: int) -> None:
    value = [*range(count), "x" * 1001, *range(count)]
    assert text(value) == json.dumps(value)


def test_the_whole_text_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_TEXT", 100)
    for value in ("x" * 101, ["x" * 200], [[1] * 10] * 100, range(10**12), {"k" * 200: 1}, b"x" * 200):
        found = text(value)
        assert len(found) == 100
        assert found.endswith("…")
    assert text("x" * 100) == "x" * 100


# Time


def nested(width: int) -> Any:
    """A value of 10 to the power of 12 leaves, made of few objects."""
    value: Any = ["x"] * width
    for _ in range(11):
        value = [value] * width
    return value


def test_what_is_boundless_takes_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_TEXT", 1_000_000)
    for value in (nested(10), range(10**12), itertools.repeat("x" * 1_000_000), 1 << 10_000_000):
        assert len(text(value)) <= 1_000_000


SHAPES: list[Callable[[int], Any]] = [
    lambda size: "x" * size,
    lambda size: "中" * size,
    lambda size: "中\ud800" * (size // 2),
    lambda size: b"x" * size,
    lambda size: b"x" * size + b"\0",
    lambda size: list(range(size // 8)),
    lambda size: [{"id": n} for n in range(size // 100)],
    lambda size: ["x" * (size // 4), "\\" * (size // 4)],
    lambda size: [{"type": "text", "text": "x" * 100}] * (size // 1000),
    lambda size: 1 << size,
    lambda size: ValueError("x" * size),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_rendering_takes_linear_time(shape: Callable[[int], Any]) -> None:
    def seconds(size: int) -> float:
        value = shape(size)
        started = time.thread_time()
        render(value, max_chars=16_000, prompts=PROMPTS, handle=result_handle("m", "c"))
        return time.thread_time() - started

    assert is_linear(seconds, 4_000_000)


def test_fifty_megabytes_are_rendered_whole() -> None:
    given = "x" * 25_000_000 + "中" * 25_000_000
    found = render(given, max_chars=16_000, prompts=PROMPTS, handle=result_handle("m", "c"))
    assert found.whole == given
    assert len(found.content) <= 16_000
