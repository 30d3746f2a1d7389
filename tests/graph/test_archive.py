"""What every archive does: in the saver's file, in LangGraph's stores, in memory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from tests.graph.saver_chat import rows
from tests.graph.test_effects_saver import Xor
from turnflow.graph.archive import Archive, ArchivedTurn, Scope
from turnflow.graph.archive_linked import FIELDS, vector_bytes
from turnflow.graph.archive_memory import MemoryArchive
from turnflow.graph.archive_store import StoreArchive
from turnflow.graph.archive_turns import count_visible, search_text, turn_key
from turnflow.graph.saver import TurnSaver, open_saver

FUZZ = settings(
    max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

HERE = Scope("t", "")

KINDS = ["saver", "saver without index", "encrypting saver", "memory store", "sqlite store", "memory"]


def opened(kind: str, path: Path, stack: ExitStack) -> Archive:
    if kind == "memory":
        return MemoryArchive()
    if kind == "memory store":
        return StoreArchive(InMemoryStore())
    if kind == "sqlite store":
        store = stack.enter_context(SqliteStore.from_conn_string(":memory:"))
        store.setup()
        return StoreArchive(store)
    serde = EncryptedSerializer(Xor()) if kind == "encrypting saver" else None
    saver = stack.enter_context(open_saver(path / "archive.db", serde=serde))
    if kind == "saver without index":
        saver._connection.has_index = False
    return saver


@pytest.fixture(params=KINDS)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    with ExitStack() as stack:
        yield opened(request.param, tmp_path, stack)


def turn_of(
    name: str, parent: str = "", position: int = 0, messages: Sequence[AnyMessage] = ()
) -> ArchivedTurn:
    own = list(messages) or [HumanMessage(f"about {name}", id=name), AIMessage(f"re {name}", id=f"{name}-re")]
    return {
        "key": turn_key(name, own),
        "turn_id": name,
        "input_id": str(own[0].id),
        "parent": parent,
        "position": position,
        "status": "finished",
        "time": 1000.5 + position,
        "message_count": count_visible(own),
        "messages": own,
    }


def fill(
    archive: Archive, names: Sequence[str], parent: str = "", position: int = 0, scope: Scope = HERE
) -> list[str]:
    """Put turns in a row; gives their keys."""
    keys: list[str] = []
    for index, name in enumerate(names):
        turn = turn_of(name, keys[-1] if keys else parent, position + index)
        archive.put_turn(scope, turn, search_text(turn["messages"]))
        keys.append(turn["key"])
    return keys


def ids(turns: Sequence[Any]) -> list[str]:
    return [turn["turn_id"] for turn in turns]


def found(archive: Archive, head: str, query: str, *, before: int = 10**6, scope: Scope = HERE) -> list[int]:
    return [hit["position"] for hit in archive.search_turns(scope, head, query, 10, before)]


# One line


def test_turns_come_back_in_order_and_whole(archive: Archive) -> None:
    messages: list[AnyMessage] = [
        HumanMessage(
            [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}], id="h"
        ),
        AIMessage("", id="a", tool_calls=[{"name": "work", "id": "c", "args": {"n": [1, None, 2.5]}}]),
        ToolMessage("did \x00 it", tool_call_id="c", id="r", additional_kwargs={"turnflow": {"handle": "x"}}),
        AIMessage("done", id="z", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ]
    first = turn_of("first", messages=messages)
    archive.put_turn(HERE, first, "look done")
    keys = [first["key"], *fill(archive, ["second", "third"], first["key"], 1)]
    whole = archive.read_turns(HERE, keys[-1])
    assert whole[0] == first
    assert ids(whole) == ["first", "second", "third"]
    assert [turn["position"] for turn in whole] == [0, 1, 2]
    infos = archive.turn_infos(HERE, keys[-1])
    assert infos == [{key: value for key, value in turn.items() if key != "messages"} for turn in whole]
    assert tuple(infos[0]) == FIELDS
    assert turn_key("first", whole[0]["messages"]) == first["key"]
    assert archive.read_keys(HERE, [keys[2], "unknown", keys[0]]) == [whole[0], whole[2]]
    assert archive.known_turns(HERE, [*keys, "unknown"]) == dict(zip(keys, infos, strict=True))


def test_ranges_include_both_ends_and_stop_at_the_head(archive: Archive) -> None:
    keys = fill(archive, [str(number) for number in range(100)])
    assert ids(archive.turn_infos(HERE, keys[-1], 97)) == ["97", "98", "99"]
    assert ids(archive.turn_infos(HERE, keys[-1], 3, 5)) == ["3", "4", "5"]
    assert ids(archive.read_turns(HERE, keys[-1], 98, 500)) == ["98", "99"]
    assert ids(archive.turn_infos(HERE, keys[40], 39)) == ["39", "40"]
    assert ids(archive.turn_infos(HERE, keys[-1])) == [str(number) for number in range(100)]
    assert archive.turn_infos(HERE, keys[-1], 5, 3) == archive.turn_infos(HERE, keys[-1], 100) == []


def test_a_turn_is_kept_once(archive: Archive) -> None:
    (key,) = fill(archive, ["one"])
    again: ArchivedTurn = {**turn_of("one"), "status": "abandoned", "position": 7}
    archive.put_turn(HERE, again, "other words")
    (info,) = archive.turn_infos(HERE, key)
    assert (info["status"], info["position"]) == ("finished", 0)
    assert found(archive, key, "other") == []


def test_the_same_turn_with_other_messages_is_another(archive: Archive) -> None:
    (first,) = fill(archive, ["one"])
    other = turn_of("one", messages=[HumanMessage("about one", id="one")])
    archive.put_turn(HERE, other, "")
    assert other["key"] != first
    assert ids(archive.read_keys(HERE, [first, other["key"]])) == ["one", "one"]


def test_what_is_unknown_is_empty(archive: Archive) -> None:
    fill(archive, ["one"])
    for head in ("", "unknown"):
        assert archive.turn_infos(HERE, head) == archive.read_turns(HERE, head) == []
        assert archive.search_turns(HERE, head, "about", 5, 10) == []
        assert archive.read_vectors(HERE, head, "model", 10) == {}
    assert archive.read_keys(HERE, []) == []
    assert archive.known_turns(HERE, []) == {}


def test_a_turn_whose_parent_is_unknown_begins_a_line(archive: Archive) -> None:
    (key,) = fill(archive, ["late"], "never archived", 5)
    assert ids(archive.turn_infos(HERE, key)) == ["late"]
    (next_key,) = fill(archive, ["later"], key, 6)
    assert ids(archive.turn_infos(HERE, next_key)) == ["late", "later"]


# Branches


def test_branches_share_their_beginning_and_nothing_else(archive: Archive) -> None:
    trunk = fill(archive, ["a", "b", "c"])
    left = fill(archive, ["left one", "left two"], trunk[1], 2)
    right = fill(archive, ["right"], left[0], 3)
    assert ids(archive.turn_infos(HERE, trunk[-1])) == ["a", "b", "c"]
    assert ids(archive.turn_infos(HERE, left[-1])) == ["a", "b", "left one", "left two"]
    assert ids(archive.read_turns(HERE, right[-1])) == ["a", "b", "left one", "right"]
    assert ids(archive.turn_infos(HERE, right[-1], 1, 2)) == ["b", "left one"]
    assert found(archive, trunk[-1], "left right c") == [2]
    assert sorted(found(archive, right[-1], "left right c")) == [2, 3]
    archive.put_vectors(HERE, "model", {key: [1.0] for key in [*trunk, *left, *right]})
    assert list(archive.read_vectors(HERE, right[-1], "model", 10)) == [trunk[0], trunk[1], left[0], right[0]]


def test_turns_that_name_each_other_as_parents_end_somewhere(archive: Archive) -> None:
    one, two = turn_of("one", "second", 3), turn_of("two", "first", 3)
    for key, turn in (("first", one), ("second", two)):
        archive.put_turn(HERE, {**turn, "key": key}, "words")
    assert ids(archive.turn_infos(HERE, "first")) == ["one"]
    assert found(archive, "second", "words") == [3]


@FUZZ
@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(0, 12), st.integers(0, 12))
@pytest.mark.parametrize("kind", ["saver", "memory store", "memory"])
def test_any_tree_of_turns_is_read_along_its_parents(
    kind: str, tmp_path: Path, parents: list[int], first: int, last: int
) -> None:
    with ExitStack() as stack:
        archive = opened(kind, tmp_path, stack)
        scope = Scope(str(uuid.uuid4()), "")
        lines: list[list[str]] = []
        for number, drawn in enumerate(parents):
            before = lines[drawn % number] if number and drawn else []
            lines.append(
                [*before, *fill(archive, [str(number)], before[-1] if before else "", len(before), scope)]
            )
        archive.put_vectors(scope, "m", {line[-1]: [float(len(line))] for line in lines})
        for line in lines:
            infos = archive.turn_infos(scope, line[-1])
            assert [info["key"] for info in infos] == line
            between = archive.turn_infos(scope, line[-1], first, last)
            assert [info["key"] for info in between] == line[first : last + 1]
            hits = archive.search_turns(scope, line[-1], "about", 100, last)
            assert sorted(hit["position"] for hit in hits) == list(range(min(last, len(line))))
            assert list(archive.read_vectors(scope, line[-1], "m", last)) == line[:last]


# Scopes


@pytest.mark.parametrize(
    "other",
    [Scope("t2", ""), Scope("t", "chat"), Scope("", "t"), Scope("T", ""), Scope("t.x", "%"), Scope("t_", "")],
)
def test_threads_and_graphs_are_apart(archive: Archive, other: Scope) -> None:
    keys = fill(archive, ["one", "two"])
    others = fill(archive, ["one", "three"], scope=other)
    assert ids(archive.turn_infos(HERE, keys[-1])) == ["one", "two"]
    assert ids(archive.turn_infos(other, others[-1])) == ["one", "three"]
    assert archive.turn_infos(other, keys[-1]) == archive.read_keys(HERE, [others[-1]]) == []
    assert found(archive, others[-1], "two", scope=other) == []
    assert found(archive, others[-1], "three", scope=other) == [1]
    archive.put_vectors(other, "model", {others[0]: [2.0]})
    assert archive.read_vectors(HERE, keys[-1], "model", 10) == {}


# Searches

TEXTS = [
    "the weather in Beijing",
    "北京的天气怎么样？",
    "Straße, CAFÉ and naïve: Ｆｕｌｌ width",
    "東京タワーへ行きたい",
    "서울에서 만나요",
    "weather weather weather, and nothing else",
    "x_y(z) = 'quote\" OR 1=1; -- NEAR(a b)' * ^ :",
]


@pytest.fixture
def head(archive: Archive) -> str:
    keys: list[str] = []
    for position, text in enumerate(TEXTS):
        turn = turn_of(
            str(position), keys[-1] if keys else "", position, [HumanMessage(text, id=str(position))]
        )
        archive.put_turn(HERE, turn, search_text(turn["messages"]))
        keys.append(turn["key"])
    return keys[-1]


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        ("weather", [5, 0]),
        ("WEATHER, beijing?", [0, 5]),
        ("天气", [1]),
        ("北京", [1]),
        ("北", [1]),
        ("样", [1]),
        ("天上", []),
        ("strasse", [2]),
        ("cafe", [2]),
        ("NAIVE", [2]),
        ("full", [2]),
        ("東京", [3]),
        ("タワー", [3]),
        ("서울", [4]),
        ("quote", [6]),
        ("weath", []),
        ("", []),
        ("?!* \"'", []),
        ("\x00 \ud800", []),
    ],
)
def test_words_are_found(archive: Archive, head: str, query: str, positions: list[int]) -> None:
    assert found(archive, head, query) == positions


HOSTILE = [
    '"',
    '" OR text : "weather',
    "weather*",
    "NEAR(weather beijing)",
    "scope : weather",
    "AND OR NOT",
    "-weather",
    "^weather",
    "{scope text} : weather",
    "weather' OR '1'='1",
    "weather\x00beijing",
    "%_",
    "(" * 2_000,
    "weather " * 50_000,
    " ".join(f"w{number}" for number in range(5_000)),
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_query_is_only_words(archive: Archive, head: str, query: str) -> None:
    expected = {0, 5} if "weather" in query else {0} if "OR" in query else set()
    assert set(found(archive, head, query)) <= {0, 2, 5, 6}
    assert expected - {0} <= set(found(archive, head, query))


def test_a_search_is_bounded_by_limit_and_position(archive: Archive, head: str) -> None:
    assert [hit["position"] for hit in archive.search_turns(HERE, head, "weather", 1, 10)] == [5]
    assert found(archive, head, "weather", before=5) == [0]
    assert found(archive, head, "weather", before=0) == []
    assert archive.search_turns(HERE, head, "weather", 0, 10) == []
    scores = [hit["score"] for hit in archive.search_turns(HERE, head, "weather", 5, 10)]
    assert scores == sorted(scores, reverse=True)


def test_newer_turns_come_first_among_equals(archive: Archive) -> None:
    keys = fill(archive, ["same"])
    for position in (1, 2):
        turn = turn_of(f"turn {position}", keys[-1], position, [HumanMessage("about same", id=str(position))])
        archive.put_turn(HERE, turn, "about same re same")
        keys.append(turn["key"])
    assert found(archive, keys[-1], "same") == [2, 1, 0]


# Vectors


def test_vectors_are_kept_by_model(archive: Archive) -> None:
    keys = fill(archive, ["one", "two", "three"])
    archive.put_vectors(HERE, "small", {keys[0]: [1.0, -0.5], keys[2]: [0.25, 2.0]})
    archive.put_vectors(HERE, "large", {keys[1]: [3.0]})
    archive.put_vectors(HERE, "small", {keys[0]: [4.0, 5.0]})
    archive.put_vectors(HERE, "small", {})
    assert archive.read_vectors(HERE, keys[-1], "small", 10) == {
        keys[0]: (0, vector_bytes([4.0, 5.0])),
        keys[2]: (2, vector_bytes([0.25, 2.0])),
    }
    assert archive.read_vectors(HERE, keys[-1], "small", 2) == {keys[0]: (0, vector_bytes([4.0, 5.0]))}
    assert archive.read_vectors(HERE, keys[-1], "large", 10) == {keys[1]: (1, b"\x00\x00\x40\x40")}
    assert archive.read_vectors(HERE, keys[-1], "other", 10) == {}
    assert archive.read_vectors(HERE, keys[0], "large", 10) == {}


# Odd values


def test_odd_texts_and_ids(archive: Archive) -> None:
    scope = Scope("thread \x00 汉 %_.|~/", "node|other")
    messages: list[AnyMessage] = [
        HumanMessage("nul \x00 and emoji 😀", id="id \x00 '\""),
        AIMessage("", id="a", tool_calls=[{"name": "x", "id": "c", "args": {"deep": {"汉": ["\x00"]}}}]),
    ]
    turn = turn_of("turn \x00 汉.~", messages=messages)
    archive.put_turn(scope, turn, "half \ud83d of a pair and \x00 words")
    assert archive.read_turns(scope, turn["key"]) == [turn]
    assert found(archive, turn["key"], "pair words", scope=scope) == [0]


def test_a_big_turn(archive: Archive) -> None:
    results = [ToolMessage("汉字 and more " * 20_000, tool_call_id=str(n), id=str(n)) for n in range(10)]
    turn = turn_of("big", messages=[HumanMessage("big " * 100_000, id="h"), *results])
    archive.put_turn(HERE, turn, "words " * 100_000 + "end")
    assert archive.read_keys(HERE, [turn["key"]]) == [turn]
    assert found(archive, turn["key"], "words") == [0]
    assert found(archive, turn["key"], "end") == [], "only the beginning of a text is looked at"


def test_many_keys_at_once(archive: Archive) -> None:
    keys = fill(archive, [str(number) for number in range(900)])
    assert len(archive.known_turns(HERE, keys)) == len(archive.read_keys(HERE, keys)) == 900
    assert len(archive.turn_infos(HERE, keys[-1])) == 900


# The saver alone


def test_turns_outlive_the_saver_and_are_seen_by_another(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver, open_saver(tmp_path / "a.db") as other:
        keys = fill(saver, ["one", "two"])
        assert ids(other.turn_infos(HERE, keys[-1])) == ["one", "two"]
        keys += fill(other, ["three"], keys[-1], 2)
        assert found(saver, keys[-1], "three") == [2]
    with open_saver(tmp_path / "a.db") as saver:
        assert ids(saver.read_turns(HERE, keys[-1])) == ["one", "two", "three"]


def test_what_was_archived_without_an_index_is_indexed_once_there_is_one(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        saver._connection.has_index = False
        keys = fill(saver, ["one", "two"])
        assert found(saver, keys[-1], "two") == [1]
    with open_saver(tmp_path / "a.db") as saver:
        keys += fill(saver, ["three"], keys[-1], 2)
        assert found(saver, keys[-1], "two three") == [2, 1]
        assert saver.conn.execute("SELECT min(indexed) FROM turnflow_archive").fetchone() == (1,)


def test_an_encrypting_saver_leaves_no_word_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_saver(path, serde=EncryptedSerializer(Xor())) as saver:
        turn = turn_of("one", messages=[HumanMessage("the secretword of all", id="h")])
        saver.put_turn(HERE, turn, "the secretword of all")
        saver.put_vectors(HERE, "model", {turn["key"]: [1.0, 2.0, 3.0, 4.0]})
        assert found(saver, turn["key"], "secretword") == [0]
        assert saver.read_vectors(HERE, turn["key"], "model", 1)
    data = path.read_bytes()
    assert b"secretword" not in data
    assert vector_bytes([1.0, 2.0, 3.0, 4.0]) not in data


def test_a_deleted_thread_takes_its_turns_words_and_vectors_along(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        keys = fill(saver, ["one", "two"])
        others = fill(saver, ["one", "two"], scope=Scope("other", ""))
        saver.put_vectors(HERE, "model", {keys[0]: [1.0]})
        saver.delete_thread("t")
        assert not saver.known_turns(HERE, keys)
        assert not saver.read_vectors(HERE, keys[0], "model", 9)
        for table, left in (("turnflow_archive", 2), ("turnflow_words_docsize", 2), ("turnflow_vectors", 0)):
            assert rows(tmp_path / "a.db", table) == left
        saver.conn.execute("INSERT INTO turnflow_words (turnflow_words) VALUES ('integrity-check')")
        assert found(saver, others[-1], "two", scope=Scope("other", "")) == [1]
        keys = fill(saver, ["three"])
        assert found(saver, keys[-1], "one three") == [0]


def test_reads_leave_no_transaction_open(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        keys = fill(saver, ["one", "two"])
        calls: list[Callable[[], object]] = [
            lambda: saver.turn_infos(HERE, keys[-1]),
            lambda: saver.read_turns(HERE, keys[-1]),
            lambda: saver.search_turns(HERE, keys[-1], "one", 5, 5),
            lambda: saver.read_vectors(HERE, keys[-1], "m", 5),
        ]
        for call in calls:
            call()
            assert not saver.conn.in_transaction


def test_a_put_that_is_rolled_back_leaves_nothing(tmp_path: Path) -> None:
    with open_saver(tmp_path / "a.db") as saver:
        with pytest.raises(KeyError):
            fail_inside(saver)
        assert saver.conn.execute("SELECT count(*) FROM turnflow_words_docsize").fetchone() == (0,)
        (key,) = fill(saver, ["one"])
        assert found(saver, key, "one") == [0]


def fail_inside(saver: TurnSaver) -> None:
    with saver.cursor():
        fill(saver, ["one"])
        raise KeyError
