"""Session variables and metadata as plain values: what may be stored, and how changes merge."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnflow.graph.session import (
    MAX_TAGS,
    MAX_VARIABLES,
    check_size,
    checked_tags,
    checked_variables,
    info_of,
    merged_changes,
    public_variables,
    session_change,
    shown_variables,
    touched,
    with_session,
)
from turnflow.graph.state import merge_session

LAWS = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "100")), deadline=None)

KEYS = st.sampled_from(["count", "step", "x"])
VALUES = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.none(), max_size=2)
)
ENTRIES = st.none() | st.dictionaries(KEYS, VALUES, max_size=3)
CHANGES = st.dictionaries(st.sampled_from(["a", "b", "_c"]), ENTRIES, max_size=3)


def merged(*changes: dict[str, Any]) -> dict[str, Any]:
    """The variables after these changes, one by one."""
    session: dict[str, Any] = {}
    for change in changes:
        session = merge_session(session, {"vars": change})
    return dict(session.get("vars", {}))


def test_two_plugins_keep_their_own_value() -> None:
    assert merged({"one": {"count": 1}}, {"two": {"count": 2}}) == {"one": {"count": 1}, "two": {"count": 2}}


def test_keys_of_a_namespace_merge_and_go_away() -> None:
    assert merged({"form": {"step": 1, "id": "A"}}, {"form": {"step": 2}}) == {"form": {"step": 2, "id": "A"}}
    assert merged({"form": {"step": 1, "id": "A"}}, {"form": {"id": None}}) == {"form": {"step": 1}}
    assert merged({"form": {"step": 1}}, {"form": {"step": None}}) == {}
    assert merged({"form": {"step": 1}, "b": {"x": 1}}, {"form": None}) == {"b": {"x": 1}}


def test_a_value_is_replaced_as_a_whole() -> None:
    assert merged({"form": {"x": {"a": 1}}}, {"form": {"x": {"b": 2}}}) == {"form": {"x": {"b": 2}}}


def test_other_sections_merge_one_level() -> None:
    old = {"grants": {"pay": {"turn_id": "1", "until": 2}}}
    assert merge_session(old, {"grants": {"pay": {"turn_id": "2"}}}) == {"grants": {"pay": {"turn_id": "2"}}}
    assert merge_session(old, {"grants": None}) == {"grants": {}}


def test_tags_merge_key_by_key() -> None:
    old = merge_session({}, {"meta": {"user": "ann", "tags": {"a": "1", "b": "2"}}})
    assert merge_session(old, {"meta": {"tags": {"a": None, "c": "3"}}})["meta"] == {
        "user": "ann",
        "tags": {"b": "2", "c": "3"},
    }


@LAWS
@given(st.lists(CHANGES, max_size=5))
def test_changes_as_one_do_what_they_do_one_by_one(changes: list[dict[str, Any]]) -> None:
    assert merged(merged_changes(changes)) == merged(*changes)
    known = {"a": {"count": 1, "y": 2}, "_c": {"z": 0}}
    assert merged(known, merged_changes(changes)) == merged(known, *changes)


@LAWS
@given(CHANGES, CHANGES)
def test_merging_changes_leaves_what_it_was_given(one: dict[str, Any], two: dict[str, Any]) -> None:
    before = json.dumps([one, two])
    old = merge_session({}, {"vars": one})
    kept = json.dumps(old)
    merge_session(old, {"vars": two})
    merged_changes([one, two])
    assert (json.dumps([one, two]), json.dumps(old)) == (before, kept)


def test_values_are_copied_as_plain_json() -> None:
    class Level(StrEnum):
        HIGH = "y"

    items: list[Any] = [1, 2.5, None, True, ("x",), {"deep": Level.HIGH}]
    change = checked_variables({"form": {"items": items, "half": "\ud83d\ude00 \ud800"}})
    assert change == {"form": {"items": [1, 2.5, None, True, ["x"], {"deep": "y"}], "half": "😀 \ufffd"}}
    assert type(change["form"]["items"][5]["deep"]) is str
    items.append("later")
    assert len(change["form"]["items"]) == 6


def test_what_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    with pytest.raises(ValueError, match=r"variables\['a'\]\['b'\].* is nested too deeply"):
        checked_variables({"a": {"b": loop}})
    with pytest.raises(ValueError, match="holds more than"):
        checked_variables({"a": {"b": [0] * (MAX_VARIABLES + 1)}})


def test_the_size_of_all_together_is_bounded() -> None:
    half = {"vars": {"a": {"text": "é" * (MAX_VARIABLES // 4)}}}
    check_size({}, half)
    with pytest.raises(
        ValueError, match=rf"{MAX_VARIABLES} is the most; the largest is variables\['b'\]\['big'\]"
    ):
        check_size(half, {"vars": {"b": {"big": "x" * (MAX_VARIABLES // 2 + 9)}}})
    # In place of what was there it fits.
    check_size(half, {"vars": {"a": None, "b": {"big": "x" * (MAX_VARIABLES // 2 + 9)}}})


def test_too_much_may_always_become_less() -> None:
    large = {"vars": {"a": {"x": "y" * 2 * MAX_VARIABLES, "z": 1}}}
    check_size(large, {"vars": {"a": {"z": None}}})


def test_tags_are_bounded() -> None:
    many = {f"t{number}": "x" for number in range(MAX_TAGS)}
    check_size({}, session_change(tags=many)["session"])
    with pytest.raises(ValueError, match=f"{MAX_TAGS} is the most"):
        check_size({"meta": {"tags": many}}, session_change(tags={"one": "more"})["session"])
    wrong: list[Any] = [["a"], {"": "x"}, {"a=b": "x"}, {1: "x"}, {"a": 1}, {"a": "x" * 201}]
    for tags in wrong:
        with pytest.raises(ValueError, match="tag"):
            checked_tags(tags)


def test_last_active_grows_even_where_the_clock_does_not() -> None:
    meta: dict[str, Any] = {}
    seen = []
    for now in (100.0, 100.0, 99.5, 100.0004, 200.0):
        meta |= touched(meta, "ann", now)
        seen.append(meta["last_active"])
    assert seen == sorted(set(seen))
    assert (meta["created"], meta["user"], seen[-1]) == (100.0, "ann", 200.0)


def test_who_asks_is_kept_until_another_does() -> None:
    assert touched({"user": "ann", "created": 1.0}, None, 2.0) == {"last_active": 2.0}
    assert touched({"user": "ann", "created": 1.0}, "bob", 2.0) == {"last_active": 2.0, "user": "bob"}


def test_private_namespaces_are_not_shown() -> None:
    variables: dict[str, dict[str, Any]] = {"form": {"step": 2}, "_plugin": {"token": "x"}}
    assert public_variables(variables) == {"form": {"step": 2}}
    assert shown_variables(variables) == '{"form":{"step":2}}'
    assert shown_variables({"_plugin": {"token": "x"}}) is None
    assert shown_variables({}) is None


@pytest.mark.parametrize("session", [None, {}, {"grants": {}}, {"vars": {}, "meta": {}}, {"vars": None}])
def test_a_thread_without_sections_has_empty_ones(session: Any) -> None:
    nothing: Any = {"user": None, "created": None, "last_active": None, "tags": {}}
    assert info_of(session) == {"vars": {}, "meta": nothing}


def test_tools_see_what_earlier_calls_of_the_reply_have_set_and_cannot_change_the_state() -> None:
    done = {"id": "c1", "done": True, "variables": {"form": {"step": 2}, "old": None}}
    waiting = {"id": "c2", "done": False, "variables": {"form": {"step": 3}}}
    state: dict[str, Any] = {
        "session": {"grants": {"pay": {}}, "vars": {"form": {"step": 1, "seen": [1]}, "old": {"x": 1}}},
        "batch": {"id": "m", "calls": {"c1": done, "c2": waiting}, "joined": False, "folded": False},
    }
    seen = with_session(state)["session"]
    assert seen["vars"] == {"form": {"step": 2, "seen": [1]}}
    assert (seen["grants"], seen["meta"]["tags"]) == ({"pay": {}}, {})
    seen["vars"]["form"]["seen"].append(2)
    seen["meta"]["tags"]["x"] = "y"
    assert state["session"]["vars"]["form"] == {"step": 1, "seen": [1]}
    assert with_session({})["session"]["vars"] == {}


@pytest.mark.parametrize("char", ["\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
def test_a_tag_has_no_control_characters(char: str) -> None:
    for tags in ({f"a{char}b": "c"}, {"a": f"b{char}c"}):
        with pytest.raises(ValueError, match="neither a name nor a value has control characters"):
            checked_tags(tags)
    assert checked_tags({f"a{char}b": None}) == {f"a{char}b": None}  # one from before comes off
