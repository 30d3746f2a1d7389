"""Breaking a response: where it stops, what is put into it, and how the connection ends. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from turnflow.apps.fake_provider.frames import Frame, event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnflow.apps.fake_provider.script import Fault

Ending = Literal["complete", "close", "reset", "hang", "trickle"]
"""How a response ends: rightly, by a closed, a reset or a held connection, or never."""

_SERVER_ERROR = {
    "message": "The server had an error while processing your request. Sorry about that!",
    "type": "server_error",
    "param": None,
    "code": None,
}
_BROKEN_JSON = b'data: {"id":"chatcmpl-fake","choices":[{"index":0,"del\n\n'


def break_stream(frames: list[Frame], fault: Fault | None) -> tuple[list[Frame], Ending]:
    """What is sent of an event stream, and how it ends.

    Args:
        frames: The whole stream.
        fault: What breaks and where; None: nothing does.
    """
    if fault is None:
        return frames, "complete"
    if fault.after_bytes is not None:
        return _first_bytes(frames, fault.after_bytes), _ending(fault)
    place = _place(frames, fault)
    if fault.kind == "malformed":
        return [*frames[:place], Frame("piece", _BROKEN_JSON), *frames[place:]], "complete"
    if fault.kind == "error":
        return [*frames[:place], Frame("piece", error_event(fault))], "complete"
    return frames[:place], _ending(fault)


def break_body(body: bytes, fault: Fault | None) -> tuple[bytes, Ending]:
    """What is sent of a body that does not stream, and how it ends.

    Such a body has no pieces: it breaks at `after_bytes`, before its first byte (`headers`) or in its middle.
    Of one that trickles nothing comes.
    """
    if fault is None:
        return body, "complete"
    if fault.kind == "error":
        return error_event(fault).removeprefix(b"data: ").rstrip(), "complete"
    middle = 0 if fault.after == "headers" or fault.kind == "trickle" else len(body) // 2
    return body[: middle if fault.after_bytes is None else fault.after_bytes], _ending(fault)


def error_event(fault: Fault) -> bytes:
    """The event that carries a fault's error object."""
    return event({"error": fault.error or _SERVER_ERROR})


def _ending(fault: Fault) -> Ending:
    endings: dict[str, Ending] = {
        "close": "close",
        "reset": "reset",
        "hang": "hang",
        "trickle": "trickle",
    }
    return endings.get(fault.kind, "complete")


def _place(frames: Sequence[Frame], fault: Fault) -> int:
    """The number of frames before the fault."""
    pieces = [place for place, frame in enumerate(frames) if frame.kind == "piece"]
    done = next((place for place, frame in enumerate(frames) if frame.kind == "done"), len(frames))
    finish = next((place + 1 for place, frame in enumerate(frames) if frame.kind == "finish"), None)
    spoken = [place + 1 for place, frame in enumerate(frames) if frame.kind in {"role", "piece"}]
    after_pieces = spoken[-1] if spoken else 0
    if fault.after in {"headers", "request"}:
        return 0
    if fault.after in {"end", "done"}:
        return done if fault.after == "end" else len(frames)
    if isinstance(fault.after, int):
        return pieces[fault.after] if fault.after < len(pieces) else after_pieces
    return after_pieces if finish is None else finish


def _first_bytes(frames: list[Frame], count: int) -> list[Frame]:
    kept = []
    for frame in frames:
        if count <= 0:
            break
        kept.append(replace(frame, data=frame.data[:count]))
        count -= len(frame.data)
    return kept
