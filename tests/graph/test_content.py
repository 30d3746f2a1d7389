"""Which blocks a result may hold, and how they go into a request."""

from __future__ import annotations

from typing import Any

import pytest

from turnflow.graph.content import clean_content, is_block, is_content, request_block

DATA = "data:image/png;base64,AA=="
IMAGE = {"type": "image_url", "image_url": {"url": DATA}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}


def file(**fields: str) -> dict[str, Any]:
    return {"type": "file", "file": fields}


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (IMAGE, IMAGE),
        (
            {"type": "image_url", "image_url": {"url": "u", "detail": "low", "more": 1}, "index": 0},
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
        ),
        ({"type": "image", "url": "u", "id": "x"}, {"type": "image_url", "image_url": {"url": "u"}}),
        ({"type": "image", "base64": "AA==", "mime_type": "image/png"}, IMAGE),
        ({"type": "image", "source_type": "base64", "data": "AA==", "mime_type": "image/png"}, IMAGE),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}, IMAGE),
        (
            {"type": "image", "source": {"type": "url", "url": "u"}},
            {"type": "image_url", "image_url": {"url": "u"}},
        ),
        (AUDIO, AUDIO),
        ({"type": "audio", "base64": "AA==", "mime_type": "audio/wav"}, AUDIO),
        ({"type": "audio", "source_type": "base64", "data": "AA==", "mime_type": "audio/wav"}, AUDIO),
        (file(file_id="f1"), file(file_id="f1")),
        (file(file_data="d"), file(file_data="d", filename="file")),
        ({"type": "file", "file_id": "f1"}, file(file_id="f1")),
        (
            {"type": "file", "base64": "AA==", "mime_type": "text/x", "extras": {"filename": "a.txt"}},
            file(file_data="data:text/x;base64,AA==", filename="a.txt"),
        ),
    ],
)
def test_media_go_into_a_request_in_one_form(block: dict[str, Any], sent: dict[str, Any]) -> None:
    assert request_block(block) == sent
    assert request_block(sent) == sent
    assert is_block(block)


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"type": ["image"]},
        {"type": "image"},
        {"type": "image", "base64": "AA=="},
        {"type": "image", "base64": b"AA", "mime_type": "image/png"},
        {"type": "image", "source": "x"},
        {"type": "image_url", "image_url": "u"},
        {"type": "image_url", "image_url": {"url": ""}},
        {"type": "audio", "url": "u"},
        {"type": "input_audio", "input_audio": {"data": "AA=="}},
        {"type": "file", "name": "a.txt", "size": 3},
        {"type": "file", "url": "u"},
        {"type": "file", "file": "a.txt"},
        {"type": "file", "file": {"filename": "a.txt"}},
        {"type": "video", "url": "u"},
        {"type": "text"},
        {"type": "json", "json": 1},
        "text",
        None,
    ],
)
def test_what_no_request_can_carry_is_no_block(block: Any) -> None:
    assert not is_block(block)
    assert not is_content([block])
    assert not (isinstance(block, dict) and request_block(block))


@pytest.mark.parametrize(
    ("value", "is_it"),
    [
        ([], False),
        (["a"], False),
        ("a", False),
        ([IMAGE], True),
        (("a", IMAGE), True),
        ([IMAGE, 1], False),
        ([{"type": "text", "text": ""}], True),
    ],
)
def test_content_holds_a_block(value: Any, *, is_it: bool) -> None:
    assert is_content(value) is is_it


def test_clean_content_takes_odd_types() -> None:
    assert clean_content([{"type": ["image"]}, {"type": "text", "text": "a"}]) == [
        {"type": "text", "text": "a"}
    ]
