"""Arguments of a call that are too long to be sent back whole: long texts in them are cut in the middle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


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
    texts = sorted(len(value) for value in args.values() if isinstance(value, str))
    fixed = len(whole) - sum(texts)
    if fixed > kept // 2:
        in_one = {"…": middle_out(whole, kept, template)}
        each = _cut_texts(args, texts, fixed, template) if 2 * fixed < len(whole) else args
        return min(each, in_one, key=lambda shown: len(as_json(shown)))
    return _cut_texts(args, texts, kept - fixed, template)


def _cut_texts(args: dict[str, Any], sizes: Sequence[int], room: int, template: str) -> dict[str, Any]:
    """The arguments, their texts, of these sizes from small to large, cut to this room together."""
    left, most = room, 0
    for number, size in enumerate(sizes):
        most = max(most, left // (len(sizes) - number))
        left -= min(size, most)
    return {
        key: middle_out(value, most, template) if isinstance(value, str) else value
        for key, value in args.items()
    }


def middle_out(text: str, kept: int, template: str) -> str:
    """The text with so many characters kept, half of them at the head; itself where that saves nothing."""
    notice = template.format(cut=len(text) - kept, total=len(text))
    if kept + len(notice) >= len(text):
        return text
    return text[: (kept + 1) // 2] + notice + text[len(text) - kept // 2 :]


def as_json(value: Any) -> str:
    """The value as it is sent."""
    return json.dumps(value, ensure_ascii=False, default=str)
