"""Where results are kept that are too long to be shown whole, each under a handle (docs/results.md)."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.store.base import BaseStore

from turnflow.graph.content import as_text
from turnflow.graph.flow import NodeRun
from turnflow.graph.langgraph_access import read_state, saver_of

logger = logging.getLogger("turnflow")

MAX_BYTES = 64_000_000
"""What results may take that are kept in the process alone, all together."""

_HANDLE = re.compile(r"r[0-9a-f]{10}")


def result_handle(batch_id: str, call_id: str) -> str:
    """The handle of a call's result: the same whenever the call is answered."""
    named = json.dumps([batch_id, call_id]).encode()
    return "r" + hashlib.sha256(named).hexdigest()[:10]


def is_handle(value: Any) -> bool:
    """Whether a value looks like a handle; a model may give anything."""
    return isinstance(value, str) and _HANDLE.fullmatch(value) is not None


class Shelf:
    """Keeps texts in this process, by session and handle; the least recently used go first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._bytes = 0

    def keep(self, session: str, handle: str, text: str) -> None:
        """Keep a text in place of one with the same handle.

        Raises:
            ValueError: The text alone is too large.
        """
        size = sys.getsizeof(text)
        if size > self._max_bytes:
            raise ValueError(f"a result of {size} bytes is too large to be kept in the process")
        with self._lock:
            self._take_out((session, handle))
            self._texts[session, handle] = text
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._take_out(next(iter(self._texts)))

    def find(self, session: str, handle: str) -> str | None:
        """The text, if it is still there."""
        with self._lock:
            text = self._texts.get((session, handle))
            if text is not None:
                self._texts.move_to_end((session, handle))
            return text

    def _take_out(self, key: tuple[str, str]) -> None:
        text = self._texts.pop(key, None)
        self._bytes -= 0 if text is None else sys.getsizeof(text)


_shelf = Shelf()


class _Place:
    """Where a run keeps its results: its saver if that can, else its store, else this process."""

    def __init__(self, run: NodeRun) -> None:
        saver = saver_of(run.config)
        self.saver = saver if hasattr(saver, "keep_result") and run.thread_id is not None else None
        self.store: BaseStore | None = run.runtime.store
        self.session = run.thread_id if run.thread_id is not None else _turn_session(run)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The session's own part of a store, whose labels may hold neither periods nor NUL."""
        session = self.session.replace("%", "%25").replace(".", "%2E").replace("\0", "%00")
        return ("turnflow", "results", session or "%")


def _turn_session(run: NodeRun) -> str:
    """The session of a turn that is not saved under a thread."""
    turn = read_state(run.config).get("turn") or {}
    return str(turn.get("session_id", ""))


class KeepResult:
    """Keeps a whole result; waited for by a node's body, gives whether it is kept, and raises nothing."""

    def __init__(self, run: NodeRun, handle: str, text: str) -> None:
        self._run = run
        self._handle = handle
        self._text = text

    def call(self) -> bool:
        """Keep it, blocking."""
        try:
            place = _Place(self._run)
            if place.saver is not None:
                place.saver.keep_result(place.session, self._handle, self._text)
            elif place.store is not None:
                place.store.put(place.namespace, self._handle, {"text": self._text}, index=False)
            else:
                _shelf.keep(place.session, self._handle, self._text)
        except Exception as error:  # noqa: BLE001 - the turn goes on without it
            return self._log(error)
        return True

    async def acall(self) -> bool:
        """Keep it, awaiting."""
        try:
            place = _Place(self._run)
            if place.saver is not None:
                await place.saver.akeep_result(place.session, self._handle, self._text)
            elif place.store is not None:
                await place.store.aput(place.namespace, self._handle, {"text": self._text}, index=False)
            else:
                _shelf.keep(place.session, self._handle, self._text)
        except Exception as error:  # noqa: BLE001 - the turn goes on without it
            return self._log(error)
        return True

    def _log(self, error: Exception) -> bool:
        logger.warning("a long result could not be kept; the turn goes on without the rest", exc_info=error)
        return False


class FindResult:
    """Finds a whole result of this session; gives its text, or None, and raises nothing."""

    def __init__(self, run: NodeRun, handle: str) -> None:
        self._run = run
        self._handle = handle

    def call(self) -> str | None:
        """Find it, blocking."""
        if not is_handle(self._handle):
            return None
        try:
            place = _Place(self._run)
            if place.saver is not None:
                found = _text(place.saver.find_result(place.session, self._handle))
            elif place.store is not None:
                found = _stored_text(place.store.get(place.namespace, self._handle))
            else:
                found = _shelf.find(place.session, self._handle)
            return self._said() if found is None else found
        except Exception as error:  # noqa: BLE001 - the model is told that there is none
            _log_unread(error)
            return None

    async def acall(self) -> str | None:
        """Find it, awaiting."""
        if not is_handle(self._handle):
            return None
        try:
            place = _Place(self._run)
            if place.saver is not None:
                found = _text(await place.saver.afind_result(place.session, self._handle))
            elif place.store is not None:
                found = _stored_text(await place.store.aget(place.namespace, self._handle))
            else:
                found = _shelf.find(place.session, self._handle)
            return self._said() if found is None else found
        except Exception as error:  # noqa: BLE001 - the model is told that there is none
            _log_unread(error)
            return None

    def _said(self) -> str | None:
        """The text of a result that stands whole in the transcript, though the request had no room for it."""
        return said_under(self._handle, read_state(self._run.config).get("messages") or ())


def said_under(handle: str, messages: Sequence[BaseMessage]) -> str | None:
    """The text of the result in a transcript whose handle this is, or None."""
    called = ""
    for message in messages:
        if isinstance(message, ToolMessage):
            if result_handle(called, message.tool_call_id) == handle:
                return as_text(message.content)
        else:
            called = message.id or ""
    return None


def _log_unread(error: Exception) -> None:
    logger.warning("a kept result could not be read", exc_info=error)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _stored_text(item: Any) -> str | None:
    return None if item is None else _text(item.value.get("text"))
