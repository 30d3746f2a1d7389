"""What stands behind a summary whatever the summariser wrote."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from tests.nodes.fold_checkpoint.fold_stage import Quarter, a_round
from turnflow.nodes.fold_checkpoint.kept_words import KeptWording, open_todos, user_words

FUZZ = settings(max_examples=int(os.environ.get("TURNFLOW_FUZZ_EXAMPLES", "200")), deadline=None)
COUNTER = Quarter()
WORDING = KeptWording(words="W:\n{words}", todos="T:\n{todos}")


def said(*texts: str) -> list[AnyMessage]:
    messages: list[AnyMessage] = []
    for n, text in enumerate(texts):
        messages += [HumanMessage(content=text, id=f"u{n}"), AIMessage(content="Fine.", id=f"a{n}")]
    return messages


def test_the_last_few_messages_stand_word_for_word() -> None:
    assert user_words(said("one", "two", "three\nlines", "four"), 100, COUNTER, WORDING) == (
        "W:\n- two\n- three lines\n- four"
    )


def test_a_long_message_keeps_head_and_tail() -> None:
    words = user_words(said("Begin " + "x" * 2000 + " the end."), 1000, COUNTER, WORDING)
    assert words.startswith("W:\n- Begin xxx")
    assert words.endswith("xxx the end.")
    assert len(words) < 420


def test_where_room_is_scarce_the_newest_message_stays() -> None:
    words = user_words(said("old " * 30, "new " * 30), 40, COUNTER, WORDING)
    assert "new" in words
    assert "old" not in words


def test_answers_to_questions_are_the_users_words_too() -> None:
    messages = said("old", "one", "two", "three")
    messages[4:4] = a_round(7, "Which? → the green one", tool="ask_user")
    assert user_words(messages, 200, COUNTER, WORDING) == (
        "W:\n- one\n- page 7 Which? → the green one\n- two\n- three"
    )


@FUZZ
@given(st.lists(st.text(max_size=900), max_size=6), st.integers(0, 300))
def test_the_words_keep_to_their_room(texts: list[str], room: int) -> None:
    assert COUNTER.text(user_words(said(*texts), room, COUNTER, WORDING)) <= max(room, 0)


def test_open_todos_are_listed_and_done_ones_are_not() -> None:
    todos = {
        "1": {"text": "Book the\nflight", "done": False},
        "2": {"text": "Pay", "done": True},
        "3": {"text": "Pack"},
        "4": "broken",
        "5": {"text": 7, "done": False},
    }
    assert open_todos({"vars": {"todos": todos}}, WORDING) == "T:\n- Book the flight\n- Pack"
    assert open_todos({"vars": {"todos": {}}}, WORDING) == ""
    assert open_todos(None, WORDING) == ""
