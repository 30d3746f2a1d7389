"""`sqlite_query` on a database that it may change, where somebody allowed the call."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool

from turnflow.apps.example_tools import sqlite_policy, sqlite_query_tool
from turnflow.apps.example_tools.sqlite_query import statement_writes
from turnflow.graph.permissions import Permission, permitted

APPROVED = Permission("allow", "user")
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) {} SELECT i FROM n WHERE i < 0"
ENDLESS_READING = _ENDLESS.format("")
ENDLESS_WRITING = _ENDLESS.format("INSERT INTO log")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a ?#%b.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            """
            CREATE TABLE city (name TEXT UNIQUE, people INTEGER CHECK (people >= 0));
            INSERT INTO city VALUES ('Paris', 2100000), ('Rome', 2800000);
            CREATE TABLE log (line TEXT);
            CREATE TABLE street (city TEXT REFERENCES city (name) DEFERRABLE INITIALLY DEFERRED);
            INSERT INTO street VALUES (NULL);
            CREATE TRIGGER noted AFTER DELETE ON city BEGIN INSERT INTO log VALUES (old.name); END;
            CREATE INDEX by_people ON city (people);
            CREATE VIRTUAL TABLE note USING fts5(body);
            """
        )
    return path


@pytest.fixture
def query(database: Path) -> BaseTool:
    return sqlite_query_tool(database, seconds=0.5, writable=True)


def run(query: BaseTool, sql: str, permission: Permission | None = APPROVED, **options: int) -> str:
    with permitted(permission):
        return str(query.invoke({"sql": sql, **options}))


def rows(database: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql).fetchall()


def needs_approval(database: Path) -> Callable[[dict[str, Any]], bool]:
    declared = sqlite_policy(database).needs_approval
    assert callable(declared)
    return declared


@pytest.mark.parametrize(
    ("sql", "shown", "look", "found"),
    [
        ("INSERT INTO city VALUES ('Bern', 1)", "(done; 1 rows changed)", "SELECT count(*) FROM city", 3),
        ("UPDATE city SET people = 0", "(done; 2 rows changed)", "SELECT sum(people) FROM city", 0),
        ("DELETE FROM city", "(done; 4 rows changed)", "SELECT count(*) FROM log", 2),
        ("WITH x AS (VALUES ('A', 1)) INSERT INTO city SELECT * FROM x", "1", "SELECT count(*) FROM city", 3),
        ("REPLACE INTO city VALUES ('Rome', 7)", "rows changed", "SELECT min(people) FROM city", 7),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)", "(done; 0", "SELECT count(*) FROM t", 0),
        ("CREATE VIRTUAL TABLE t USING fts5(a)", "(done; ", "SELECT count(*) FROM t", 0),
        ("INSERT INTO note VALUES ('fox')", "rows changed", "SELECT count(*) FROM note('fox')", 1),
        ("ALTER TABLE city RENAME TO town", "(done; ", "SELECT count(*) FROM town", 2),
        ("DROP TABLE city", "(done; ", "SELECT count(*) FROM sqlite_master WHERE name = 'city'", 0),
        ("ANALYZE", "(done; ", "SELECT count(*) > 0 FROM sqlite_stat1", 1),
        ("REINDEX", "(done; ", "SELECT count(*) FROM city", 2),
    ],
)  # fmt: skip
def test_what_writes_runs_once_it_was_approved(
    database: Path, query: BaseTool, sql: str, shown: str, look: str, found: int
) -> None:
    before = database.read_bytes()
    assert needs_approval(database)({"sql": sql})
    with pytest.raises(PermissionError, match="writing needs approval"):
        run(query, sql, permission=None)
    assert database.read_bytes() == before
    assert shown in run(query, sql)
    assert rows(database, look) == [(found,)]


@pytest.mark.parametrize(
    ("permission", "may"),
    [
        (None, False),
        (Permission("allow", "default"), False),
        (Permission("allow", "tool_risk"), False),
        (Permission("ask", "user"), False),
        (Permission("deny", "user"), False),
        (Permission("allow", "user"), True),
        (Permission("allow", "session_grants"), True),
        (Permission("allow", "allow_list"), True),
        (Permission("allow", "office_hours"), True),
    ],
)
def test_only_somebody_who_says_so_allows_writing(
    database: Path, query: BaseTool, permission: Permission | None, *, may: bool
) -> None:
    if may:
        run(query, "DELETE FROM city", permission)
    else:
        with pytest.raises(PermissionError, match="writing needs approval"):
            run(query, "DELETE FROM city", permission)
    assert rows(database, "SELECT count(*) FROM city") == [(0 if may else 2,)]


def test_an_approval_means_nothing_to_a_tool_that_only_reads(database: Path) -> None:
    with pytest.raises(PermissionError, match="writing needs approval and is not available here"):
        run(sqlite_query_tool(database), "DELETE FROM city")
    assert rows(database, "SELECT count(*) FROM city") == [(2,)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("ATTACH DATABASE '{other}' AS other", "other databases"),
        ("ATTACH ':memory:' AS m", "other databases"),
        ("DETACH main", "other databases"),
        ("VACUUM", "other databases"),
        ("VACUUM INTO '{other}'", "other databases"),
        ("PRAGMA writable_schema = 1", "PRAGMA writable_schema is not available"),
        ("PRAGMA journal_mode = DELETE", "PRAGMA journal_mode"),
        ("PRAGMA user_version = 7", "PRAGMA user_version"),
        ("SELECT load_extension('/tmp/evil.so')", "function load_extension"),
        ("INSERT INTO log SELECT load_extension('/tmp/evil.so')", "function load_extension"),
        ("INSERT INTO log SELECT fts3_tokenizer('simple')", "function fts3_tokenizer"),
        ("CREATE VIRTUAL TABLE t USING fts3tokenize(simple)", "module fts3tokenize"),
        ("CREATE TEMP TABLE t (a)", "temporary things are not"),
        ("BEGIN IMMEDIATE", "transactions"),
        ("COMMIT", "transactions"),
        ("ROLLBACK", "transactions"),
        ("SAVEPOINT s", "transactions"),
    ],
)
def test_an_approval_opens_nothing_but_this_database(
    database: Path, query: BaseTool, tmp_path: Path, sql: str, reason: str
) -> None:
    before, other = database.read_bytes(), tmp_path / "other.db"
    with pytest.raises(PermissionError, match=reason):
        run(query, sql.format(other=other))
    assert database.read_bytes() == before
    assert not other.exists()


def test_a_trigger_reaches_no_further_than_a_statement(database: Path, query: BaseTool) -> None:
    body = "INSERT INTO log SELECT load_extension('/tmp/evil.so')"
    trigger = f"CREATE TRIGGER evil AFTER INSERT ON city BEGIN {body}; END"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(trigger)
    with pytest.raises(PermissionError, match="function load_extension"):
        run(query, "INSERT INTO city VALUES ('Bern', 1)")
    assert rows(database, "SELECT count(*) FROM city") == [(2,)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INSERT INTO city VALUES ('Bern', 1); DELETE FROM city", "one statement"),
        ("INSERT INTO city VALUES ('Bern', 1), ('Rome', 1)", "UNIQUE constraint failed"),
        ("INSERT INTO city VALUES ('Bern', -1)", "CHECK constraint failed"),
        ("UPDATE street SET city = 'nowhere'", "FOREIGN KEY constraint failed"),
        ("UPDATE sqlite_master SET sql = ''", "may not be modified"),
        ("INSERT INTO nowhere VALUES (1)", "no such table"),
        ("DELETE FRO city", "syntax error"),
        (
            ENDLESS_WRITING,
            r"longer than 0\.5 s",
        ),
        ("INSERT INTO log SELECT zeroblob(1000000000)", "too big"),
    ],
)
def test_what_fails_changes_nothing(database: Path, query: BaseTool, sql: str, reason: str) -> None:
    before = database.read_bytes()
    with pytest.raises(ValueError, match=reason) as raised:
        run(query, sql)
    assert len(str(raised.value)) < 200
    assert database.read_bytes() == before
    run(query, "INSERT INTO log VALUES ('free again')")


def test_a_row_that_is_not_shown_is_changed_all_the_same(database: Path, query: BaseTool) -> None:
    answer = run(query, "UPDATE city SET people = people + 1 RETURNING name", limit=1)
    assert answer == "name\n---\nParis\n(the first 1 rows; there are more)\n(done; 2 rows changed)"
    assert rows(database, "SELECT people FROM city ORDER BY name") == [(2_100_001,), (2_800_001,)]


def test_a_database_that_somebody_else_writes_is_not_waited_for_long(database: Path) -> None:
    with closing(sqlite3.connect(database)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        with pytest.raises(ValueError, match="cannot write now: database is locked"):
            run(sqlite_query_tool(database, seconds=0.05, writable=True), "DELETE FROM city")
    assert rows(database, "SELECT count(*) FROM city") == [(2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM city",
        "SELECT 1; -- delete from city",
        "SELECT 'DROP TABLE city'",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "PRAGMA table_info(city)",
        "EXPLAIN QUERY PLAN SELECT * FROM city",
        "SELECT body FROM note WHERE note MATCH 'fox'",
        "VALUES (1)",
    ],
)
def test_nobody_is_asked_about_reading(database: Path, query: BaseTool, sql: str) -> None:
    assert not needs_approval(database)({"sql": sql})
    assert run(query, sql, permission=None) == run(query, sql)


@pytest.mark.parametrize(
    "args",
    [
        {"sql": "/* SELECT */ DELETE FROM city"},
        {"sql": "EXPLAIN DELETE FROM city"},
        {"sql": "SELECT 1; DELETE FROM city"},
        {"sql": "SELEC 1"},
        {"sql": "SELECT * FROM nowhere"},
        {"sql": "SELECT '\0'"},
        {"sql": "SELECT '\ud800'"},
        {"sql": "x" * 1_000_000},
        {"sql": 5},
    ],
)
def test_a_person_is_asked_about_what_is_not_plainly_reading(database: Path, args: dict[str, Any]) -> None:
    assert needs_approval(database)(args)


def test_looking_at_a_statement_runs_nothing(database: Path) -> None:
    before = database.read_bytes()
    assert not statement_writes(database, ENDLESS_READING)
    assert statement_writes(database, ENDLESS_WRITING)
    assert database.read_bytes() == before


def test_the_policy_stands_alone_in_its_wave(database: Path, tmp_path: Path) -> None:
    policy = sqlite_policy(database)
    assert (policy.read_only, policy.idempotent, policy.parallel_safe) == (False, False, False)
    with pytest.raises(ValueError, match="is not a file"):
        sqlite_policy(tmp_path / "missing.db")


def test_a_database_that_is_gone_needs_approval(database: Path) -> None:
    asks = needs_approval(database)
    database.unlink()
    assert asks({"sql": "SELECT 1 FROM city"})
    assert not database.exists()
