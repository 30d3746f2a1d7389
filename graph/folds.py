"""Folds: ranges of the transcript that a summary stands for in what the model sees (docs/folding.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict

_FENCE = re.compile(r"<(?=\s*/?\s*checkpoint)", re.IGNORECASE)
"""What would close the fence from inside, or open another: a summary is untrusted."""


class Fold(TypedDict):
    """One fold, as it stands under `folds` in the `summary` channel. Nothing is taken from the transcript."""

    after_id: str
    """Id of the message behind which the summary stands."""
    message_ids: list[str]
    """Ids of the messages that it stands for."""
    texts: list[str]
    """The summaries, oldest first."""


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
            text = _FENCE.sub("<\\\\", "\n\n".join(fold["texts"]))
            shown.append(HumanMessage(content=template.format(text=text), id=f"fold:{fold['after_id']}"))
    return shown
