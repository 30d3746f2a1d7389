"""Reads a JSON decision while it arrives: the thought and the reply's text go out as they come."""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter
from typing import Literal

from turnflow.graph.json_decision import JsonDecision, is_alone, read_decision, shown_reply
from turnflow.graph.json_object import names_a_key
from turnflow.graph.json_scan import ObjectScanner

_Kind = Literal["thinking", "content"]
_Told = tuple[_Kind, str]

_REPLY_HEAD = '{"thought":"","action":"reply","action_input":"'
"""What stands before a reply's text; the rest of a text that was cut off is read behind it."""

_BLANKS = " \t\n\r"
_OBJECT_HEAD = re.compile(r"(?:```[A-Za-z0-9]{0,12}[ \t\r\n]{0,8})?\{")
_HALF_HEAD = re.compile(r"`{0,2}|```[A-Za-z0-9]{0,12}[ \t\r\n]{0,8}")


class JsonReader:
    """Tells the thought and the text of a decision, in any cut.

    The thought goes out while it arrives. The text does if the thought and the action came before it; in any
    other order, and where the object leaves JSON's grammar, what is left goes out at the close. What went out
    is never contradicted: the decision begins with it.

    Args:
        inside_text: The text goes on with a reply that was cut off inside its text. An object is read as a
            fresh decision, and anything else as the rest of the text, up to its quote.
    """

    def __init__(self, *, inside_text: bool = False) -> None:
        self._scanner = ObjectScanner()
        self._raw: list[str] = []
        self._thinking: list[str] = []
        self._content: list[str] = []
        self._streams: bool | None = None  # whether the text goes out while it arrives, once it has begun
        self._begins_inside = self._is_undecided = inside_text
        self._is_rest = False
        self._blanks: list[str] = []  # before the rest of a text, or what may be one
        self._head = ""
        self._decision: JsonDecision | None = None

    @property
    def in_object(self) -> bool:
        """Whether an object, or the rest of its text, has begun and has not ended."""
        return self._scanner.begun and not self._scanner.whole

    @property
    def decision(self) -> JsonDecision:
        """What the reply asks for. `text` and `thought` are what was given out.

        Raises:
            RuntimeError: The reply is still being read.
        """
        if self._decision is None:
            raise RuntimeError("the decision is still being read; call close() first")
        return self._decision

    def feed(self, text: str) -> list[_Told]:
        """Take the next text outside thinking.

        Raises:
            RuntimeError: The reader is closed.
        """
        if self._decision is not None:
            raise RuntimeError("the reader is closed")
        self._raw.append(text)
        return self._scan(self._behind_head(text) if self._is_undecided else text)

    def close(self) -> list[_Told]:
        """Take the end of the reply; gives what was held back. A second call gives nothing."""
        if self._decision is not None:
            return []
        told = self._scan(self._as_rest()) if self._is_undecided else []
        thought, text = "".join(self._thinking), "".join(self._content)
        self._decision = decision = self._read(thought, text)
        told += self._tell("thinking", decision["thought"][len(thought) :])
        told += self._tell("content", decision["text"][len(text) :])
        return _merged(told)

    def _scan(self, text: str) -> list[_Told]:
        told: list[_Told] = []
        for key, piece in self._scanner.feed(text):
            if key == "thought":
                told += self._tell("thinking", piece)
            elif key == "action_input" and self._may_stream():
                told += self._tell("content", piece)
        return _merged(told)

    def _may_stream(self) -> bool:
        """Whether the thought and the action, which has to be a reply, stand before the text."""
        if self._streams is None:
            thought, action = (self._scanner.members.get(key) for key in ("thought", "action"))
            is_told = thought is not None and thought.kind == "text"
            self._streams = is_told and action is not None and action.text.strip().lower() == "reply"
        return self._streams

    def _tell(self, kind: _Kind, text: str) -> list[_Told]:
        (self._thinking if kind == "thinking" else self._content).append(text)
        return [(kind, text)] if text else []

    def _read(self, thought: str, text: str) -> JsonDecision:
        """The decision, which begins with the thought and the text that were given out."""
        raw = "".join(self._raw)
        decision = read_decision(_REPLY_HEAD + raw if self._is_rest else raw)
        if self._begins_inside and not self._is_rest and _is_text(decision, raw):
            self._is_rest = True
            decision = read_decision(_REPLY_HEAD + raw)
        if not decision["thought"].startswith(thought) or text:
            decision["thought"] = thought
        if (text or self._is_rest) and not (decision["text"] and decision["text"].startswith(text)):
            decision = shown_reply(thought, text)
        if self._is_rest:
            decision["violation"] = decision["problem"] = ""
        return decision

    def _behind_head(self, text: str) -> str:
        """What the scanner reads of a text that goes on, once it is known what begins."""
        if not self._head:
            first = len(text) - len(text.lstrip(_BLANKS))
            self._blanks.append(text[:first])
            text = text[first:]
        self._head += text
        if _HALF_HEAD.fullmatch(self._head):
            return ""
        if not _OBJECT_HEAD.match(self._head):
            return self._as_rest()
        self._is_undecided = False
        return self._head

    def _as_rest(self) -> str:
        self._is_undecided = False
        self._is_rest = True
        return "".join((_REPLY_HEAD, *self._blanks, self._head))


def _is_text(decision: JsonDecision, raw: str) -> bool:
    """Whether an object with which a text goes on is part of the text, which may speak of decisions."""
    if decision["violation"]:
        return not names_a_key(raw)
    return decision["action"] != "reply" and not is_alone(raw)


def _merged(told: list[_Told]) -> list[_Told]:
    """The same with neighbours of one kind made one."""
    return [(kind, "".join(text for _, text in same)) for kind, same in groupby(told, key=itemgetter(0))]
