"""Holds a conversation, times its turns, and looks at what is stored on the way."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from tests.benchmarks.long.database import DatabaseSize, database_size
from tests.benchmarks.long.script import Exchange, Stage
from tests.benchmarks.long.variants import Talk, Variant

_AROUND = 5
"""Turns before and after a mark of which the median is taken: one alone says little, and those at the
beginning, whose window is still empty, say nothing about the tenth."""
_WARM_UP = 3


@dataclass(frozen=True)
class Mark:
    """What there is to see after a turn."""

    turn: int
    milliseconds: float
    """Median time of the ten turns around it; of the five before it where there are no later ones."""
    cpu_milliseconds: float
    """The same in processor time of all threads: what other programs of the machine do counts less."""
    text_bytes: int
    """Length of the whole conversation so far in UTF-8: texts of messages and arguments of calls."""
    database: DatabaseSize
    state: dict[str, int]
    """Bytes of each channel of the state, serialised."""
    request: tuple[int, int]
    """Messages and characters that the model was sent last."""
    summaries: int
    """Summaries that were asked for so far."""

    @property
    def size_ratio(self) -> float:
        """The database's size over the conversation's."""
        return self.database.file_bytes / self.text_bytes


@dataclass(frozen=True)
class Course:
    """How a conversation went."""

    variant: str
    marks: list[Mark]
    turns: int
    """Turns that were held."""
    seconds: float
    """What they took together."""
    is_cut: bool
    """Whether the time was up before the last turn."""
    reopened: dict[int, float] = field(default_factory=dict)
    """Milliseconds that opening everything and the first turn took together, by turn."""


def hold(variant: Variant, turns: int, marks: Collection[int], seconds: float) -> Course:
    """Hold a conversation of `turns` turns, or as many as are begun within `seconds`.

    The garbage collector runs between turns, not in them. A mark is set after the last turn in any case.

    Raises:
        ValueError: A turn went otherwise than the script has it.
    """
    with tempfile.TemporaryDirectory() as folder:
        _Held(variant, Path(folder) / "warm-up.sqlite").run(_WARM_UP, (), seconds)
        held = _Held(variant, Path(folder) / "long.sqlite")
        gc.collect()
        gc.disable()
        gc.freeze()
        try:
            return held.run(turns, marks, seconds)
        finally:
            gc.unfreeze()
            gc.enable()


class _Held:
    """One conversation on a file."""

    def __init__(self, variant: Variant, path: Path) -> None:
        self._variant = variant
        self._path = path
        self._stage = Stage()
        self._times: list[float] = []
        self._cpu_times: list[float] = []
        self._text_bytes = 0
        self._reopened: dict[int, float] = {}

    def run(self, turns: int, marks: Collection[int], seconds: float) -> Course:
        last = min(turns, self._variant.last or turns)
        seen: list[Mark] = []
        with ExitStack() as opened:
            talk = self._open(opened)
            while not self._times or (len(self._times) < last and sum(self._times) < seconds):
                begun = time.perf_counter()
                is_reopened = self._is_to_be_reopened()
                if is_reopened:
                    opened.close()
                    begun = time.perf_counter()
                    talk = self._open(opened)
                self._turn(talk)
                if is_reopened:
                    self._reopened[len(self._times)] = 1000 * (time.perf_counter() - begun)
                if len(self._times) in marks:
                    seen.append(self._mark(talk))
                gc.collect()
            if not (seen and seen[-1].turn == len(self._times)):
                seen.append(self._mark(talk))
        held = len(self._times)
        seen = [self._timed(mark) for mark in seen]
        return Course(self._variant.name, seen, held, sum(self._times), held < last, self._reopened)

    def _open(self, opened: ExitStack) -> Talk:
        return opened.enter_context(self._variant.open(self._path, self._stage))

    def _is_to_be_reopened(self) -> bool:
        every = self._variant.reopened_every
        return every is not None and bool(self._times) and len(self._times) % every == 0

    def _turn(self, talk: Talk) -> None:
        exchange = self._stage.begin(len(self._times) + 1)
        start, cpu_start = time.perf_counter(), time.process_time()
        messages = talk.say(exchange.question)
        self._times.append(time.perf_counter() - start)
        self._cpu_times.append(time.process_time() - cpu_start)
        _check(self._variant.name, messages, exchange)
        self._text_bytes += exchange.text_bytes

    def _timed(self, mark: Mark) -> Mark:
        """The mark with its times, which are known once the turns behind it are over."""
        around = slice(max(0, mark.turn - _AROUND), mark.turn + _AROUND)
        return replace(
            mark,
            milliseconds=1000 * statistics.median(self._times[around]),
            cpu_milliseconds=1000 * statistics.median(self._cpu_times[around]),
        )

    def _mark(self, talk: Talk) -> Mark:
        request = self._stage.request
        return Mark(
            turn=len(self._times),
            milliseconds=0.0,
            cpu_milliseconds=0.0,
            text_bytes=self._text_bytes,
            database=database_size(self._path),
            state=talk.state(),
            request=(len(request), sum(len(str(message.content)) for message in request)),
            summaries=self._stage.summaries,
        )


def _check(name: str, messages: Sequence[BaseMessage], exchange: Exchange) -> None:
    """Refuse a turn that did something else than the script says."""
    begin = max((n for n, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    own = messages[begin:]
    results = [message for message in own if isinstance(message, ToolMessage)]
    expected = [exchange.question, *exchange.results, exchange.answer]
    said = [str(message.content) for message in (own[0], *results, own[-1])]
    if len(said) != len(expected) or any(
        text not in message for text, message in zip(expected, said, strict=True)
    ):
        raise ValueError(f"{name} held turn {exchange.number} otherwise than the script has it: {said}")
