"""Conversations of many turns: what stays in the state, what is archived, what the model still sees."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from tests.turns.spoken import Spoken, question_of, texts
from tests.turns.stage import Stage
from turnflow import SummaryMemory, TurnSaver, build_turn_graph, pinned
from turnflow.graph.archive import ArchivedTurn, scope_of
from turnflow.nodes.assemble_context import explain

THREAD: Any = {"configurable": {"thread_id": "t"}}


def speaker() -> Spoken:
    """Says what it was asked, so that each turn has texts of its own; sums up in a few words."""
    return Spoken(answer=lambda request: "In short: they talked." if sums_up(request) else said(request))


def sums_up(request: Any) -> bool:
    return "sum up" in texts(request[:1])


def said(request: Any) -> str:
    return f"You said: {question_of(request)[:40]}"


def build(stage: Stage, model: Spoken, **options: Any) -> Any:
    return build_turn_graph(model, checkpointer=stage.saver, **options)


def talk(stage: Stage, graph: Any, count: int, *, first: int = 0) -> Any:
    for number in range(first, first + count):
        played = stage.play(graph, {"messages": [HumanMessage(f"Question {number}.", id=f"u{number}")]})
        assert played.status == "finished"
    return played


def archived(stage: Stage, graph: Any) -> list[ArchivedTurn]:
    head = stage.state(graph, THREAD)["turn"]["archived"]
    return list(stage.saver.read_turns(scope_of("t", ""), head))


def human_ids(messages: Any) -> list[str]:
    return [str(message.id) for message in messages if isinstance(message, HumanMessage)]


def is_archived(stage: Stage) -> bool:
    return hasattr(stage.saver, "read_turns")


def test_turns_leave_the_state_for_the_archive(stage: Stage) -> None:
    graph = build(stage, speaker(), memory="window", settings={"state_turns": 3, "max_rounds": 2})
    talk(stage, graph, 14)
    kept = human_ids(stage.state(graph, THREAD)["messages"])
    if not is_archived(stage):
        assert kept == [f"u{number}" for number in range(14)]
        return
    # A memory that shows ten turns word for word keeps ten, whatever `state_turns` says.
    assert kept == [f"u{number}" for number in range(4, 14)]
    turns = archived(stage, graph)
    assert [turn["input_id"] for turn in turns] == [f"u{number}" for number in range(14)]
    assert [turn["position"] for turn in turns] == list(range(14))
    assert {turn["status"] for turn in turns} == {"finished"}
    assert [m.text for m in turns[2]["messages"]] == ["Question 2.", "You said: Question 2."]


def test_the_state_does_not_grow(stage: Stage) -> None:
    if not is_archived(stage):
        pytest.skip("nothing is trimmed without an archive")
    graph = build(stage, speaker(), memory="window")
    sizes = []
    for number in range(26):
        talk(stage, graph, 1, first=number)
        state = stage.state(graph, THREAD)
        sizes.append(len(repr(state)))
    assert max(sizes[-5:]) - min(sizes[-5:]) < 0.02 * sizes[-1]


def test_what_left_the_window_is_recalled_by_words(stage: Stage) -> None:
    model = speaker()
    graph = build(stage, model)
    stage.play(graph, "My parrot is called Ludovico.")
    talk(stage, graph, 14)
    stage.play(graph, "What is my parrot called?")
    last = question_of(model.requests[-1])
    assert "Ludovico" in last
    assert last.startswith("What is my parrot called?")
    assert last.index("<recalled>") < last.index("Ludovico")


def test_what_left_the_window_is_summed_up_once_there_are_more_than_twenty_messages(stage: Stage) -> None:
    model = speaker()
    graph = build(stage, model)
    talk(stage, graph, 11)
    assert not [request for request in model.requests if sums_up(request)]
    assert "Question 0." in texts(model.requests[-1])
    talk(stage, graph, 1, first=11)
    (asked,) = [request for request in model.requests if sums_up(request)]
    assert "Question 0." in texts(asked)
    assert "Question 5." in texts(asked)
    assert "Question 6." not in texts(asked)
    assert "In short: they talked." in texts(model.requests[-1])
    assert "Question 6." in texts(model.requests[-1])
    assert stage.state(graph, THREAD)["summary"]["anchor"]["position"] == 5
    talk(stage, graph, 12, first=12)
    first, second, third = [request for request in model.requests if sums_up(request)]
    assert first == asked
    assert "In short: they talked." in texts(second)
    assert texts(third).count("In short: they talked.") == 1
    assert "Question 18." not in texts(third)


def test_what_is_pinned_stays(stage: Stage) -> None:
    model = speaker()
    graph = build(stage, model, memory="window")
    rule = pinned(HumanMessage("Always answer in rhymes.", id="rule"))
    stage.play(graph, {"messages": [rule]})
    played = talk(stage, graph, 30)
    assert texts(model.requests[-1]).count("Always answer in rhymes.") == 1
    manifest = played.of("context.assembled")[-1]["manifest"]
    assert ("rule", "pinned") in explain(manifest, stage.state(graph, THREAD)["messages"])


def test_a_turn_that_failed_is_archived_by_the_next(stage: Stage) -> None:
    broken = [True]

    def answer(request: Any) -> str:
        if broken[0]:
            raise RuntimeError("no")
        return said(request)

    model = Spoken(answer=answer)
    graph = build(stage, model)
    played = stage.play(graph, {"messages": [HumanMessage("First.", id="u0")]})
    assert played.error is not None
    broken[0] = False
    talk(stage, graph, 1, first=1)
    assert "First." in texts(model.requests[-1])
    if is_archived(stage):
        assert [(t["input_id"], t["status"]) for t in archived(stage, graph)] == [
            ("u0", "abandoned"),
            ("u1", "finished"),
        ]


def test_a_history_that_comes_with_the_input_is_archived(stage: Stage) -> None:
    graph = build(stage, speaker())
    given = [
        message
        for number in range(15)
        for message in (HumanMessage(f"Old {number}.", id=f"o{number}"), AIMessage("Yes.", id=f"a{number}"))
    ]
    stage.play(graph, {"messages": [*given, HumanMessage("And now?", id="u0")]})
    if is_archived(stage):
        turns = archived(stage, graph)
        assert [turn["status"] for turn in turns] == ["given"] * 15 + ["finished"]
        assert len(human_ids(stage.state(graph, THREAD)["messages"])) == 10
    # A front end that sends all of it again brings nothing back.
    again = [*given, HumanMessage("And now?", id="u0"), HumanMessage("And then?", id="u1")]
    stage.play(graph, {"messages": again})
    kept = human_ids(stage.state(graph, THREAD)["messages"])
    if is_archived(stage):
        assert [turn["input_id"] for turn in archived(stage, graph)][-3:] == ["o14", "u0", "u1"]
        assert kept == [*(f"o{number}" for number in range(7, 15)), "u0", "u1"]
    else:
        assert kept == [*(f"o{number}" for number in range(15)), "u0", "u1"]


def test_an_older_turn_can_be_gone_on_from(stage: Stage) -> None:
    if not is_archived(stage):
        pytest.skip("needs the archive")
    graph = build(stage, speaker())
    talk(stage, graph, 6)
    history = list(graph.get_state_history(THREAD))
    ended = [s for s in history if not s.next and s.values["turn"]["input_id"] == "u3"]
    config = ended[0].config
    given = {"messages": [HumanMessage("Another way.", id="v4")]}
    if stage.mode == "sync":
        graph.invoke(given, config)
    else:
        stage.run(graph.ainvoke(given, config))
    assert [turn["input_id"] for turn in archived(stage, graph)] == ["u0", "u1", "u2", "u3", "v4"]
    talk(stage, graph, 1, first=7)
    assert [turn["input_id"] for turn in archived(stage, graph)] == ["u0", "u1", "u2", "u3", "v4", "u7"]


def test_the_manifest_explains_every_message(stage: Stage) -> None:
    graph = build(stage, speaker(), settings={"context_window": 1500})
    for number in range(12):
        long = HumanMessage(f"Question {number}. " + "word " * 150, id=f"u{number}")
        stage.play(graph, {"messages": [long]})
        played = stage.play(graph, {"messages": [HumanMessage(f"More {number}.", id=f"m{number}")]})
        manifest = played.of("context.assembled")[-1]["manifest"]
        before = [m for m in played.messages if m.id != played.messages[-1].id]
        reasons = dict(explain(manifest, before))
        assert set(reasons) == {m.id for m in before}
        assert reasons[f"m{number}"] == "current"


def edit(stage: Stage, graph: Any, *messages: Any) -> None:
    if stage.mode == "sync":
        graph.update_state(THREAD, {"messages": list(messages)})
    else:
        stage.run(graph.aupdate_state(THREAD, {"messages": list(messages)}))


def said_on_the_line(stage: Stage, graph: Any) -> list[str]:
    return [message.text for turn in archived(stage, graph) for message in turn["messages"]]


@pytest.mark.parametrize("removed", [("u3", "turn-u3-1"), ("u3",), ("turn-u3-1",)], ids=len)
def test_the_last_turn_can_be_taken_back(stage: Stage, removed: tuple[str, ...]) -> None:
    model = speaker()
    graph = build(stage, model)
    talk(stage, graph, 4)
    edit(stage, graph, *(RemoveMessage(id=each) for each in removed))
    stage.play(graph, {"messages": [HumanMessage("Question 3 again.", id="v3")]})
    shown = texts(model.requests[-1])
    assert "Question 0." in shown
    assert "Question 2." in shown
    assert ("You said: Question 3." in shown) == ("turn-u3-1" not in removed)
    kept = human_ids(stage.state(graph, THREAD)["messages"])
    assert kept == ["u0", "u1", "u2", *([] if "u3" in removed else ["u3"]), "v3"]
    if is_archived(stage):
        assert [turn["input_id"] for turn in archived(stage, graph)] == kept
        assert ("Question 3." in said_on_the_line(stage, graph)) == ("u3" not in removed)
    talk(stage, graph, 12, first=4)
    stage.play(graph, "What was Question 3 about?")
    if "u3" in removed:
        assert "User: Question 3.\n" not in question_of(model.requests[-1])


def test_what_was_edited_is_archived_as_it_is_now(stage: Stage) -> None:
    model = speaker()
    graph = build(stage, model)
    talk(stage, graph, 4)
    edit(stage, graph, HumanMessage("I live in Rome.", id="u1"))
    talk(stage, graph, 2, first=4)
    assert "I live in Rome." in texts(model.requests[-1])
    if is_archived(stage):
        turns = archived(stage, graph)
        assert [turn["input_id"] for turn in turns] == [f"u{number}" for number in range(6)]
        assert [turn["position"] for turn in turns] == list(range(6))
        assert "I live in Rome." in said_on_the_line(stage, graph)
        assert "Question 1." not in said_on_the_line(stage, graph)
    talk(stage, graph, 12, first=6)
    stage.play(graph, "Where do I live, Rome or Question 1?")
    assert "I live in Rome." in question_of(model.requests[-1])
    assert "User: Question 1." not in question_of(model.requests[-1])


@pytest.mark.parametrize("failing", ["start", "end"])
def test_an_archive_that_fails_once_loses_nothing(
    stage: Stage, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_archived(stage):
        pytest.skip("needs the archive")
    graph = build(stage, speaker())
    given = [
        message
        for number in range(15)
        for message in (HumanMessage(f"Old {number}.", id=f"o{number}"), AIMessage("Yes.", id=f"a{number}"))
    ]
    if failing == "end":
        talk(stage, graph, 1, first=100)
    put = TurnSaver.put_turn
    left = [1]

    def put_turn(*args: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError("the disk is full")
        put(*args)

    monkeypatch.setattr(TurnSaver, "put_turn", put_turn)
    first = [*given, HumanMessage("Now.", id="u0")] if failing == "start" else [HumanMessage("Now.", id="u0")]
    stage.play(graph, {"messages": first})
    expected = [f"o{number}" for number in range(15)] if failing == "start" else ["u100"]
    assert human_ids(stage.state(graph, THREAD)["messages"]) == [*expected, "u0"]
    talk(stage, graph, 1, first=1)
    turns = archived(stage, graph)
    assert [turn["input_id"] for turn in turns] == [*expected, "u0", "u1"]
    assert [turn["position"] for turn in turns] == list(range(len(turns)))


@pytest.mark.parametrize(
    ("settings", "memory"),
    [
        ({"state_turns": 1}, "hybrid"),
        ({"state_turns": 3}, "summary"),
        ({}, SummaryMemory(summary_after=60)),
    ],
    ids=["one", "three", "sixty"],
)
def test_a_summary_comes_whatever_stays_in_the_state(
    stage: Stage, settings: dict[str, Any], memory: Any
) -> None:
    model = speaker()
    graph = build(stage, model, settings=settings, memory=memory)
    shown: set[int] = set()
    for number in range(70):
        talk(stage, graph, 1, first=number)
        request = texts(model.requests[-1])
        anchor = (stage.state(graph, THREAD).get("summary") or {}).get("anchor") or {"position": -1}
        shown = {each for each in range(number) if f"Question {each}." in request}
        assert shown >= set(range(anchor["position"] + 1, number))
    assert [request for request in model.requests if sums_up(request)]


def test_messages_can_be_removed_by_an_edit(stage: Stage) -> None:
    graph = build(stage, speaker())
    talk(stage, graph, 3)
    change = {"messages": [RemoveMessage(id="u1")]}
    if stage.mode == "sync":
        graph.update_state(THREAD, change)
    else:
        stage.run(graph.aupdate_state(THREAD, change))
    assert human_ids(stage.state(graph, THREAD)["messages"]) == ["u0", "u2"]
    played = talk(stage, graph, 1, first=3)
    assert human_ids(played.messages) == ["u0", "u2", "u3"]
