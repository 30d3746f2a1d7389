"""Any value as text that can be stored: text as it is, everything else as JSON (docs/results.md)."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import io
import json
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from itertools import islice
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from langgraph.types import Command
from pydantic import BaseModel

from turnflow.graph.text import storable
from turnflow.prompts import Prompts

MAX_TEXT = 100_000_000
"""Characters of one value that are rendered at most; what is behind them is left out."""

MAX_ITERATED = 10_000
"""Items that are taken of what may never end: iterators, and containers with an `__iter__` of their own."""

MAX_DEPTH = 64
"""Containers inside each other."""

LEFT_OUT = "…"
"""Stands in a rendered value for what is left out: a circle, or what is too deep or too much."""

FOREIGN = (Exception, SystemExit, asyncio.CancelledError, GeneratorExit)
"""What a foreign object may raise when it is looked at. A `KeyboardInterrupt` is the user's."""

_CHUNK = 1000
"""Items of a list that are encoded at a stretch."""

_SMALL = 1000
"""Characters of a text that may be one of them."""

_MAX_BITS = 2000
"""Bits of a whole number that is written in decimal: the time that takes grows with their square."""

_NOTHING: dict[Any, Any] = {}
_VIEWS = map(type, (_NOTHING.keys(), _NOTHING.values(), _NOTHING.items()))
_KNOWN: Iterable[Any] = (list, tuple, set, frozenset, deque, range, array, *_VIEWS)
_WHOLE = {kind.__iter__ for kind in _KNOWN}
"""Ways to iterate that are known to end."""

_WHOLE_PAIRS = {dict.items, OrderedDict.items}

_dumps = json.JSONEncoder(ensure_ascii=False).encode


def text_of(value: Any, prompts: Prompts) -> str:
    """A value as text that can be stored, at most `MAX_TEXT` characters.

    Raises:
        TypeError: The value cannot be a result; the text says why, and what to do.
        Exception: Whatever an iterator or a container raises when it is iterated.
    """
    plain = _reduced(value, prompts)
    if isinstance(plain, str | _Bare):
        return clean(str(plain))
    writer = _Writer(prompts)
    try:
        writer.write_container(value, plain)
    except _FullError:
        return clean(writer.text[: MAX_TEXT - 1]) + LEFT_OUT
    return clean(writer.text)


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, at most `MAX_TEXT` characters; no search over the whole."""
    text = str.__str__(text)
    if len(text) > MAX_TEXT:
        text = text[: MAX_TEXT - 1] + LEFT_OUT
    if text.isascii():
        return text
    try:
        for start in range(0, len(text), 1_000_000):
            text[start : start + 1_000_000].encode()
    except UnicodeEncodeError:
        return storable(text)
    return text


def told(value: Any) -> str:
    """What an object says of itself; its type's name where it says nothing."""
    try:
        return str.__str__(str(value))
    except FOREIGN:
        return f"<{kind_name(value)}>"


def kind_name(value: Any) -> str:
    """The name of a value's type."""
    try:
        return str(type(value).__name__)
    except FOREIGN:  # a metaclass may do anything
        return "object"


class _FullError(Exception):
    """There is more text than is wanted."""


class _Bare(str):
    """A number, a truth value or null, as JSON has it."""

    __slots__ = ()


@dataclass(frozen=True)
class _Fields:
    """A container that is written as a JSON object."""

    pairs: Iterator[tuple[Any, Any]]


@dataclass(frozen=True)
class _Items:
    """A container that is written as a JSON array.

    Attributes:
        items: What is in it.
        chunk: How many of them may be held at once.
    """

    items: Iterator[Any]
    chunk: int = _CHUNK


@dataclass(frozen=True)
class _Again:
    """A simpler value that stands for another."""

    value: Any


class _Writer:
    """Writes JSON, piece by piece, until there is enough."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._out = io.StringIO()
        self._size = 0
        self._path: list[int] = []

    @property
    def text(self) -> str:
        return self._out.getvalue()

    def write_container(self, value: Any, plain: _Fields | _Items) -> None:
        """Write what a container was reduced to.

        Raises:
            _FullError: That is more than `MAX_TEXT` characters together.
        """
        self._path.append(id(value))
        if isinstance(plain, _Fields):
            self._write_fields(plain.pairs)
        else:
            self._write_items(plain)
        self._path.pop()

    def _write(self, value: Any) -> None:
        if _is_small(value):
            self._put(_dumps(value))
            return
        if id(value) in self._path or len(self._path) >= MAX_DEPTH:
            self._put(_dumps(LEFT_OUT))
            return
        plain = _reduced(value, self._prompts)
        if isinstance(plain, _Bare):
            self._put(plain)
        elif isinstance(plain, str):
            self._put(_dumps(plain[: MAX_TEXT + 1]))
        else:
            self.write_container(value, plain)

    def _write_items(self, plain: _Items) -> None:
        self._put("[")
        separator = ""
        while chunk := list(islice(plain.items, plain.chunk)):
            if all(map(_is_small, chunk)):
                self._put(separator + _dumps(chunk)[1:-1])
                separator = ", "
                continue
            for item in chunk:
                self._put(separator)
                self._write(item)
                separator = ", "
        self._put("]")

    def _write_fields(self, pairs: Iterator[tuple[Any, Any]]) -> None:
        self._put("{")
        separator = ""
        for key, value in pairs:
            self._put(f"{separator}{_dumps(self._key(key))}: ")
            self._write(value)
            separator = ", "
        self._put("}")

    def _key(self, key: Any) -> str:
        """A key as text: JSON has no others."""
        if not isinstance(key, str):
            plain = _reduced(key, self._prompts)
            key = str(plain) if isinstance(plain, str) else told(key)
        return str.__str__(key)[: MAX_TEXT + 1]

    def _put(self, text: str) -> None:
        self._out.write(text)
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise _FullError


def _is_small(value: Any) -> bool:
    """Whether the JSON encoder can take the value beside many others."""
    kind = type(value)
    if kind is str:
        return len(value) <= _SMALL
    if kind is int:
        return bool(value.bit_length() <= _MAX_BITS)
    return value is None or kind is bool or kind is float


def _reduced(value: Any, prompts: Prompts) -> str | _Fields | _Items:
    """A value as one of the four things that JSON has; `_Bare` is one of them."""
    for _ in range(MAX_DEPTH):
        plain = _step(value, prompts)
        if not isinstance(plain, _Again):
            return plain
        value = plain.value
    return told(value)


def _step(value: Any, prompts: Prompts) -> str | _Fields | _Items | _Again:
    if isinstance(value, Enum):
        return _Again(value.value)
    if value is None or isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return binary_text(memoryview(value).tobytes(), prompts)
    if isinstance(value, BaseException):
        return f"{kind_name(value)}: {told(value)}"
    return _container(value) or _foreign(value)


def _number(value: Any) -> str:
    """A number, a truth value or null; whole numbers that are very long in hexadecimal, as text."""
    if value is None or isinstance(value, bool):
        return _Bare(_dumps(value))
    if isinstance(value, float):
        return _Bare(_dumps(float.__pos__(value)))
    value = int.__pos__(value)
    if value.bit_length() <= _MAX_BITS:
        return _Bare(value)
    return hex(value) if value.bit_length() <= MAX_TEXT else LEFT_OUT


def _container(value: Any) -> _Fields | _Items | None:
    if isinstance(value, Mapping):
        pairs = value.items()
        is_whole = type(value).items in _WHOLE_PAIRS
        return _Fields(iter(pairs) if is_whole else _limited(pairs, (LEFT_OUT, LEFT_OUT)))
    if isinstance(value, tuple) and isinstance(names := getattr(type(value), "_fields", None), tuple):
        return _Fields(zip(names, value, strict=False))
    if isinstance(value, Iterator):
        return None if isinstance(value, io.IOBase) else _Items(_limited(value, LEFT_OUT), chunk=1)
    if not isinstance(value, Sequence | AbstractSet | ValuesView | array):
        return None
    if type(value).__iter__ not in _WHOLE:
        return _Items(_limited(value, LEFT_OUT), chunk=1)
    return _Items(iter(_sorted(value) if isinstance(value, set | frozenset) else value))


def _sorted(values: AbstractSet[Any]) -> Iterable[Any]:
    """The values of a set in an order that does not change from run to run, where they have one."""
    kinds = set(map(type, values))
    return sorted(values) if kinds == {str} or kinds <= {int, float, bool} else values


def _limited(items: Iterable[Any], rest: Any) -> Iterator[Any]:
    """The first `MAX_ITERATED` of the items; `rest` stands for all further ones."""
    iterator = iter(items)
    try:
        yield from islice(iterator, MAX_ITERATED)
        for _ in iterator:
            yield rest
            break
    finally:
        if isinstance(iterator, GeneratorType):
            with suppress(*FOREIGN):
                iterator.close()


def _foreign(value: Any) -> str | _Fields | _Again:
    """An object that is no container and nothing that JSON has."""
    _refuse(value)
    with suppress(*FOREIGN):
        if isinstance(value, date | time):
            return str.__str__(value.isoformat())
        if isinstance(value, BaseModel):
            return _Again(value.model_dump(warnings=False))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _Fields(
                iter([(f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.repr])
            )
        if hasattr(type(value), "dtype") and hasattr(type(value), "tolist"):
            return _Again(value.tolist())
    return told(value)


def _refuse(value: Any) -> None:
    """Refuse what is no result yet, and what would steer the graph.

    Raises:
        TypeError: It is one of these.
    """
    if isinstance(value, Command):
        raise TypeError("a tool cannot return a Command; return text or a ToolOutput")
    if inspect.iscoroutine(value):
        with suppress(*FOREIGN):
            value.close()
        raise TypeError("the tool returned a coroutine that was not awaited: await it, or use `async def`")
    if isinstance(value, AsyncGeneratorType | asyncio.Future | Future):
        raise TypeError(f"a tool cannot return a {kind_name(value)}: wait for what it gives, and return that")


_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r")) + b"\x7f"

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
)
"""How files of a kind begin."""

_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}


def kind_of(data: bytes) -> str:
    """What kind of file the bytes are, by how they begin, as a MIME type."""
    if data[:4] == b"RIFF" and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return next((kind for start, kind in _KINDS if data.startswith(start)), "application/octet-stream")


def binary_text(data: bytes, prompts: Prompts) -> str:
    """Bytes as text: what they say if that is UTF-8 without control characters, else how many they are."""
    if len(data) <= 4 * MAX_TEXT and len(data.translate(None, _CONTROLS)) == len(data):
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return prompts.text("result", "binary", size=len(data), kind=kind_of(data))
