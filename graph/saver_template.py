"""What facts look like: bytes that packs are compressed with (docs/archive.md)."""

from __future__ import annotations

import struct
from typing import Any

_USAGE = {"requests": 1, "input": 0, "output": 0, "cached": 0, "reasoning": 0}

_PLACE = {"turn_id": "turn-", "round": 1, "time": 0.5}

_RANGES = [
    {"reason": reason, "first_id": "", "last_id": "turn-", "count": 3, "tokens": 0}
    for reason in ("summarised", "recent", "protected", "current")
]

_SEGMENTS = ("system", "tools", "directives", "summary", "recalled", "contributions", "history", "turn")

_MANIFEST = {
    "fits": True,
    "window": 128000,
    "usable": 127744,
    "max_output": None,
    "fill": 0.05,
    "tokens": 6688,
    "segments": dict.fromkeys(_SEGMENTS, 0),
    "ranges": _RANGES,
    "recalled": [{"key": "turn-", "tokens": 0}],
    "contributions": [],
    "tools": ["ask_user"],
    "tools_hash": "",
    "directives": [],
    "protocol": "native",
    "behaviour": "chat/1",
    "prompt_version": "4",
    "prompt_hash": "",
}

_OWN = {"turnflow": {"raw": "", "thinking": "", "label": None}}

_CALL = {"name": "", "args": {}, "id": "", "type": "tool_call"}

_OUTCOME = {
    "turn_id": "turn-",
    "status": "finished",
    "stop_reason": "stop",
    "rounds": 3,
    "tool_calls": 2,
    "usage": _USAGE,
    "degradations": [],
    "sources": [],
    "partial": False,
    "error": None,
}

_ANCHOR = {"through_id": "", "position": 0, "text": ""}

_FOLDED = {"positions": [], "through_id": "", "messages": 0, "tokens_before": 0, "tokens_after": 0}

_FACTS: list[dict[str, Any]] = [
    {"type": "folded", **_PLACE, "reason": "memory", "failed": False, **_FOLDED},
    {"type": "summariser.replied", **_PLACE, "text": "", "failed": False, "usage": _USAGE},
    {"type": "summary", **_PLACE, "summary": {"failures": 0, "folds": [], "anchor": _ANCHOR}},
    {"type": "turn.started", **_PLACE, "input_id": "", "setup": ""},
    {
        "type": "messages",
        **_PLACE,
        "after": "turn-",
        "messages": [{"type": "human", "content": "", "id": ""}],
    },
    {"type": "session", **_PLACE, "session": {"meta": {"last_active": 0.5}}},
    {"type": "context.assembled", **_PLACE, "manifest": _MANIFEST},
    {
        "type": "tool.call",
        **_PLACE,
        "tool_call_id": "",
        "name": "",
        "permission": "allow",
        "policy": "default",
    },
    {
        "type": "messages",
        **_PLACE,
        "messages": [
            {"type": "ai", "content": "", "additional_kwargs": _OWN, "id": "turn-", "tool_calls": [_CALL]}
        ],
    },
    {"type": "tool.started", **_PLACE, "tool_call_id": "", "name": ""},
    {"type": "tool.result", **_PLACE, "duration": 0.001, "tool_call_id": "", "name": "", "status": "ok"},
    {
        "type": "messages",
        **_PLACE,
        "messages": [
            {"type": "tool", "content": "", "id": "", "tool_call_id": "", "name": "", "status": "success"}
        ],
    },
    {"type": "round.ended", **_PLACE, "text": "narration"},
    {"type": "round.started", **_PLACE, "phase": "explore"},
    {
        "type": "model.replied",
        **_PLACE,
        "message_id": "turn-",
        "raw": "",
        "reasoning": "",
        "calls": [{"id": "", "name": "", "arguments": '{"'}],
        "finish_reason": "stop",
        "usage": _USAGE,
        "duration": 0.001,
    },
    {"type": "decision", **_PLACE, "kind": "tool", "key": "", "usage": _USAGE},
    {"type": "decision", **_PLACE, "kind": "terminal", "key": "stop", "usage": _USAGE, "label": ""},
    {"type": "round.ended", **_PLACE, "text": "finish"},
    {"type": "turn.ended", **_PLACE, "outcome": _OUTCOME, "answer": ""},
]
"""A fact of each common type, its texts left out."""


def _written(value: Any) -> bytes:
    """A value in msgpack, written here so that the bytes are the same whatever else changes."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, int):
        return bytes([value]) if value < 0x80 else b"\xce" + struct.pack(">I", value)  # noqa: PLR2004
    if isinstance(value, str):
        text = value.encode()
        return bytes([0xA0 + len(text)]) + text
    if isinstance(value, list):
        return bytes([0x90 + len(value)]) + b"".join(map(_written, value))
    head = bytes([0x80 + len(value)]) if len(value) < 0x10 else b"\xde" + struct.pack(">H", len(value))  # noqa: PLR2004
    return head + b"".join(_written(part) for item in value.items() for part in item)


TEMPLATE = b"".join(b"\x92\xa7msgpack\xc5\x01\x00" + _written(fact) for fact in _FACTS)
"""The facts one after the other. Packs cannot be read with other bytes: what is here must never change."""
