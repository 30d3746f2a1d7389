"""The stage on which turns are played: sync and async, on memory and on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.turns.stage import Mode, SaverKind, Stage


@pytest.fixture(
    params=[("sync", "memory"), ("async", "memory"), ("sync", "sqlite"), ("async", "sqlite")],
    ids="-".join,
)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    mode: Mode
    saver: SaverKind
    mode, saver = request.param
    stage = Stage(mode, saver, tmp_path)
    yield stage
    stage.close()


@pytest.fixture(params=["sync", "async"])
def bare_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Without a saver."""
    stage = Stage(request.param, "none", tmp_path)
    yield stage
    stage.close()
