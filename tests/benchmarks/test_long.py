"""The benchmark of long conversations holds the turns that it says; nothing here looks at a time."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("langchain")

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.benchmarks.long import database
from tests.benchmarks.long.__main__ import main
from tests.benchmarks.long.database import TableSize, database_size
from tests.benchmarks.long.runner import hold
from tests.benchmarks.long.script import RESULT_CHARS, SPOKEN_CHARS, Exchange, Stage, exchange, passage
from tests.benchmarks.long.variants import Talk, Variant, turnflow, variants
from turnflow.nodes.assemble_context.memory import WindowMemory

TURNS = 12
NAMES = [
    "turnflow",
    "turnflow, reopened every 100 turns",
    "create_agent",
    "create_agent + SummarizationMiddleware",
]
HOUR = 3600.0
STATE_TURNS = 3
KEPT_TURNS = 5


def test_texts_are_the_same_each_time_and_compress_like_prose() -> None:
    text = passage("a subject", RESULT_CHARS)
    assert text == passage("a subject", RESULT_CHARS)
    assert text != passage("another", RESULT_CHARS)
    assert len(text) == RESULT_CHARS
    assert 0.4 < len(zlib.compress(text.encode())) / RESULT_CHARS < 0.6


def test_what_a_turn_says() -> None:
    turn = exchange(7)
    assert [len(text) for text in turn.results] == [RESULT_CHARS] * 2
    assert len(turn.question) == len(turn.answer) == SPOKEN_CHARS
    # Two questions, two results and two calls' arguments, of ASCII letters.
    assert 0 < turn.text_bytes - 2 * (RESULT_CHARS + SPOKEN_CHARS) < 200
    assert len({exchange(number).question for number in range(1, 100)}) == 99


@pytest.mark.parametrize("name", list(variants()))
def test_each_variant_holds_its_turns(name: str) -> None:
    course = hold(replace(variants()[name], reopened_every=5), TURNS, (10,), HOUR)
    assert course.variant == NAMES[list(variants()).index(name)]
    assert (course.turns, course.is_cut) == (TURNS, False)
    assert list(course.reopened) == [6, 11]
    assert [mark.turn for mark in course.marks] == [10, TURNS]
    for mark in course.marks:
        assert mark.milliseconds > 0
        assert mark.cpu_milliseconds > 0
        assert mark.text_bytes == sum(exchange(n + 1).text_bytes for n in range(mark.turn))
        assert mark.database.file_bytes > mark.database.tables["checkpoints"].stored_bytes > 0
        assert mark.state["messages"] > exchange(1).text_bytes
        assert mark.request[1] > exchange(1).text_bytes - SPOKEN_CHARS


def test_the_agent_keeps_all_and_sends_all() -> None:
    marks = hold(variants()["agent"], TURNS, range(1, TURNS), HOUR).marks
    assert [mark.database.tables["checkpoints"].rows for mark in marks] == [7 * n for n in range(1, 13)]
    assert [mark.request[0] for mark in marks] == [6 * n for n in range(1, 13)]


def test_the_agent_that_sums_up_sends_less() -> None:
    course = hold(variants()["summarization"], 2 * TURNS, (TURNS,), HOUR)
    assert course.marks[-1].summaries > 0
    assert course.marks[-1].request[0] < 6 * 15


def test_a_conversation_ends_when_its_time_is_up_or_its_variant_says() -> None:
    cut = hold(variants()["turnflow"], TURNS, (10,), 0)
    assert (cut.turns, cut.is_cut, [mark.turn for mark in cut.marks]) == (1, True, [1])
    short = hold(replace(variants()["agent"], last=2), TURNS, (10,), HOUR)
    assert (short.turns, short.is_cut) == (2, False)


Answer = Callable[[Exchange], list[BaseMessage]]


def _as_said(turn: Exchange) -> list[BaseMessage]:
    results = [ToolMessage(result, tool_call_id="c") for result in turn.results]
    return [HumanMessage("earlier"), HumanMessage(turn.question), *results, AIMessage(turn.answer)]


def _mute(turn: Exchange) -> list[BaseMessage]:
    return [*_as_said(turn)[:-1], AIMessage("")]


def _without_a_result(turn: Exchange) -> list[BaseMessage]:
    return [message for n, message in enumerate(_as_said(turn)) if n != 2]


def _of_another_turn(turn: Exchange) -> list[BaseMessage]:
    return _as_said(exchange(turn.number + 1))


def _fake(answer: Answer) -> Variant:
    @contextmanager
    def opened(path: Path, stage: Stage) -> Iterator[Talk]:
        with closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE IF NOT EXISTS t (x)")
            yield Talk(lambda _: answer(stage.exchange), dict)

    return Variant("fake", opened)


@pytest.mark.parametrize("answer", [_mute, _without_a_result, _of_another_turn])
def test_a_turn_that_goes_otherwise_is_refused(answer: Answer) -> None:
    assert hold(_fake(_as_said), 2, (), HOUR).turns == 2
    with pytest.raises(ValueError, match="fake held turn 1 otherwise"):
        hold(_fake(answer), 2, (), HOUR)


def _file(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE small (x); CREATE TABLE large (x, y TEXT);"
            "CREATE INDEX by_y ON large (y); CREATE VIRTUAL TABLE words USING fts5 (text);"
        )
        file.execute("INSERT INTO small VALUES (zeroblob(10))")
        file.executemany("INSERT INTO large VALUES (zeroblob(3000), ?)", [("y" * 1000,)] * 5)
        file.commit()
    return path


def test_the_size_of_a_database(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.sqlite")
    size = database_size(path)
    assert size.file_bytes == path.stat().st_size
    assert {name: table.rows for name, table in size.tables.items() if name in {"small", "large"}} == {
        "small": 1,
        "large": 5,
    }
    assert "words" not in size.tables
    assert "words_content" in size.tables
    assert next(iter(size.tables)) == "large"
    assert size.tables["large"].stored_bytes >= 5 * 5000  # its index holds the texts once more
    assert sum(table.stored_bytes for table in size.tables.values()) + size.free_bytes <= size.file_bytes


def test_the_size_of_a_database_without_dbstat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_page_bytes", lambda _: None)
    tables = database_size(_file(tmp_path / "a.sqlite")).tables
    assert tables["small"] == TableSize(1, 10)
    assert tables["large"] == TableSize(5, 5 * 4000)


def test_an_open_transaction_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM small").fetchall()
        with closing(sqlite3.connect(path)) as writer:
            writer.execute("INSERT INTO small VALUES (1)")
            writer.commit()
        with pytest.raises(ValueError, match="transaction"):
            database_size(path)


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    main(["--turns", f"{TURNS}", *options])
    return capsys.readouterr().out


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys, "--variants", "turnflow", "agent", "--memory", "window")
    names = ["turnflow, memory=window", "create_agent"]
    lines = [cells(line) for line in printed.splitlines() if line.startswith("|")]
    heads = [line for line in lines if line[0] in {"variant", "table", "channel"}]
    assert heads == [[head, "turn 10", "turn 12"] for head in 5 * ["variant"] + 2 * ["table", "channel"]]
    assert [line[0] for line in lines if line[0] in names] == 5 * names
    assert sum(line[0] == "checkpoints" for line in lines) == len(names)
    assert all(len(line) == 3 for line in lines)
    for name in names:
        assert f"- {name}: time of turn 12 ÷ turn 10 = " in printed


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in run(capsys, "--json", "--variants", "agent").splitlines()]
    assert [(line["variant"], line["turn"]) for line in lines] == [("create_agent", 10), ("create_agent", 12)]
    assert lines[1]["database"]["tables"]["checkpoints"]["rows"] == 7 * TURNS
    assert lines[1]["size_ratio"] == lines[1]["database"]["file_bytes"] / lines[1]["text_bytes"]


@pytest.mark.parametrize("options", [["--variants", "other"], ["--memory", "none"], ["--turns", "0"]])
def test_wrong_options_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert options[0] in capsys.readouterr().err


def test_what_is_kept_of_turns_stops_growing() -> None:
    variant = turnflow(
        "turnflow",
        options={"memory": WindowMemory(STATE_TURNS), "settings": {"state_turns": STATE_TURNS}},
        saver_options={"keep_turns": KEPT_TURNS, "full_turns": 2},
    )
    marks = hold(variant, TURNS, range(1, TURNS), HOUR).marks
    full = marks[KEPT_TURNS + 1 :]
    for table in ("checkpoints", "writes", "turnflow_turns", "turnflow_effects"):
        rows = [mark.database.tables[table].rows for mark in full]
        assert len(set(rows)) == 1, (table, rows)
        assert rows[0] < marks[KEPT_TURNS].database.tables[table].rows * 2
    assert [mark.database.tables["turnflow_archive"].rows for mark in marks] == [*range(1, TURNS + 1)]
    # Of the earlier turns as many as are kept, and the current one up to its last results.
    assert {mark.request[0] for mark in full} == {marks[STATE_TURNS].request[0]}
    sizes = [mark.state["messages"] for mark in full]
    assert max(sizes) < 1.01 * min(sizes)
    assert max(sizes) < 1.01 * marks[STATE_TURNS - 1].state["messages"]
