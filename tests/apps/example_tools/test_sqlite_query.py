from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.tools import BaseTool

from turnflow.apps.example_tools import sqlite_query_tool
from turnflow.apps.example_tools.sqlite_query import MAX_CELL_CHARS, MAX_ROWS


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a ?#%b.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE city (name TEXT, people INTEGER)")
        connection.execute("CREATE VIEW big AS SELECT name FROM city WHERE people > 2500000")
        connection.execute("CREATE VIRTUAL TABLE note USING fts5(body)")
        connection.execute("INSERT INTO note VALUES ('the quick fox')")
        connection.executemany(
            "INSERT INTO city VALUES (?, ?)", [("Paris", 2_100_000), ("Rome", 2_800_000), ("Bern", None)]
        )
    return path


@pytest.fixture
def query(database: Path) -> BaseTool:
    return sqlite_query_tool(database, seconds=0.5)


def run(query: BaseTool, sql: str, **options: int) -> str:
    return str(query.invoke({"sql": sql, **options}))


def test_rows_come_as_a_table(query: BaseTool) -> None:
    assert run(query, "SELECT name, people FROM city ORDER BY name") == (
        "name | people\n--- | ---\nBern | NULL\nParis | 2100000\nRome | 2800000"
    )
    assert run(query, "SELECT name FROM city WHERE 0") == "name\n---\n(no rows)"


def test_rows_are_limited_and_it_is_said(query: BaseTool) -> None:
    table = run(query, "SELECT name FROM city", limit=2)
    assert table == "name\n---\nParis\nRome\n(the first 2 rows; there are more)"
    assert "more" not in run(query, "SELECT name FROM city", limit=3)
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) SELECT i FROM n"
    assert run(query, many, limit=10**9).count("\n") == MAX_ROWS + 2
    for limit in (0, -1):
        with pytest.raises(ValueError, match="give a limit of 1 or more"):
            run(query, "SELECT 1", limit=limit)


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5) SELECT sum(i) FROM n",
            "15",
        ),
        ("SELECT name, sql FROM sqlite_master", "CREATE TABLE city"),
        ("PRAGMA table_info(city)", "people | INTEGER"),
        ("PRAGMA user_version", "0"),
        ("SELECT name FROM pragma_table_info('city')", "people"),
        ("EXPLAIN QUERY PLAN SELECT * FROM city", "SCAN"),
        ("SELECT upper(name) FROM city; -- done", "PARIS"),
        ("VALUES (1)", "1"),
        ("SELECT * FROM big", "Rome"),
        ("SELECT body FROM note WHERE note MATCH 'fox'", "the quick fox"),
        ("SELECT value FROM json_each('[7, 8]')", "8"),
    ],
)
def test_reading_of_any_kind_is_let_through(query: BaseTool, sql: str, shown: str) -> None:
    assert shown in run(query, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO city VALUES ('x', 1)",
        "UPDATE city SET people = 0",
        "DELETE FROM city",
        "WITH x AS (SELECT 1) INSERT INTO city SELECT 'x', 1",
        "INSERT INTO city VALUES ('x', 1) RETURNING name",
        "EXPLAIN DELETE FROM city",
        "REPLACE INTO city VALUES ('x', 1)",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t (a)",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
        "DROP TABLE city",
        "ALTER TABLE city RENAME TO town",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "REINDEX",
        "ANALYZE",
    ],
)
def test_writing_needs_approval_and_changes_nothing(database: Path, query: BaseTool, sql: str) -> None:
    before = database.read_bytes()
    with pytest.raises(PermissionError, match="writing needs approval and is not available here"):
        run(query, sql)
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("ATTACH DATABASE '{other}' AS other", "other databases"),
        ("ATTACH ':memory:' AS m", "other databases"),
        ("DETACH main", "other databases"),
        ("VACUUM INTO '{other}'", "other databases"),
        ("PRAGMA writable_schema = 1", "PRAGMA writable_schema is not available"),
        ("PRAGMA journal_mode = DELETE", "PRAGMA journal_mode"),
        ("PRAGMA query_only = 0", "PRAGMA query_only"),
        ("PRAGMA user_version = 7", "PRAGMA user_version"),
        ("PRAGMA database_list", "PRAGMA database_list"),
        ("SELECT file FROM pragma_database_list", "PRAGMA database_list"),
        ("SELECT load_extension('/tmp/evil.so')", "function load_extension"),
        ("SELECT LOAD_EXTENSION('/tmp/evil.so')", "function load_extension"),
    ],
)
def test_nothing_else_is_reached(
    database: Path, query: BaseTool, tmp_path: Path, sql: str, reason: str
) -> None:
    before, other = database.read_bytes(), tmp_path / "other.db"
    with pytest.raises(PermissionError, match=reason):
        run(query, sql.format(other=other))
    assert database.read_bytes() == before
    assert not other.exists()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT 1; DROP TABLE city", "one statement"),
        ("SELECT x FROM nowhere", "no such table: nowhere"),
        ("SELEC 1", "syntax error"),
        ("", "there is no statement"),
        ("-- nothing", "there is no statement"),
        ("SELECT '\0'", "null character"),
        ("SELECT '\ud800'", "surrogates not allowed"),
        ("UPDATE sqlite_master SET sql = ''", "may not be modified"),
        ("SELECT " + "1" * 1_000_000, "SQLite refuses|too large"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "SQLite refuses"),
        ("SELECT " + ", ".join("1" for _ in range(101)), "101 columns are more than 100"),
    ],
)
def test_mistakes_say_what_is_wrong(query: BaseTool, sql: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        run(query, sql)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
    ],
)
def test_an_endless_query_is_stopped(query: BaseTool, sql: str) -> None:
    with pytest.raises(ValueError, match=r"longer than 0\.5 s"):
        run(query, sql)


def test_large_values_are_refused_or_cut(query: BaseTool) -> None:
    cell = run(query, "SELECT printf('%.*c', 9999, 'x') AS x").splitlines()[2]
    assert cell == "x" * MAX_CELL_CHARS + f"… ({9999 - MAX_CELL_CHARS} more characters)"
    for sql in ("SELECT zeroblob(1000000000)", "SELECT 'x' LIKE printf('%.*c', 9999, '%')"):
        with pytest.raises(ValueError, match=r"too big|too complex"):
            run(query, sql)


def test_unusual_values_become_text(query: BaseTool) -> None:
    table = run(query, "SELECT x'00ff' AS a, 9e999 AS b, cast(x'ff' AS TEXT) AS c, char(10) AS d")
    assert table.splitlines()[2] == "<2 bytes> | inf | \ufffd | \\n"


def test_the_file_must_exist(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.db"):
        with pytest.raises(ValueError, match="is not a file"):
            sqlite_query_tool(path)
    assert not (tmp_path / "missing.db").exists()


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("not a database at all, but long enough to be read as one", encoding="utf-8")
    with pytest.raises(ValueError, match="not a database"):
        run(sqlite_query_tool(path), "SELECT * FROM sqlite_master")
