"""The live text of one message: what is held, in which order it goes out, what is taken back."""

from __future__ import annotations

from typing import Any

import pytest

from turnflow.graph import events
from turnflow.graph.events import Emitter, LiveText

HOUR_MS = 3_600_000


class Shown:
    """What both streams were sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, str]] = []
        self.pushed: list[str] = []
        monkeypatch.setattr(events, "push_message", lambda message, **_: self.pushed.append(message.content))

    def live(self, interval_ms: int = 0, *, has_begun: bool = False) -> LiveText:
        return LiveText(Emitter(self._write, {}, []), "m1", interval_ms=interval_ms, has_begun=has_begun)

    def _write(self, event: dict[str, Any]) -> None:
        assert event["message_id"] == "m1"
        self.events.append((event["type"], event["text"]))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


@pytest.mark.parametrize("interval_ms", [0, HOUR_MS])
def test_taking_back_before_anything_was_shown_says_nothing(shown: Shown, interval_ms: int) -> None:
    live = shown.live(interval_ms)
    live.content(" \n")
    live.retract(" \n")
    live.flush()
    assert shown.events == []
    live.content("Hello")
    live.flush()
    assert shown.events == [("content.delta", "Hello")]
    assert shown.pushed == ["Hello"]


def test_blank_text_waits_for_the_first_word(shown: Shown) -> None:
    live = shown.live()
    live.content("\n")
    live.content(" ")
    live.content("Hello")
    live.content("\n")
    assert shown.events == [("content.delta", "\n Hello"), ("content.delta", "\n")]


def test_a_message_that_goes_on_shows_blank_text_at_once(shown: Shown) -> None:
    live = shown.live(has_begun=True)
    live.content("\n")
    live.retract("\n")
    assert shown.events == [("content.delta", "\n"), ("content.retract", "\n")]


def test_what_is_held_goes_out_in_the_order_in_which_it_came(shown: Shown) -> None:
    live = shown.live(HOUR_MS)
    live.thinking("one ")
    live.thinking("two ")
    live.thinking("three")
    live.content("four ")
    live.content("five")
    live.retract("five")
    live.thinking("six")
    live.content("seven")
    assert live.due_in()
    live.flush()
    assert live.due_in() is None
    assert shown.events == [
        ("thinking.delta", "one "),
        ("thinking.delta", "two three"),
        ("content.delta", "four five"),
        ("content.retract", "five"),
        ("thinking.delta", "six"),
        ("content.delta", "seven"),
    ]
    assert shown.pushed == ["four five", "seven"]


def test_a_tick_sends_only_what_is_due(shown: Shown) -> None:
    live = shown.live(HOUR_MS)
    live.content("one ")
    live.content("two")
    live.tick()
    assert shown.events == [("content.delta", "one ")]
