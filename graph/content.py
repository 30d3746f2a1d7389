"""Message content as every provider takes it: text, or a list of known blocks with something in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeGuard

from turnflow.graph.text import storable

Content = str | list[Any]

MEDIA = ("image_url", "image", "input_audio", "audio", "file", "video")
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


def is_block(value: Any) -> bool:
    """Whether a value is a block that a result may hold: text, or media that a request can carry."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "text":
        return isinstance(value.get("text"), str)
    return request_block(value) is not None


def is_content(value: Any) -> bool:
    """Whether a value is a list of blocks that a result may hold, at least one, with or without texts."""
    if not isinstance(value, list | tuple):
        return False
    has_block = False
    for item in value:
        if isinstance(item, str):
            continue
        if not is_block(item):
            return False
        has_block = True
    return has_block


def request_block(block: dict[str, Any]) -> dict[str, Any] | None:
    """A media block as OpenAI's chat completions take it: `image_url`, `input_audio` or `file`.

    Takes those, LangChain's own (`image`, `audio` and `file` with `base64` or `data`, images with a `url`,
    files with a `file_id`) and Anthropic's images. None where the block carries nothing, or what cannot be
    sent: a video, or the address of a file or of a sound. Keys that are not known are left out.
    """
    kind = block.get("type")
    if kind in ("image_url", "image"):
        return _image(block)
    if kind in ("input_audio", "audio"):
        return _audio(block)
    return _file(block) if kind == "file" else None


def _image(block: dict[str, Any]) -> dict[str, Any] | None:
    given = block.get("image_url")
    if block["type"] == "image":
        source = block.get("source")
        given = {"url": _url(block) or _data_url(block) or _source_url(source)}
    if not isinstance(given, dict) or not (url := _url(given)):
        return None
    image = {"url": url}
    if given.get("detail") in ("auto", "low", "high"):
        image["detail"] = given["detail"]
    return {"type": "image_url", "image_url": image}


def _audio(block: dict[str, Any]) -> dict[str, Any] | None:
    given = block.get("input_audio")
    if block["type"] == "audio":
        kind = block.get("mime_type")
        given = {"data": _data(block), "format": kind.rpartition("/")[2] if _is_text(kind) else None}
    if not isinstance(given, dict) or not (_is_text(given.get("data")) and _is_text(given.get("format"))):
        return None
    return {"type": "input_audio", "input_audio": {"data": given["data"], "format": given["format"]}}


def _file(block: dict[str, Any]) -> dict[str, Any] | None:
    given = block.get("file")
    if given is None:
        given = {
            "file_id": block.get("file_id"),
            "file_data": _data_url(block),
            "filename": _file_name(block),
        }
    if not isinstance(given, dict):
        return None
    if _is_text(given.get("file_id")):
        return {"type": "file", "file": {"file_id": given["file_id"]}}
    if not _is_text(given.get("file_data")):
        return None
    name = given.get("filename")
    return {
        "type": "file",
        "file": {"file_data": given["file_data"], "filename": name if _is_text(name) else "file"},
    }


def _file_name(block: dict[str, Any]) -> Any:
    beside = (block, block.get("extras"), block.get("metadata"))
    return next(
        (name for fields in beside if isinstance(fields, dict) and (name := fields.get("filename"))), None
    )


def _source_url(source: Any) -> str | None:
    """Where Anthropic's block has its image."""
    if not isinstance(source, dict):
        return None
    return _url(source) or _data_url({"mime_type": source.get("media_type"), "data": source.get("data")})


def _data_url(block: dict[str, Any]) -> str | None:
    data, kind = _data(block), block.get("mime_type")
    return f"data:{kind};base64,{data}" if data and _is_text(kind) else None


def _data(block: dict[str, Any]) -> str | None:
    return next((data for key in ("base64", "data") if _is_text(data := block.get(key))), None)


def _url(block: dict[str, Any]) -> str | None:
    url = block.get("url")
    return url if _is_text(url) else None


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


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
