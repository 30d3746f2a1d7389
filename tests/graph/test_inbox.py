"""What an inbox takes and keeps, in memory and in the saver's file."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from turnflow import open_saver
from turnflow.graph.inbox import Inbox, InputSource, as_item
from turnflow.graph.transcript import is_input, is_steering, last_user_message, merge_messages, steering
from turnflow.graph.turns import turn_spans


@pytest.fixture(params=["memory", "sqlite"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield Inbox()
        return
    with open_saver(tmp_path / "threads.sqlite") as saver:
        yield saver.inbox("t")


def texts(inbox: Any) -> list[str]:
    return [str(message.content) for message in inbox.pending()]


def test_items_stay_in_order_until_they_are_acknowledged(inbox: Any) -> None:
    kind: Any = InputSource
    assert isinstance(inbox, kind)
    assert (len(inbox), bool(inbox), inbox.pending()) == (0, True, [])
    ids = [inbox.put(text) for text in ("one", "two", "three")]
    assert [message.id for message in inbox.pending()] == ids
    inbox.acknowledge([ids[1], "unknown"])
    assert texts(inbox) == ["one", "three"]
    inbox.acknowledge(message.id for message in inbox.pending())
    assert len(inbox) == 0


def test_texts_messages_and_blocks(inbox: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    inbox.put("a text", id="a")
    inbox.put(HumanMessage("a message", id="b", name="ann", additional_kwargs={"turnflow": {"pinned": True}}))
    inbox.put([{"type": "text", "text": "look"}, image], id="c")
    inbox.put([image])
    inbox.put(HumanMessage("another id", id="x"), id="d")
    inbox.put("half a pair \ud83d", id="e")
    first, second, third, fourth, fifth, sixth = inbox.pending()
    assert (first.content, first.id) == ("a text", "a")
    assert (second.name, second.additional_kwargs) == ("ann", {"turnflow": {"pinned": True}})
    assert third.content[1] == image
    assert fourth.id
    assert (fifth.content, fifth.id) == ("another id", "d")
    assert sixth.content == "half a pair �"


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("", {}),
        (" \n", {}),
        ([], {}),
        ([{"type": "text", "text": " "}], {}),
        (HumanMessage(""), {}),
        (AIMessage("hello"), {}),
        (None, {}),
        (7, {}),
        ([7], {}),
        ("hello", {"id": ""}),
        ("hello", {"id": 7}),
        ("hello", {"id": "a\ud800"}),
        (HumanMessage("hello", id="a\ud800"), {}),
    ],
)
def test_what_is_no_message_is_refused(inbox: Any, message: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"empty|inbox takes|id is a text"):
        inbox.put(message, **options)
    assert len(inbox) == 0


def test_a_text_is_one_id(inbox: Any) -> None:
    for each in ("m1", "m", "1"):
        inbox.put(each, id=each)
    inbox.acknowledge("m1")
    assert texts(inbox) == ["m", "1"]
    inbox.acknowledge(("m", "no such id", "a\ud800"))
    assert texts(inbox) == ["1"]
    inbox.acknowledge(each for each in ["1"])
    assert len(inbox) == 0


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        (None, "ids is a list of items' ids, not None"),
        (5, "ids is a list of items' ids, not 5"),
        (b"m1", "ids is a list of items' ids, not b'm1'"),
        ({"m1": 1}, "ids is a list of items' ids, not {'m1': 1}"),
        ([[]], "ids holds [], which is no item's id"),
        (["m1", None], "ids holds None, which is no item's id"),
        ([5], "ids holds 5, which is no item's id"),
    ],
)
def test_what_is_no_id_is_refused_and_takes_nothing_out(inbox: Any, ids: Any, complaint: str) -> None:
    inbox.put("hello", id="m1")
    with pytest.raises(ValueError, match=re.escape(complaint)):
        inbox.acknowledge(ids)
    assert texts(inbox) == ["hello"]


def test_an_id_that_cannot_be_stored_is_named(inbox: Any) -> None:
    with pytest.raises(ValueError, match=r"an item's id is a text that can be stored; 'a\\ud800' holds half"):
        inbox.put("hello", id="a\ud800")


def test_the_same_id_is_put_in_once(inbox: Any) -> None:
    assert inbox.put("first", id="a") == inbox.put("second", id="a") == "a"
    assert texts(inbox) == ["first"]


def test_a_mark_that_comes_with_a_message_is_taken_off(inbox: Any) -> None:
    inbox.put(steering(HumanMessage("hello", additional_kwargs={"other": 1})))
    (message,) = inbox.pending()
    assert message.additional_kwargs == {"other": 1}
    assert not is_steering(message)


def test_put_in_and_taken_out_from_many_threads(inbox: Any) -> None:
    taken: list[str] = []
    done = threading.Event()

    def put(number: int) -> None:
        for count in range(20):
            inbox.put(f"{number} {count}", id=f"{number} {count}")

    def take() -> None:
        while not done.is_set() or len(inbox):
            ids = [message.id for message in inbox.pending()]
            inbox.acknowledge(ids)
            taken.extend(ids)

    typists = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    taker = threading.Thread(target=take)
    for thread in (taker, *typists):
        thread.start()
    for thread in typists:
        thread.join()
    done.set()
    taker.join()
    assert sorted(taken) == sorted(f"{number} {count}" for number in range(4) for count in range(20))
    for number in range(4):
        own = [each for each in taken if each.startswith(f"{number} ")]
        assert own == [f"{number} {count}" for count in range(20)]


# Messages that were taken into a turn


def conversation(seed: int) -> list[Any]:
    """A transcript of turns with messages that came meanwhile."""
    chance = random.Random(seed)  # noqa: S311 - for a test
    messages: list[Any] = []
    for number in range(chance.randint(1, 5)):
        messages.append(HumanMessage(f"question {number}", id=f"q{number}"))
        for late in range(chance.randint(0, 3)):
            messages.append(AIMessage(f"note {number}.{late}", id=f"n{number}.{late}"))
            messages.append(steering(HumanMessage(f"late {number}.{late}", id=f"l{number}.{late}")))
        messages.append(AIMessage(f"answer {number}", id=f"a{number}"))
    return messages


@pytest.mark.parametrize("seed", range(20))
def test_they_begin_no_turn(seed: int) -> None:
    messages = conversation(seed)
    spans = turn_spans(messages)
    questions = [message.id for message in messages if is_input(message)]
    assert [span.input_id for span in spans] == questions
    assert spans[0].start == 0
    assert all(before.end == after.start for before, after in pairwise(spans))
    newest = last_user_message(messages)
    assert newest is not None
    assert newest.id == questions[-1]


def test_one_that_stands_first_begins_no_turn_either() -> None:
    late = steering(HumanMessage("late", id="l"))
    assert [span.input_id for span in turn_spans([late, HumanMessage("question", id="q")])] == ["", "q"]
    assert last_user_message([late]) is None


@pytest.mark.parametrize("together", [False, True])
def test_one_that_is_sent_again_keeps_its_mark(*, together: bool) -> None:
    late, again = steering(HumanMessage("late", id="l")), HumanMessage("late, once more", id="l")
    given = [HumanMessage("question", id="q"), late, AIMessage("answer", id="a")]
    writes = [[*given, again]] if together else [given, [again]]
    merged = merge_messages([], writes)
    assert [message.id for message in merged] == ["q", "l", "a"]
    assert is_steering(merged[1])
    assert merged[1].content == "late, once more"


def test_the_mark_goes_on_and_off_and_leaves_the_rest() -> None:
    message = HumanMessage("x", additional_kwargs={"turnflow": {"pinned": True}, "other": 1})
    marked = steering(message)
    assert marked.additional_kwargs == {"turnflow": {"pinned": True, "steering": True}, "other": 1}
    assert steering(marked) is marked
    assert steering(marked, on=False) == message
    assert message.additional_kwargs["turnflow"] == {"pinned": True}


def test_an_item_is_the_message_itself_where_nothing_is_to_be_changed() -> None:
    message = HumanMessage("x", id="a")
    assert as_item(message) is message
