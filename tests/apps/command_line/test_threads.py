"""What `turnflow threads` says about a thread."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from rich.console import Console

from turnflow import TurnContext, TurnSaver, build_turn_graph, open_saver, run_turn
from turnflow.apps.command_line.threads import list_threads, parse_tags, print_threads, reading_graph
from turnflow.graph.session_access import set_tags, set_variables


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[TurnSaver]:
    with open_saver(tmp_path / "threads.sqlite") as opened:
        yield opened


def say(saver: TurnSaver, thread: str, text: str, user: str | None = None) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage(f"So, {text}")]))
    graph = build_turn_graph(model, checkpointer=saver, settings={"ask_user": False})
    run_turn(graph, text, thread_id=thread, context=TurnContext(user_id=user))


def test_user_times_tags_turns_and_variables_are_listed(saver: TurnSaver) -> None:
    say(saver, "one", "hello", "ann")
    say(saver, "one", "again", "ann")
    graph = reading_graph(saver)
    set_tags(graph, "one", {"team": "north", "kind": "test"})
    set_variables(graph, "one", {"form": {"step": 1, "id": "A"}, "_own": {"x": 1}})
    (thread,) = list_threads(saver, 5)
    created, last_active = thread["created"], thread["last_active"]
    assert created is not None
    assert last_active is not None
    assert created < last_active
    assert created.endswith("+00:00")
    assert (thread["user"], thread["turns"], thread["variables"]) == ("ann", 2, 3)
    assert thread["tags"] == {"team": "north", "kind": "test"}
    out = io.StringIO()
    print_threads(Console(file=out, highlight=False), iter([thread]))
    shown = out.getvalue()
    assert shown.startswith(f"one  {last_active[:10]} ")
    assert "  ann  since " in shown
    assert "  2 turns  3 variables  [team=north kind=test]  finished " in shown
    assert shown.endswith("again\n")


def test_only_threads_with_all_tags_are_listed(saver: TurnSaver) -> None:
    graph = reading_graph(saver)
    for name, tags in {
        "a": {"team": "north"},
        "b": {"team": "south"},
        "c": {"team": "north", "x": "1"},
    }.items():
        say(saver, name, "hello")
        set_tags(graph, name, tags)
    say(saver, "d", "hello")
    assert [t["thread_id"] for t in list_threads(saver, 9, {"team": "north"})] == ["c", "a"]
    assert [t["thread_id"] for t in list_threads(saver, 1, {"team": "north"})] == ["c"]
    assert [t["thread_id"] for t in list_threads(saver, 9, {"team": "north", "x": "1"})] == ["c"]
    assert [t["thread_id"] for t in list_threads(saver, 9, {"team": "east"})] == []
    assert [t["thread_id"] for t in list_threads(saver, 2)] == ["d", "c"]


def test_a_thread_from_before_is_listed(saver: TurnSaver) -> None:
    messages = [HumanMessage("a", id="u1"), AIMessage("A.", id="a1"), HumanMessage("b", id="u2")]
    config: Any = {"configurable": {"thread_id": "old"}}
    reading_graph(saver).update_state(config, {"messages": messages}, as_node="finalize")
    (thread,) = list_threads(saver, 5)
    assert (thread["user"], thread["created"], thread["tags"], thread["variables"]) == (None, None, {}, 0)
    assert (thread["turns"], thread["messages"], thread["last_user_message"]) == (2, 3, "b")
    assert thread["last_active"] is not None


def test_tags_are_read_from_the_command_line() -> None:
    assert parse_tags(["team=north", "note=a=b", "empty="]) == {"team": "north", "note": "a=b", "empty": ""}
    for wrong in ("team", "=north", " =x"):
        with pytest.raises(ValueError, match="write name=value"):
            parse_tags([wrong])


def shown_of(saver: TurnSaver) -> str:
    out = io.StringIO()
    print_threads(Console(file=out, highlight=False), list_threads(saver, 5))
    return out.getvalue()


def spoil(saver: TurnSaver, meta: dict[str, Any]) -> None:
    """Write metadata into the thread `t` as a program without checks would."""
    config: Any = {"configurable": {"thread_id": "t"}}
    reading_graph(saver).update_state(config, {"session": {"meta": meta}}, as_node="finalize")


def test_a_user_that_is_no_text_hides_no_thread(saver: TurnSaver) -> None:
    say(saver, "t", "hello")
    spoil(saver, {"user": 5, "tags": {"n": 7}})
    say(saver, "other", "hi")
    first, second = shown_of(saver).splitlines()
    assert first.startswith("other  ")
    assert second.startswith("t  ")
    assert "  5  since " in second
    assert "[n=7]" in second


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\u2028", "\x0b", "\x85"])
def test_tags_and_users_forge_no_row(saver: TurnSaver, line_break: str) -> None:
    say(saver, "t", "hello")
    forged = f"x{line_break}forged  2026-01-01"
    spoil(saver, {"user": forged, "tags": {forged: forged}})
    (line,) = shown_of(saver).splitlines()
    assert "[x forged 2026-01-01=x forged 2026-01-01]" in line


def test_a_tag_drives_no_terminal_and_takes_no_page(saver: TurnSaver) -> None:
    say(saver, "t", "hello")
    spoil(saver, {"tags": {"a\x1b[2J": "v" * 200}})
    assert f"[a[2J={'v' * 59}…]" in shown_of(saver)
