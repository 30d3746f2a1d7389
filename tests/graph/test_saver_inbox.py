"""The inbox in the saver's file: seen by other processes, gone with its thread, never collected away."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.graph.saver_chat import thread
from tests.graph.saver_turns import build_turns, said
from turnflow import SaverError, open_saver
from turnflow.graph import saver_collect

PUT = """
import sys
from turnflow import open_saver
with open_saver(sys.argv[1]) as saver:
    print(saver.inbox("t").put("from afar", id="far"))
    print([m.content for m in saver.inbox("t").pending()])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


def ids(saver: Any, name: str = "t") -> list[str]:
    return [message.id for message in saver.inbox(name).pending()]


def test_another_process_puts_in_and_sees_what_is_there(path: Path) -> None:
    with open_saver(path) as saver:
        saver.inbox("t").put("from here", id="near")
        run = subprocess.run(
            [sys.executable, "-c", PUT, str(path)], check=True, capture_output=True, text=True, timeout=60
        )
        assert run.stdout.split("\n")[:2] == ["far", "['from here', 'from afar']"]
        assert ids(saver) == ["near", "far"]
    with open_saver(path) as saver:
        assert ids(saver) == ["near", "far"]
        saver.inbox("t").acknowledge(["near"])
        assert ids(saver) == ["far"]


def test_what_was_put_in_is_in_the_file_at_once(path: Path) -> None:
    with open_saver(path) as saver:
        saver.inbox("t").put("hello", id="a")
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT thread_id, id FROM turnflow_inbox").fetchall() == [("t", "a")]
        saver.inbox("t").acknowledge(["a"])
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM turnflow_inbox").fetchone() == (0,)


def test_threads_have_inboxes_of_their_own(path: Path) -> None:
    with open_saver(path) as saver:
        for name in ("t", "u"):
            saver.inbox(name).put(f"to {name}", id="same")
        saver.inbox("t").acknowledge(["same"])
        assert (ids(saver, "t"), ids(saver, "u")) == ([], ["same"])
        saver.delete_thread("u")
        assert ids(saver, "u") == []


async def test_it_is_not_copied_and_goes_with_its_thread(path: Path) -> None:
    async with open_saver(path) as saver:
        await build_turns(saver).ainvoke(said("hello"), thread("t"))
        saver.inbox("t").put("waiting", id="a")
        await saver.acopy_thread("t", "copy")
        assert (ids(saver, "t"), ids(saver, "copy")) == (["a"], [])
        await saver.aprune(["t"])
        assert ids(saver) == ["a"]
        await saver.aprune(["t"], strategy="delete")
        assert ids(saver) == []


def test_a_thread_is_not_copied_over_one_that_waits_to_begin(path: Path) -> None:
    with open_saver(path) as saver:
        build_turns(saver).invoke(said("hello"), thread("t"))
        saver.inbox("u").put("waiting")
        with pytest.raises(ValueError, match="already"):
            saver.copy_thread("t", "u")


def test_what_waits_is_never_collected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver_collect, "GRACE", -60.0)
    with open_saver(path) as saver:
        for name in ("idle", "waiting"):
            build_turns(saver).invoke(said("hello"), thread(name))
        for name in ("waiting", "to begin"):
            saver.inbox(name).put("hello?")
        saver.collect(older_than=0, vacuum=False)
        assert saver.thread_ids() == ["waiting"]
        assert len(saver.inbox("waiting")) == len(saver.inbox("to begin")) == 1


def test_a_file_of_before_gets_the_table(path: Path) -> None:
    with open_saver(path) as saver:
        build_turns(saver).invoke(said("hello"), thread("t"))
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE turnflow_inbox")
        other.commit()
    with open_saver(path) as saver:
        saver.inbox("t").put("hello", id="a")
        assert ids(saver) == ["a"]


def test_a_wrong_thread_and_a_closed_saver_are_refused(path: Path) -> None:
    with open_saver(path) as saver:
        for wrong in ("", " ", None, 7, "a\ud800"):
            with pytest.raises(ValueError, match="thread's id"):
                saver.inbox(wrong)  # type: ignore[arg-type]
        inbox = saver.inbox("t")
    with pytest.raises(SaverError):
        inbox.put("too late")
