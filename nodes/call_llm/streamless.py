"""How an endpoint shows that it does not stream: it says so, or its stream is over before anything came."""

from __future__ import annotations

import re

from turnflow.nodes.call_llm.errors.classify import PrematureEndError
from turnflow.nodes.call_llm.errors.told_error import read_error

_STATUSES = frozenset({400, 404, 405, 415, 422, 501})
_PARAMETER = "stream"
_WORDS = re.compile(
    r"(?<![\w-])stream(?:ing|ed|s)?(?![\w-])[^.;]{0,60}\b(?:not|n't|never|un|only)\W?"
    r"(?:be )?(?:\w{1,12} )?(?:support|allow|available|enabled|implement|permit)"
    r"|\b(?:not|n't|cannot) (?:\w{1,12} )?(?:support|allow|implement)\w* (?:\w{1,12} )?"
    r"stream(?:ing|s)?(?![\w-])"
    r"|\bunsupported\b[^.;]{0,20}(?<![\w-])stream(?:ing)?(?![\w-])",
    re.IGNORECASE,
)
_NOTHING_CAME = "No generation chunks were returned"
"""What LangChain says of any model's stream without a chunk."""


class EmptyStreamError(PrematureEndError):
    """The stream was over before anything came: the endpoint may have answered without one."""

    def __init__(self) -> None:
        super().__init__("the stream was over before anything came")


def refuses_stream(error: BaseException) -> bool:
    """Whether a provider's error says that it does not stream."""
    told = read_error(error)
    if told is None or told.status not in _STATUSES:
        return False
    return _PARAMETER in told.fields or bool(_WORDS.search(told.text))


def of_empty_stream(error: BaseException) -> BaseException:
    """The error itself; where it only says that nothing came, one that says what that means."""
    if isinstance(error, ValueError) and str(error) == _NOTHING_CAME:
        empty = EmptyStreamError()
        empty.__cause__ = error
        return empty
    return error
