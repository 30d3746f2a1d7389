"""Folding by a tool's checkpoint: which messages it stands for (docs/folding.md). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from turnflow.graph.folding import may_fold, rounds_of
from turnflow.graph.folds import Fold


def fold_rounds(
    own: Sequence[AnyMessage], input_id: str, batch_id: str, texts: Sequence[str], folds: Iterable[Any]
) -> list[Any]:
    """The folds with the turn's closed rounds before a batch folded under its checkpoint.

    The batch itself stays, its unread results included, and so does each round in which the user answered.
    An earlier fold of the turn is taken in, its texts kept in front.

    Args:
        own: The turn's messages, behind its input.
        input_id: Id of the turn's input message.
        batch_id: Id of the assistant message whose results hold the checkpoint.
        texts: The checkpoint's summaries.
        folds: The folds so far.
    """
    others = [fold for fold in folds if fold["after_id"] != input_id]
    earlier: Any = next((fold for fold in folds if fold["after_id"] == input_id), {})
    hidden = {*earlier.get("message_ids", ()), *(m.id for m in _foldable(own, batch_id))}
    fold: Fold = {
        "after_id": input_id,
        "message_ids": [m.id for m in own if m.id and m.id in hidden],
        "texts": [*earlier.get("texts", ()), *texts],
    }
    if "written" in earlier:
        fold["written"] = earlier["written"]
    return [*others, fold]


def _foldable(own: Sequence[AnyMessage], batch_id: str) -> list[AnyMessage]:
    foldable: list[AnyMessage] = []
    for group in rounds_of(own):
        if group[0].id == batch_id:
            break
        if may_fold(group):
            foldable.extend(group)
    return foldable
