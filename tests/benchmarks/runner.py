"""Runs the variants of a group in turns, so that what slows the machine down slows all of them."""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.cases import ANSWER, Group
from tests.benchmarks.other_loops import other_variants
from tests.benchmarks.savers import Footprint, Savers, footprint
from tests.benchmarks.variants import BASELINE, Seen, Variant, langgraph_variants

_WARM_UP = "warm-up"


@dataclass(frozen=True)
class Row:
    """What was measured of one variant in one group; times are in milliseconds per turn."""

    group: Group
    variant: str
    reps: int
    median: float
    p10: float
    p90: float
    ratio: float
    """Its median over that of bare `create_agent` in the same group."""
    footprint: Footprint | None
    """What a turn stores, in a group with savers."""


def measure(group: Group, reps: int) -> list[Row]:
    """Time each variant of a group `reps` times, in shuffled order, each turn in a fresh thread.

    Raises:
        ValueError: A variant did not run the turn that it was to run.
    """
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as loop:
        with Savers(group, Path(folder), loop) as savers:
            variants = langgraph_variants(group, savers)
            if group.mode == "async" and group.store.synchronous is None:
                variants += other_variants(group.case)
            for variant in variants:
                check(variant, _timed(variant, _WARM_UP, group, loop)[1], group)
            seconds = _interleaved(variants, reps, group, loop)
        baseline = statistics.median(seconds[BASELINE])
        return [_row(group, variant, seconds[variant.name], baseline) for variant in variants]


def check(variant: Variant, raw: Any, group: Group) -> None:
    """Refuse a variant that did something else than the case says."""
    seen, expected = variant.read(raw), Seen(group.case.results, ANSWER)
    if seen != expected:
        raise ValueError(f"{variant.name} ran another turn: expected {expected}, seen {seen}")


def _interleaved(
    variants: Sequence[Variant], reps: int, group: Group, loop: asyncio.Runner
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {variant.name: [] for variant in variants}
    shuffle = random.Random(0)  # noqa: S311 - the same order in each run
    with _collector_off():
        for rep in range(reps):
            gc.collect()
            for variant in shuffle.sample(variants, len(variants)):
                seconds[variant.name].append(_timed(variant, f"thread-{rep}", group, loop)[0])
    return seconds


@contextmanager
def _collector_off() -> Iterator[None]:
    """No collection but those asked for, and those quick: what lives now is not looked at again."""
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def _timed(variant: Variant, thread_id: str, group: Group, loop: asyncio.Runner) -> tuple[float, Any]:
    """Seconds that a turn took, and what it gave. The entry into the event loop is not timed."""
    if group.mode == "async":
        return loop.run(_atimed(variant, thread_id))
    start = time.perf_counter()
    raw = variant.run(thread_id)
    return time.perf_counter() - start, raw


async def _atimed(variant: Variant, thread_id: str) -> tuple[float, Any]:
    start = time.perf_counter()
    raw = await variant.run(thread_id)
    return time.perf_counter() - start, raw


def _row(group: Group, variant: Variant, seconds: Sequence[float], baseline: float) -> Row:
    tenths = statistics.quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else [*seconds] * 9
    median = statistics.median(seconds)
    return Row(
        group=group,
        variant=variant.name,
        reps=len(seconds),
        median=median * 1000,
        p10=tenths[0] * 1000,
        p90=tenths[-1] * 1000,
        ratio=median / baseline,
        footprint=footprint(variant.path, _WARM_UP) if variant.path else None,
    )
