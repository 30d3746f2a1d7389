"""What a failed request means, told by status, code, named parameter and words (docs/degradation.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from turnflow.graph.degradation import OUTPUT_LIMIT
from turnflow.graph.outcome import ErrorInfo
from turnflow.graph.text import storable
from turnflow.nodes.call_llm.errors.barred import is_barred, is_filtered
from turnflow.nodes.call_llm.errors.failure import Failure
from turnflow.nodes.call_llm.errors.overflow import asks_too_much_output, is_too_long
from turnflow.nodes.call_llm.errors.refusals import find_refusal, refuses_one_image, sends_limit
from turnflow.nodes.call_llm.errors.retry_after import retry_after
from turnflow.nodes.call_llm.errors.sent_keys import without_keys
from turnflow.nodes.call_llm.errors.told_error import MAX_READ, Told, error_text, http_status, read_error
from turnflow.nodes.call_llm.errors.transient import (
    is_broken_connection,
    is_hopeless,
    is_passing,
    is_rate_limit,
)

MAX_MESSAGE = 500
_MAX_CAUSES = 8


class PrematureEndError(Exception):
    """The stream ended without a finish reason: the reply is not known to be whole."""


def describe_error(error: BaseException) -> ErrorInfo:
    """The failure as plain data, its text shortened and without secrets."""
    message = _plain(error_text(error))
    if is_broken_connection(error):
        # The client's own text says only that there was an error.
        message = _with_more(message, error_text(list(_causes(error))[-1]))
    elif told := read_error(error):
        message = _with_more(message, told.text)
    message = without_keys(message, _causes(error))
    return {
        "type": type(error).__name__,
        "message": (message or type(error).__name__)[:MAX_MESSAGE],
        "status_code": http_status(error),
    }


def classify_error(error: BaseException, sent: Collection[str]) -> Failure:
    """What a failure means.

    Args:
        error: What the model raised.
        sent: Names of what the request had that can be refused: parameters as the API names them, `tools`,
            `images`, `system_role`, `messages`.
    """
    causes = list(_causes(error))
    if any(is_hopeless(cause) for cause in causes):
        return Failure("final")
    for cause in causes:
        if is_broken_connection(cause):
            return Failure("transient")
        if (told := read_error(cause)) is not None:
            return _classify_told(told, frozenset(sent))
    return Failure("final")


def _classify_told(told: Told, sent: frozenset[str]) -> Failure:
    if is_filtered(told):
        return Failure("content_filter")
    if is_barred(told):
        return Failure("final")
    if is_rate_limit(told):
        return Failure("transient", retry_after=retry_after(told.headers, told.text))
    return _classify_request(told, sent) or _classify_status(told)


def _classify_request(told: Told, sent: frozenset[str]) -> Failure | None:
    """What is wrong with the request, as far as another form of it may be taken."""
    if asks_too_much_output(told):
        return Failure("refused", OUTPUT_LIMIT) if sends_limit(sent) else Failure("final")
    if refuses_one_image(told, sent):
        return Failure("refused", "images", lasting=False)
    if is_too_long(told):
        return Failure("context_too_long")
    if refusal := find_refusal(told, sent):
        return Failure("refused", refusal)
    return None


def _classify_status(told: Told) -> Failure:
    if is_passing(told):
        return Failure("transient", retry_after=retry_after(told.headers, told.text))
    return Failure("final")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it came of, and so on."""
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return
        yield cause
        inner = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = inner or cause.__cause__


def _with_more(message: str, text: str) -> str:
    more = _plain(text)
    return message if more in message else f"{message} {more}".strip()


def _plain(text: str) -> str:
    return storable(" ".join(text[:MAX_READ].split()))
