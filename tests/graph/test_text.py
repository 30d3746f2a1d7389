"""Text with halves of surrogate pairs becomes text that can be stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnflow.graph.text import SurrogateJoiner, storable, without_credentials

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


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:pw@h.example:8/v1", "https://h.example:8/v1"),
        ("me:pw@h.example/v1", "h.example/v1"),
        ("https://h.example/v1?api_key=x7&a=b", "https://h.example/v1?a=b"),
        ("https://h.example/v1?key=x7", "https://h.example/v1"),
        ("https://h.example?%61pi-key=x7;a=b&token=y", "https://h.example?a=b"),
        ("https://h.example/v1?sk-abcdefgh123", "https://h.example/v1"),
        ("https://h.example/a?x=sk-abcdefgh123&y=1#token=3", "https://h.example/a?y=1"),
        ("https://h.example/a?sig=3&api-version=2024-05-01", "https://h.example/a?api-version=2024-05-01"),
        ("https://h.example/a?who=x@b", "https://h.example/a?who=x@b"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("https://h.example/users/@me", "https://h.example/users/@me"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
    assert without_credentials(shown) == shown


@given(st.text())
def test_any_text_is_an_address_or_stays_a_text(text: str) -> None:
    assert len(without_credentials(text)) <= len(text)
