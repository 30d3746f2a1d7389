"""Arguments of a wrong kind are refused at once, by a line that names the value and the mend."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from turnflow import TurnSaver, build_turn_graph, open_saver
from turnflow.graph.history import full_history, missing_turns
from turnflow.graph.logs import TURN_LOGGER, JsonLines, log_to
from turnflow.graph.session_access import session_of, set_tags
from turnflow.graph.turns import pinned


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[TurnSaver]:
    with open_saver(tmp_path / "threads.sqlite") as opened:
        yield opened


def wrong(value: object) -> Any:
    """Gives a wrong kind of value past the type checker."""
    return value


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda _: JsonLines(patterns="abc"), "patterns is a list of regular expressions, not 'abc'"),
        (lambda _: log_to(wrong(5)), "a path or a stream that takes text, not 5"),
        (lambda _: log_to(""), "the path of the log is empty"),
        (lambda _: pinned(wrong("x")), "only a message can be pinned, such as .*, not 'x'"),
        (lambda s: full_history(build_turn_graph("m", checkpointer=s), "t", last=wrong("x")), "last='x' is"),
        (lambda s: full_history(build_turn_graph("m", checkpointer=s), "t", last=0), "last=0 is no number"),
        (lambda s: full_history(build_turn_graph("m", checkpointer=s), wrong(5)), "not blank, not 5"),
        (lambda _: full_history(build_turn_graph("m"), "t"), "build it with checkpointer="),
        (lambda _: full_history(wrong("x"), "t"), "graph is one of build_turn_graph, not 'x'"),
        (lambda s: s.collect(older_than="x"), "older_than='x' is no number; give seconds"),
        (lambda s: s.collect(older_than=float("nan")), "older_than=nan is no number"),
        (lambda s: s.prune("ab", strategy="delete"), r"thread_ids is a list of ids, not 'ab'; give \['ab'\]"),
        (lambda s: open_saver(":memory:", keep_turns=wrong("x")).__enter__(), "keep_turns='x' is no number"),
        (
            lambda s: open_saver(":memory:", full_turns=wrong(None)).__enter__(),
            "full_turns=None is no number",
        ),
        (lambda s: open_saver(":memory:", keep_turns=0).__enter__(), "must be at least 1"),
        (lambda s: s.prune(5), "thread_ids is a list of ids, not 5"),
        (lambda s: s.delete_for_runs("ab"), "run_ids is a list of ids, not 'ab'"),
        (lambda _: session_of(wrong("x"), "t"), "one that build_turn_graph made, not 'x'"),
        (lambda _: set_tags(wrong("x"), "t", {"a": "b"}), "one that build_turn_graph made, not 'x'"),
    ],
)
def test_the_value_and_the_mend_are_named(
    saver: TurnSaver, call: Callable[[Any], Any], complaint: str
) -> None:
    handlers = list(logging.getLogger(TURN_LOGGER).handlers)
    with pytest.raises(ValueError, match=complaint):
        call(saver)
    assert logging.getLogger(TURN_LOGGER).handlers == handlers


def test_a_text_of_ids_deletes_no_threads(saver: TurnSaver) -> None:
    graph = build_turn_graph("m", checkpointer=saver)
    for thread in ("a", "b"):
        set_tags(graph, thread, {"kind": "test"})
    with pytest.raises(ValueError, match="list of ids"):
        saver.prune("ab", strategy="delete")
    assert sorted(saver.thread_ids()) == ["a", "b"]
    saver.prune(["a"], strategy="delete")
    assert saver.thread_ids() == ["b"]


def test_turns_that_are_missing_are_counted() -> None:
    messages: Any = [HumanMessage(str(n), id=str(n)) for n in range(3)]
    assert missing_turns(messages, None) == missing_turns(messages, 2) == missing_turns(messages, 9, 3) == 0
    assert missing_turns(messages, 4) == missing_turns(messages, 9, 5) == 2
