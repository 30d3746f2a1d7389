"""What text and media take in tokens, as far as it can be told without a vocabulary (docs/tokens.md)."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from turnflow.graph.content import request_block

_CONTINUATION = bytes(range(0x80, 0xC0))

# Thousandths of a token for each byte of a kind; beyond ASCII, for each character by its first byte.
_KINDS: tuple[tuple[bytes, int], ...] = (
    (string.ascii_lowercase.encode(), 245),
    (b" ", 25),
    (string.ascii_uppercase.encode(), 450),
    (string.digits.encode(), 650),
    (b"\n", 750),
    (b"\t\r\x0b\x0c", 300),
    (string.punctuation.encode(), 650),
)
_WIDE_KINDS: tuple[tuple[bytes, int], ...] = (
    (_CONTINUATION, 0),
    (bytes(range(0xE3, 0xEE)) + b"\xef", 1000),  # kana, ideographs, hangul, full-width forms
    (bytes(range(0xC2, 0xC6)), 750),  # Latin with marks
    (b"\xce\xcf\xd0\xd1\xd2\xd3", 500),  # Greek, Cyrillic
    (b"\xe2", 1000),  # typographic marks, arrows, mathematics
    (bytes(range(0xF0, 0xF5)), 2000),  # emoji, rare ideographs
)
_OTHER = 1000
"""Hebrew, Arabic, the scripts of India and South-East Asia, and all else."""

_DENSE_FROM = 200
_DENSE_FACTOR = 1.7
"""Base64, hexadecimal numbers and keys: letters and digits without words."""

_IMAGE = {"low": 85}
_IMAGE_TOKENS = 1105
"""Six tiles of 512 pixels, as most images take at most."""
_AUDIO_BYTES_PER_TOKEN = {"wav": 4800, "pcm16": 4800}
_AUDIO_BYTES = 1600
"""Ten tokens a second, at 128 kilobits a second."""
_TEXT_FILE_BYTES = 4
_FILE_BYTES = 40
"""A PDF of a megabyte is some twenty pages, with text and picture of each."""
_UNKNOWN_MEDIA = 2000
"""What stands elsewhere under an id, and what nothing is known about."""
_LEAST_MEDIA = 50


def text_tokens(text: str) -> int:
    """Tokens of a text, estimated: about what a byte-pair vocabulary of 100,000 entries would take."""
    is_ascii = text.isascii()
    rest = text.encode("utf-8", "surrogatepass")
    size, weight, letters = len(rest), 0, 0
    for members, each in _KINDS if is_ascii else (*_WIDE_KINDS[:2], *_KINDS, *_WIDE_KINDS[2:]):
        if not rest:
            break
        left = rest.translate(None, members)
        weight += each * (len(rest) - len(left))
        if each in (245, 450, 650) and members != _KINDS[-1][0]:
            letters += len(rest) - len(left)
        rest = left
    weight += _OTHER * len(rest)
    if is_ascii and size >= _DENSE_FROM and letters > 0.95 * size:
        weight = int(weight * _DENSE_FACTOR)
    return -(-weight // 1000)


def media_tokens(block: Mapping[str, Any]) -> int:
    """Tokens of an image, a sound or a file, by its kind and size; its data are never counted as text."""
    sent = request_block(dict(block))
    if sent is None:
        return _UNKNOWN_MEDIA
    kind = sent["type"]
    given = sent[kind]
    if kind == "image_url":
        return _IMAGE.get(given.get("detail", ""), _IMAGE_TOKENS)
    if kind == "input_audio":
        per_token = _AUDIO_BYTES_PER_TOKEN.get(given["format"], _AUDIO_BYTES)
        return max(_LEAST_MEDIA, _decoded(given["data"]) // per_token)
    data = given.get("file_data")
    if not isinstance(data, str):
        return _UNKNOWN_MEDIA
    per_token = _TEXT_FILE_BYTES if data.startswith("data:text/") else _FILE_BYTES
    return max(_LEAST_MEDIA, _decoded(data) // per_token)


def _decoded(base64_text: str) -> int:
    """Bytes of what is written in base64."""
    return len(base64_text) * 3 // 4
