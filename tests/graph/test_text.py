"""Text with halves of surrogate pairs becomes text that can be stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnflow.graph.text import SurrogateJoiner, storable

ANY = st.text(st.characters(codec=None) | st.sampled_from(["\ud83d", "\ude00"]))


def test_halves_are_joined_or_replaced() -> None:
    assert storable("a\ud83d\ude00b") == "a😀b"
    assert storable("a\ud83db\ude00") == "a\ufffdb\ufffd"
    assert storable("plain é 😀") == "plain é 😀"


@given(st.lists(ANY))
def test_any_cut_gives_the_same_text(parts: list[str]) -> None:
    joiner = SurrogateJoiner()
    text = "".join([*map(joiner.feed, parts), joiner.close()])
    assert text == storable("".join(parts))
    assert text.encode("utf-8").decode("utf-8") == text
