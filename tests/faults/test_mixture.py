"""Many turns under a random mixture of faults: none hangs, loses a message, or fails without a type."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.faults.mixture import SPEECHES, random_steps, walk_threads
from tests.turns.stage import Mode
from turnflow.apps.fake_provider import parse_script

TURNS = int(os.environ.get("TURNFLOW_FAULT_TURNS", "200"))
SEED = int(os.environ.get("TURNFLOW_FAULT_SEED", "7"))


@pytest.mark.timeout(120 + TURNS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_turns_under_a_mixture_of_faults(mode: Mode, tmp_path: Path) -> None:
    walks = walk_threads(SEED, TURNS, mode, tmp_path)
    statuses: Counter[str] = sum((walk.statuses for walk in walks), Counter())
    assert statuses.total() >= TURNS
    # A mixture that lets everything pass, or nothing, would show nothing.
    assert statuses["finished"] > TURNS / 10
    assert statuses.keys() >= {"finished_degraded", "provider_error"}
    assert sum(walk.retries for walk in walks) > TURNS / 10


def test_a_mixture_is_the_same_each_time() -> None:
    assert _drawn(1) == _drawn(1)
    assert _drawn(1) != _drawn(2)


def _drawn(seed: int) -> list[dict[str, Any]]:
    return [step for speech in SPEECHES for step in random_steps(Random(seed), 50, speech)]  # noqa: S311


def test_every_step_that_is_drawn_can_be_played() -> None:
    parse_script({"steps": [step for step in _drawn(3) if "forever" not in step]})
