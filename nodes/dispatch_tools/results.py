"""Renders what a tool gave into a bounded tool message (docs/results.md)."""

from __future__ import annotations

import base64
import functools
import logging
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from turnflow.graph import daemon
from turnflow.graph.cancel import CancelToken
from turnflow.graph.content import is_block, is_content, request_block
from turnflow.graph.session import checked_variables
from turnflow.graph.text import storable_copy
from turnflow.graph.tool_names import READ_RESULT
from turnflow.graph.tool_policy import ToolOutput
from turnflow.nodes.dispatch_tools.rendering import (
    FOREIGN,
    MAX_TEXT,
    clean,
    kind_name,
    kind_of,
    text_of,
    told,
)
from turnflow.nodes.dispatch_tools.tool_values import Returned
from turnflow.prompts import Prompts

logger = logging.getLogger("turnflow")

MAX_FAILURE = 2000
"""Characters of a failure's text."""

MAX_MEDIA = 20_000_000
"""Characters of all media of a result together, as a request carries them: base64, or addresses."""

MAX_MEDIA_BLOCKS = 50

_MAX_SOURCES = 10_000
_QUICK = 100_000
"""Characters of a text that is rendered on the spot."""


@dataclass(frozen=True)
class Rendered:
    """A result as the model reads it, and what the tool said beside it."""

    content: str | list[Any]
    ok: bool = True
    artifact: Any = None
    report: dict[str, Any] = field(default_factory=dict)
    """Fields of the call in the batch: `sources`, `checkpoint`, `terminate`, `load`, `unload`, `instructions`
    and `variables` of a `ToolOutput`, and `handle` where there is a `whole`."""
    whole: str | None = None
    """The whole text, where the content is not all of it and names a handle."""
    unkept: str | list[Any] = ""
    """The content that takes its place where the whole could not be kept; it names no handle."""

    def without_whole(self) -> Rendered:
        """The same, for want of a place to keep the whole."""
        report = {key: value for key, value in self.report.items() if key != "handle"}
        return replace(self, content=self.unkept, report=report, whole=None, unkept="")


def render(value: Any, *, max_chars: int, prompts: Prompts, handle: str | None = None) -> Rendered:
    """What the model reads of a tool's value; a value that says something impossible is a failure.

    Args:
        value: What the tool returned, of any type.
        max_chars: Characters of text in the content at most, the notice of what is left out included.
        prompts: The texts.
        handle: Under which the whole will be kept where it is longer; None where it cannot be kept.
    """
    try:
        return _render(value, max_chars, prompts, handle)
    except FOREIGN as error:  # a foreign value can raise anything when it is looked at
        return render_failure(error, prompts, max_chars=min(max_chars, MAX_FAILURE))


def _render(value: Any, max_chars: int, prompts: Prompts, handle: str | None) -> Rendered:
    artifact = None
    if isinstance(value, Returned):
        value, artifact = value.value, value.artifact
    if isinstance(value, ToolOutput):
        report = _report(value)
        # A terminating tool's content is the turn's answer: nobody cuts an answer.
        most = sys.maxsize if report["terminate"] else max_chars
        content = "" if value.content is None else value.content
        rendered = _bounded(content, most, prompts, handle)
        return replace(rendered, report={**report, **rendered.report})
    if isinstance(value, ToolMessage):
        rendered = _bounded(value.content, max_chars, prompts, handle)
        return replace(rendered, ok=value.status != "error", artifact=_storable(value.artifact))
    return replace(_bounded(value, max_chars, prompts, handle), artifact=_storable(artifact))


def _report(output: ToolOutput) -> dict[str, Any]:
    """What a tool says beside its content.

    Raises:
        TypeError: A field is of a type that it cannot be of; the text names it.
        ValueError: A variable is no plain JSON; the text names it.
    """
    if not isinstance(output.checkpoint, str | None):
        raise TypeError(f"ToolOutput.checkpoint is a text, not {kind_name(output.checkpoint)}")
    return {
        "sources": storable_copy(_listed("sources", output.sources)),
        "checkpoint": None if output.checkpoint is None else clean(output.checkpoint),
        "terminate": bool(output.terminate),
        "load": _names("load", output.load),
        "unload": _names("unload", output.unload),
        "instructions": _instructions(output.instructions),
        "variables": checked_variables(output.variables, "ToolOutput.variables"),
    }


def _instructions(given: Any) -> str | dict[str, str] | None:
    if given is None or isinstance(given, str):
        return None if given is None else clean(given)
    if not isinstance(given, Mapping) or not all(
        isinstance(part, str) for item in given.items() for part in item
    ):
        raise TypeError(f"ToolOutput.instructions is a text or a dict of texts, not {kind_name(given)}")
    return {clean(key): clean(text) for key, text in given.items()}


def _names(field_name: str, given: Any) -> list[str]:
    names = _listed(field_name, given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"ToolOutput.{field_name} is a list of tool names; {kind_name(name)} is no name")
    return [clean(name) for name in names]


def _listed(field_name: str, given: Any) -> list[Any]:
    if not isinstance(given, list | tuple | set | frozenset):
        raise TypeError(f"ToolOutput.{field_name} is a list, not {kind_name(given)}")
    if len(given) > _MAX_SOURCES:
        raise TypeError(f"ToolOutput.{field_name} is a list of at most {_MAX_SOURCES}, not of {len(given)}")
    return list(given)


def render_failure(error: BaseException, prompts: Prompts, *, max_chars: int = MAX_FAILURE) -> Rendered:
    """What the model reads of an exception: its type and its message, and those of what it is a group of."""
    message = _message(error) or prompts.text("result", "empty")
    text = prompts.text("result", "failed", type=kind_name(error), message=message)
    return replace(_bounded(text, max_chars, prompts, None), ok=False)


def _message(error: BaseException) -> str:
    try:
        message = str.__str__(str(error)).strip()
        inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        return "; ".join([message, *(f"{kind_name(one)}: {told(one)}" for one in inner[:3])])
    except FOREIGN:  # a foreign exception may not even have a text
        return ""


def _bounded(value: Any, max_chars: int, prompts: Prompts, handle: str | None) -> Rendered:
    """The content of a value, with its middle left out where there is too much text."""
    if isinstance(value, BaseException):
        return render_failure(value, prompts, max_chars=min(max_chars, MAX_FAILURE))
    blocks = _blocks(value, prompts)
    is_text = blocks is None
    if blocks is None:
        text = text_of(value, prompts)
        blocks = [_text_block(text)] if text and not text.isspace() else []
    if not blocks:
        return Rendered(prompts.text("result", "empty"))
    if sum(len(block["text"]) for block in blocks if block["type"] == "text") <= max_chars:
        return Rendered(_content(blocks, is_text=is_text))
    whole = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    unkept = _content(_shortened(blocks, len(whole), max_chars, prompts, None), is_text=is_text)
    if handle is None:
        return Rendered(unkept)
    content = _content(_shortened(blocks, len(whole), max_chars, prompts, handle), is_text=is_text)
    return Rendered(content, report={"handle": handle}, whole=whole, unkept=unkept)


def _content(blocks: list[dict[str, Any]], *, is_text: bool) -> str | list[Any]:
    return str(blocks[0]["text"]) if is_text else blocks


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _shortened(
    blocks: list[dict[str, Any]], total: int, max_chars: int, prompts: Prompts, handle: str | None
) -> list[dict[str, Any]]:
    """The blocks with the middle of their text left out, a notice in its place: head and tail say most.

    Args:
        blocks: Text and media; media are all kept.
        total: Characters of the whole text, a line break between one block and the next.
        max_chars: Characters of text that are kept at most, the notice included.
        prompts: The texts.
        handle: Named in the notice, if there is one.
    """
    room = max_chars - len(_notice(total, total, total, prompts, handle)) - 2
    head, tail = (room + 1) // 2, room // 2
    notice = f"\n{_notice(total - room, total, head, prompts, handle)}\n"
    if room < 0:  # no place for a notice
        head, tail, notice = max_chars, 0, ""
    kept: list[dict[str, Any]] = []
    at = 0
    for block in blocks:
        if block["type"] != "text":
            kept.append(block)
            continue
        text, start = block["text"], at
        at += len(text) + 1
        if start + len(text) <= head or start >= total - tail:
            kept.append(block)
            continue
        said = text[: max(0, head - start)] + notice + text[max(0, total - tail - start) :]
        notice = ""
        if said:
            kept.append(_text_block(said))
    return kept


def _notice(cut: int, total: int, offset: int, prompts: Prompts, handle: str | None) -> str:
    if handle is None:
        return prompts.text("result", "cut", cut=cut, total=total)
    return prompts.text(
        "result", "cut_kept", cut=cut, total=total, tool=READ_RESULT, handle=handle, offset=offset
    )


def _blocks(value: Any, prompts: Prompts) -> list[dict[str, Any]] | None:
    """The value as content blocks without blank ones, or None where it is nothing of the kind."""
    if isinstance(value, bytes | bytearray | memoryview):
        return _picture(memoryview(value))
    items = [value] if is_block(value) else value
    if not is_content(items):
        return None
    blocks: list[dict[str, Any]] = []
    text_left, media_left, media = MAX_TEXT, MAX_MEDIA, 0
    for item in items:
        sent = request_block(item) if isinstance(item, dict) else None
        if sent is not None:
            sent, size, kind = _measured(sent)
            media += 1
            media_left -= size
            if media_left < 0 or media > MAX_MEDIA_BLOCKS:
                sent = _text_block(prompts.text("result", "binary", size=size, kind=kind))
            blocks.append(sent)
        else:
            text = clean(item if isinstance(item, str) else item["text"])[: max(0, text_left)]
            text_left -= len(text)
            if text and not text.isspace():
                blocks.append(_text_block(text))
    return blocks


def _picture(data: memoryview) -> list[dict[str, Any]] | None:
    """The bytes of a picture as a block; None for other bytes, and for a picture that is too large."""
    raw = data.tobytes() if data.nbytes <= MAX_MEDIA // 4 * 3 - 100 else b""
    kind = kind_of(raw)
    if not kind.startswith("image/"):
        return None
    url = f"data:{kind};base64,{base64.b64encode(raw).decode()}"
    return [{"type": "image_url", "image_url": {"url": url}}]


def _measured(block: dict[str, Any]) -> tuple[dict[str, Any], int, str]:
    """A media block with text that can be stored, its size in characters and its kind."""
    kind = block["type"]
    fields = {key: clean(text) for key, text in block[kind].items()}
    return {"type": kind, kind: fields}, sum(map(len, fields.values())), kind


def _storable(artifact: Any) -> Any:
    """The artifact, or None where a checkpoint could not hold it."""
    if artifact is None:
        return None
    try:
        JsonPlusSerializer().dumps_typed(artifact)
    except FOREIGN:  # whatever a foreign object does when it is stored
        logger.warning("an artifact of type %s cannot be stored and is left out", kind_name(artifact))
        return None
    return artifact


class RenderResult:
    """Renders a value; waited for by a node's body, gives a `Rendered` and raises nothing.

    What could take long runs in a daemon thread: the event loop goes on, and a value that never comes to an
    end is given up.
    """

    def __init__(
        self,
        value: Any,
        *,
        max_chars: int,
        prompts: Prompts,
        handle: str | None = None,
        timeout: float,
        cancel: CancelToken | None = None,
    ) -> None:
        self._value = value
        self._render: Callable[[], Rendered] = functools.partial(
            render, value, max_chars=max_chars, prompts=prompts, handle=handle
        )
        self._prompts = prompts
        self._timeout = timeout
        self._cancel = cancel

    def call(self) -> Rendered:
        """Render it, blocking."""
        if _is_quick(self._value):
            return self._render()
        future = daemon.start(self._render)
        try:
            daemon.wait_done(future, timeout=self._timeout, cancel=self._cancel)
        except daemon.GivenUpError as error:
            return self._given_up(error)
        return self._result(future)

    async def acall(self) -> Rendered:
        """Render it, awaiting."""
        if _is_quick(self._value):
            return self._render()
        future = daemon.start(self._render)
        try:
            await daemon.await_done(future, timeout=self._timeout, cancel=self._cancel)
        except daemon.GivenUpError as error:
            return self._given_up(error)
        return self._result(future)

    def _result(self, future: Future[Rendered]) -> Rendered:
        error = future.exception()
        return future.result() if error is None else render_failure(error, self._prompts)

    def _given_up(self, error: daemon.GivenUpError) -> Rendered:
        if error.cancelled:
            return Rendered(self._prompts.text("result", "cancelled"), ok=False)
        return Rendered(self._prompts.text("result", "timeout", seconds=self._timeout), ok=False)


def _is_quick(value: Any) -> bool:
    """Whether rendering the value takes no time to speak of."""
    if type(value) is ToolMessage and value.artifact is None:
        value = value.content
    return type(value) is str and len(value) <= _QUICK
