"""Every fault, sync and async, on memory and on SQLite; and what the suite covers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.__main__ import main
from tests.faults.cases import Fault, all_faults
from tests.faults.playing import play_fault
from tests.turns.stage import Mode, SaverKind

FEWEST = 80
FAULTS = all_faults()


def _savers(number: int) -> tuple[tuple[Mode, SaverKind], tuple[Mode, SaverKind]]:
    """Each fault in both modes, and every other one the other way round on the savers."""
    if number % 2:
        return ("sync", "memory"), ("async", "sqlite")
    return ("sync", "sqlite"), ("async", "memory")


PLAYED = [
    pytest.param(fault, mode, saver, id=f"{fault.file}-{fault.name}-{mode}")
    for number, fault in enumerate(FAULTS)
    for mode, saver in _savers(number)
]


@pytest.mark.parametrize(("fault", "mode", "saver"), PLAYED)
def test_fault(fault: Fault, mode: Mode, saver: SaverKind, tmp_path: Path) -> None:
    play_fault(fault, mode, saver, tmp_path)


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= FEWEST
    assert len({fault.fault for fault in FAULTS}) == len(FAULTS)


def test_words_that_none_has_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nosuchword", "connection"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "no fault has all of these words: nosuchword connection\n")


def test_every_one_is_played_in_strict_mode() -> None:
    assert all(fault.provider.get("strict", True) for fault in FAULTS)
