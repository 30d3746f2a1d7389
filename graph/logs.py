"""Structured logs of turns through Python's `logging`: one JSON line per step (docs/logs.md)."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO, cast

from turnflow.graph.redaction import Pattern, as_patterns, redact
from turnflow.graph.text import plain_json

TURN_LOGGER = "turnflow.turn"
"""Name of the logger."""

FIELD = "turnflow"
"""The attribute of a log record that holds the fields."""

MAX_BEGUN = 1024
"""Turns whose start is remembered, for how long they took."""

logger = logging.getLogger(TURN_LOGGER)

Event = Mapping[str, Any]

_begun: dict[tuple[Any, Any], float] = {}
"""When the last turns began that were logged in this process, by session and turn, the oldest first."""
_begun_lock = threading.Lock()


def log_event(event: Event, arguments: Mapping[str, Any] | None = None) -> None:
    """Log an event or a fact, if its type is logged and anybody listens.

    No text of a user or a model goes into it.

    Args:
        event: The event.
        arguments: Those of the tool call that it is about, where they may be logged.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    fields_of = _LOGGED.get(event["type"])
    if fields_of is None:
        return
    fields = {
        "event": event["type"],
        "session_id": event["session_id"],
        "turn_id": event["turn_id"],
        "round": event["round"],
        **fields_of(event),
        **({} if arguments is None else {"arguments": plain_json(arguments)}),
    }
    logger.info("%s", event["type"], extra={FIELD: redact(fields)})


def _started(event: Event) -> dict[str, Any]:
    key = event["session_id"], event["turn_id"]
    with _begun_lock:
        _begun.pop(key, None)
        _begun[key] = event["time"]
        if len(_begun) > MAX_BEGUN:
            del _begun[next(iter(_begun))]
    return {}


def _replied(event: Event) -> dict[str, Any]:
    return {**_named(event, "usage"), "duration_s": event["duration"], **_error(event)}


def _decision(event: Event) -> dict[str, Any]:
    decision = {name: event[name] for name in ("kind", "key", "label") if name in event}
    return {"decision": decision, **_named(event, "usage")}


def _tool(event: Event) -> dict[str, Any]:
    took = {"duration_s": event["duration"]} if "duration" in event else {}
    return {"tool": event["name"], "call_id": event["tool_call_id"], **_named(event, "status"), **took}


def _paused(event: Event) -> dict[str, Any]:
    actions = event.get("action_requests")
    if actions is None:
        status = "question" if "questions" in event else "interrupt"
        return {"status": status, "call_ids": [event["tool_call_id"]]}
    return {"status": "approval", "call_ids": [action["tool_call_id"] for action in actions]}


def _resumed(event: Event) -> dict[str, Any]:
    return {"call_ids": event.get("tool_call_ids") or [event["tool_call_id"]]}


def _ended(event: Event) -> dict[str, Any]:
    outcome = event["outcome"]
    numbers = _named(outcome, "status", "stop_reason", "rounds", "tool_calls", "usage", "degradations")
    begun = _begun.get((event["session_id"], event["turn_id"]))
    took = {} if begun is None else {"duration_s": round(max(0.0, event["time"] - begun), 6)}
    return {**numbers, **took, **_error(outcome)}


def _folded(event: Event) -> dict[str, Any]:
    return {
        "status": "failed" if event.get("failed") else "ok",
        **_named(event, "reason", "why", "tokens_before", "tokens_after"),
    }


def _degraded(event: Event) -> dict[str, Any]:
    return {**_named(event, "degradation", "dialect"), **_error(event)}


def _retry(event: Event) -> dict[str, Any]:
    return {**_named(event, "attempt", "wait"), **_error(event)}


def _error(event: Event) -> dict[str, Any]:
    """What kind of error it was; its text may quote anybody."""
    error = event.get("error")
    return {"error": _named(error, "type", "status_code")} if isinstance(error, Mapping) else {}


def _named(event: Event, *names: str) -> dict[str, Any]:
    return {name: event[name] for name in names if event.get(name) is not None}


_LOGGED: dict[str, Callable[[Event], dict[str, Any]]] = {
    "turn.started": _started,
    "model.replied": _replied,
    "decision": _decision,
    "tool.started": _tool,
    "tool.result": _tool,
    "repair": lambda event: _named(event, "key", "times"),
    "nudge": lambda event: _named(event, "key", "level", "count"),
    "folded": _folded,
    "degraded": _degraded,
    "retry": _retry,
    "steered": lambda event: _named(event, "message_ids"),
    "contribution.failed": lambda event: _named(event, "name"),
    "paused": _paused,
    "resumed": _resumed,
    "turn.ended": _ended,
}
"""What is logged, by type of the event, and which of its fields."""


class JsonLines(logging.Formatter):
    """Formats each log record as one line of JSON, secrets taken out.

    Args:
        patterns: Regular expressions for what else is secret in a text.

    Raises:
        ValueError: A pattern is no regular expression, or matches the empty text.
    """

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        super().__init__()
        self._patterns = as_patterns(patterns)

    def format(self, record: logging.LogRecord) -> str:
        """The record's line: `time` (ISO 8601, UTC), `level`, `logger`, and its fields or its `message`."""
        fields = getattr(record, FIELD, None)
        if not isinstance(fields, Mapping):
            fields = {"message": record.getMessage()}
        if record.exc_info:
            fields = {**fields, "exception": self.formatException(record.exc_info)}
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            **redact(plain_json(fields), self._patterns),
        }
        return json.dumps(line, ensure_ascii=False)


def log_to(target: str | os.PathLike[str] | TextIO, *, patterns: Iterable[Pattern] = ()) -> logging.Handler:
    """Write the log lines of turns to a file, at its end, or to a stream, from now on.

    Args:
        target: A file's path, or a stream that takes text.
        patterns: Regular expressions for what else is secret.

    Returns:
        The handler, for `logging.getLogger("turnflow.turn").removeHandler`.

    Raises:
        OSError: The file cannot be written; the text names it.
        ValueError: A pattern is no regular expression; or the target is neither a path nor a stream.
    """
    formatter = JsonLines(patterns)
    handler = _handler(target)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    return handler


def _handler(target: object) -> logging.Handler:
    if not isinstance(target, str | os.PathLike):
        if not callable(getattr(target, "write", None)):
            raise ValueError(f"the target of a log is a path or a stream that takes text, not {target!r:.80}")
        return logging.StreamHandler(cast("TextIO", target))
    path = os.fspath(target)
    if not path:
        raise ValueError("the path of the log is empty; give the path of a file")
    try:
        return logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise OSError(f"the log {path} cannot be written: {error.strerror}") from error


@contextmanager
def logging_to(
    target: str | os.PathLike[str] | TextIO | None, *, patterns: Iterable[Pattern] = ()
) -> Iterator[None]:
    """`log_to` for the time of a block; does nothing where there is no target."""
    if target is None:
        yield
        return
    level = logger.level
    handler = log_to(target, patterns=patterns)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
