"""What stands behind a summary whatever the summariser wrote: the user's own words, and open todos. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from turnflow.graph.content import iter_text
from turnflow.graph.tokens import TokenCounter
from turnflow.graph.tool_names import ASK_USER
from turnflow.graph.transcript import is_input

TODOS = "todos"
"""Namespace of the session's variables that holds todos: `{id: {"text", "done"}}`."""

_TURNS = 3
"""The user's words of so many turns are kept."""
_WORDS, _LEAST_WORDS = 400, 40
"""Characters of one message that are kept, and how few of them are still worth it."""
_TODOS, _TODO = 50, 200
"""Todos, and characters of each."""
_GAP = " … "


@dataclass(frozen=True)
class KeptWording:
    """The texts around what is kept, with their fields.

    Attributes:
        words: With `{words}`.
        word: One message, with `{text}`.
        todos: With `{todos}`.
        todo: One todo, with `{text}`.
    """

    words: str = "What the user said there, in their own words:\n{words}"
    word: str = "- {text}"
    todos: str = "Still open:\n{todos}"
    todo: str = "- {text}"


def user_words(messages: Sequence[AnyMessage], room: int, counter: TokenCounter, wording: KeptWording) -> str:
    """What the user said and answered in the last few of some turns, word for word, head and tail of each.

    Args:
        messages: The messages of the turns.
        room: Tokens; the newest message comes first in what they are used for.
        counter: Counts tokens.
        wording: The texts around it.
    """
    kept: list[str] = []
    left = room - counter.text(wording.words.format(words=""))
    for text in _said_last(messages):
        limit = _WORDS
        line = wording.word.format(text=_ends(text, limit))
        while counter.text(line) + 1 > left and limit >= 2 * _LEAST_WORDS:
            limit //= 2
            line = wording.word.format(text=_ends(text, limit))
        left -= counter.text(line) + 1
        if left < 0:
            break
        kept.append(line)
    return wording.words.format(words="\n".join(reversed(kept))) if kept else ""


def open_todos(session: Mapping[str, Any] | None, wording: KeptWording) -> str:
    """The todos among the session's variables that are not done; '' if there are none."""
    todos = ((session or {}).get("vars") or {}).get(TODOS)
    if not isinstance(todos, Mapping):
        return ""
    texts = [
        _ends(" ".join(todo["text"].split()), _TODO)
        for todo in todos.values()
        if isinstance(todo, Mapping) and not todo.get("done") and isinstance(todo.get("text"), str)
    ]
    lines = [wording.todo.format(text=text) for text in texts if text][:_TODOS]
    return wording.todos.format(todos="\n".join(lines)) if lines else ""


def _said_last(messages: Sequence[AnyMessage]) -> Iterator[str]:
    """The user's texts in the last turns, each in one line, newest first."""
    turns = 0
    for message in reversed(messages):
        is_answer = isinstance(message, ToolMessage) and message.name == ASK_USER
        if not (is_answer or isinstance(message, HumanMessage)):
            continue
        if text := " ".join("".join(iter_text(message.content)).split()):
            yield text
        turns += is_input(message)
        if turns == _TURNS:
            return


def _ends(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}{_GAP}{text[len(text) - (limit - head) :]}"
