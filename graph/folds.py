"""Folds: ranges of the transcript that a summary stands for in what the model sees (docs/folding.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NotRequired

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict


class Fold(TypedDict):
    """One fold, as it stands under `folds` in the `summary` channel. Nothing is taken from the transcript."""

    after_id: str
    """Id of the message behind which the summary stands."""
    message_ids: list[str]
    """Ids of the messages that it stands for."""
    texts: list[str]
    """The summaries, oldest first. Untrusted: tools and models wrote them."""
    written: NotRequired[int]
    """How many characters of the first text are a model's summary; what follows in it is ours. Left out where
    it is a tool's checkpoint."""


class Anchor(TypedDict):
    """What stands for the beginning of the conversation, under `anchor` in the `summary` channel."""

    through_id: str
    """Id of the user message that begins the last turn that is summed up."""
    position: int
    """The position of that turn in the conversation, from 0."""
    text: str
    """The summary. Untrusted: a model wrote it. '' where what it stands for was given up."""
    written: NotRequired[int]
    """How many characters of the text are the model's; what follows is ours."""


def effective_messages(
    messages: Sequence[BaseMessage], folds: Iterable[Any], template: str
) -> list[BaseMessage]:
    """The transcript as folds show it: each fold's summary, untrusted, in a user message.

    Args:
        messages: The transcript.
        folds: The folds.
        template: The summary's fence, with `{text}`.
    """
    by_anchor: dict[str, list[Any]] = {}
    hidden: set[str] = set()
    for fold in folds:
        by_anchor.setdefault(fold["after_id"], []).append(fold)
        hidden.update(fold["message_ids"])
    shown: list[BaseMessage] = []
    for message in messages:
        if message.id not in hidden:
            shown.append(message)
        for fold in by_anchor.get(message.id or "", ()):
            text = defused("\n\n".join(fold["texts"]), "checkpoint")
            shown.append(HumanMessage(content=template.format(text=text), id=f"fold:{fold['after_id']}"))
    return shown


def defused(text: str, *tags: str) -> str:
    """Untrusted text in which nothing opens or closes a fence of these names."""
    return _fence(tags).sub(r"<\\", text)


def written_part(text: str, written: int | None) -> str:
    """What a summariser wrote of a text that stands in a fold or an anchor; all of it where nothing says."""
    return text if written is None else text[:written]


@lru_cache(maxsize=32)
def _fence(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=\s*(?:/\s*)?(?:{'|'.join(map(re.escape, tags))}))", re.IGNORECASE)
