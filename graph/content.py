"""Message content as every provider takes it: text, or a list of known blocks with something in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from turnflow.graph.text import storable

Content = str | list[Any]

MEDIA = frozenset({"image_url", "image", "input_audio", "audio", "file", "video"})
"""Types of blocks that carry something other than text."""


def iter_text(content: Content) -> Iterator[str]:
    """The text pieces of a message's content, blocks of other kinds passed over."""
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if isinstance(block, str):
            yield block
        elif block.get("type") == "text" and isinstance(text := block.get("text"), str):
            yield text


def clean_content(content: Content) -> Content:
    """The content without blank text, thoughts and unknown blocks; '' if nothing is left."""
    if isinstance(content, str):
        return storable(content) if content.strip() else ""
    kept: list[Any] = []
    for block in content:
        if _is_media(block):
            kept.append(block)
        elif (text := "".join(iter_text([block]))).strip():
            kept.append({"type": "text", "text": storable(text)})
    return kept or ""


def is_content(value: Any) -> bool:
    """Whether a value is a list of content blocks, at least one, each of a known type."""
    return isinstance(value, list) and bool(value) and all(_is_block(block) for block in value)


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    return _is_media(block) or (block.get("type") == "text" and isinstance(block.get("text"), str))


def _is_media(block: Any) -> bool:
    """Whether a block carries something other than text, and does carry it."""
    if not isinstance(block, dict) or block.get("type") not in MEDIA:
        return False
    return any(value for key, value in block.items() if key != "type")


def as_text(value: Any) -> str:
    """Any value as text: text as it is, nothing as '', else JSON where it can be JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def join_contents(contents: list[Content], separator: str) -> Content:
    """Contents of several messages as that of one."""
    if all(isinstance(content, str) for content in contents):
        return separator.join(str(content) for content in contents)
    blocks: list[Any] = []
    for content in contents:
        blocks.extend([{"type": "text", "text": content}] if isinstance(content, str) else content)
    return blocks
