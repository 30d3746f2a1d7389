"""Folding by a tool's checkpoint: which messages it stands for (docs/folding.md). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from turnflow.graph.folds import Fold
from turnflow.graph.tool_names import ASK_USER


def fold_rounds(
    own: Sequence[AnyMessage], input_id: str, batch_id: str, texts: Sequence[str], folds: Iterable[Any]
) -> list[Any]:
    """The folds with the turn's closed rounds before a batch folded under its checkpoint.

    The batch itself stays, its unread results included, and so does each round in which the user answered.
    An earlier checkpoint of the turn is taken in, its text kept in front.

    Args:
        own: The turn's messages, behind its input.
        input_id: Id of the turn's input message.
        batch_id: Id of the assistant message whose results hold the checkpoint.
        texts: The checkpoint's summaries.
        folds: The folds so far.
    """
    others = [fold for fold in folds if fold["after_id"] != input_id]
    earlier = next((fold for fold in folds if fold["after_id"] == input_id), None)
    fold: Fold = {
        "after_id": input_id,
        "message_ids": [m.id for m in _foldable(own, batch_id) if m.id],
        "texts": [*(earlier["texts"] if earlier else ()), *texts],
    }
    return [*others, fold]


def _foldable(own: Sequence[AnyMessage], batch_id: str) -> list[AnyMessage]:
    foldable: list[AnyMessage] = []
    for group in _rounds(own):
        if group[0].id == batch_id:
            break
        if not any(isinstance(m, ToolMessage) and m.name == ASK_USER for m in group):
            foldable.extend(group)
    return foldable


def _rounds(own: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """Each assistant message with the results behind it."""
    groups: list[list[AnyMessage]] = []
    for message in own:
        if isinstance(message, AIMessage) or not groups:
            groups.append([message])
        else:
            groups[-1].append(message)
    return groups
