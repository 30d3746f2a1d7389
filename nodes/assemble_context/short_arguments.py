"""Arguments of a call that are too long to be sent back whole: long texts in them are cut in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnflow.graph.tokens import as_json


def short_arguments(args: dict[str, Any], kept: int, template: str) -> dict[str, Any]:
    """Arguments in about so many characters; the same where they are no longer than that.

    Texts are cut to one length, with a notice in their middle. Where all else is too long by itself, one text
    stands for all of it, if that is shorter. Fewer characters never show more.

    Args:
        args: The arguments, as JSON values.
        kept: Characters of their JSON that stay.
        template: The notice, with `{cut}` and `{total}`.
    """
    whole = as_json(args)
    if len(whole) <= kept:
        return args
    fixed = len(whole) - sum(len(value) for value in args.values() if isinstance(value, str))
    if fixed > kept // 2:
        in_one = {"…": middle_out(whole, kept, template)}
        each = _cut_texts(args, fixed, template) if 2 * fixed < len(whole) else args
        return min(each, in_one, key=lambda shown: len(as_json(shown)))
    return _cut_texts(args, kept - fixed, template)


def _cut_texts(args: dict[str, Any], room: int, template: str) -> dict[str, Any]:
    """The arguments, their texts cut to this room together."""
    texts = {key: value for key, value in args.items() if isinstance(value, str)}
    most = max(shares([len(text) for text in texts.values()], room), default=0)
    return {**args, **{key: middle_out(text, most, template) for key, text in texts.items()}}


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much each may keep, so that all together keep the room: what small ones leave, large ones get."""
    most, left = 0, room
    for number, size in enumerate(sorted(sizes)):
        most = max(most, left // (len(sizes) - number))
        left -= min(size, most)
    return [min(size, most) for size in sizes]


def middle_out(text: str, kept: int, template: str) -> str:
    """The text with so many characters kept, half of them at the head; itself where that saves nothing."""
    notice = template.format(cut=len(text) - kept, total=len(text))
    if kept + len(notice) >= len(text):
        return text
    return text[: (kept + 1) // 2] + notice + text[len(text) - kept // 2 :]
