"""Which failures pass by themselves: broken connections, limits of rate, a server in trouble."""

from __future__ import annotations

import errno
import json
import re
import socket
import ssl

import openai

from turnflow.nodes.call_llm.errors.told_error import Told, error_text

_STATUSES = frozenset({408, 409, 425, 429})
_SERVER = 500
_RATE_STATUSES = frozenset({None, 400, 413, 422, 429})
_RATE = re.compile(
    r"rate.?limit|too many (?:(?:concurrent|simultaneous|parallel|pending|active) )?requests|throttl"
    r"|concurren\w{1,3}(?: requests?)? limit|\b[tr]p[md]\b"
    r"|tokens?.{0,3}per.{0,3}(?:minute|min|second|hour|day)\b|requests?.{0,3}per.{0,3}(?:minute|min"
    r"|second|hour|day)\b|速率限制|请求过于频繁",
    re.IGNORECASE,
)
_PASSING_CLAIMS = frozenset({408, 425, 429, 502, 503, 504, 529})
_BAD_REQUESTS = frozenset({400, 422})
_TROUBLE = re.compile(
    r"temporar|\btry(?:ing)? again\b(?! with)|\bretry(?:ing)? (?:later|in|after|shortly|soon|again)"
    r"|\bbusy\b|overload|\btime[ds]?[ -]?outs?\b|deadline|unavailable|unreachable"
    r"|not (?:yet |currently )?(?:available|ready|reachable|responding)|could not (?:be )?reach"
    r"|\bcrash|\brestart|\bdisconnect|\b(?:connection|socket|peer|channel)\b.{0,20}(?:reset|refused|closed|lost|abort|broken"
    r"|error|fail|gone)|\blost\b|(?:lost|broken|no|failed) (?:connection|pipe)|\bcancell?ed\b|\babort"
    r"|interrupted|preempt|out of memory|\boom\b|shutting down|shut down|maintenance|warming up|starting up"
    r"|(?:is|still) loading|no healthy|bad gateway|(?:at|over|insufficient|no) capacity|capacity exceeded"
    r"|\bcontainer\b|\b(?:status|code|returned|error:?) 50[234]\b|\bqueue|繁忙|稍后|超时|暂时",
    re.IGNORECASE,
)
"""Words of a server in trouble. `try again with ...` asks for another request."""
_BROKEN = (
    openai.APIConnectionError,
    ConnectionError,
    TimeoutError,
    EOFError,
    ssl.SSLError,
    socket.gaierror,
    json.JSONDecodeError,
    UnicodeDecodeError,
)
_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2")
_BROKEN_NAMES = frozenset(
    {f"{module}.{name}" for module in _HTTP for name in ("TransportError", "NetworkError", "ProtocolError")}
    | {f"{module}.{name}" for module in _HTTP for name in ("TimeoutException", "ProxyError", "DecodingError")}
    | {f"{module}.{name}" for module in _HTTP for name in ("ConnectionNotAvailable", "StreamClosed")}
    | {"h11.ProtocolError", "anyio.EndOfStream", "anyio.BrokenResourceError", "anyio.ClosedResourceError"}
    | {"h2.ProtocolError", "aiohttp.ClientConnectionError", "aiohttp.ClientPayloadError"}
    | {"requests.ConnectionError", "requests.Timeout", "requests.ChunkedEncodingError"}
    | {"urllib3.ProtocolError", "urllib3.TimeoutError", "urllib3.MaxRetryError"}
    | {"botocore.HTTPClientError", "http.HTTPException"}
)
_BROKEN_CLASSES = frozenset(
    {"APIConnectionError", "ModelConnectionError", "ModelTimeoutError", "PrematureEndError"}
)
"""Names that stand for the same in other clients."""
_NET_ERRNOS = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.EBADF}
    | {errno.EPIPE, errno.ENOTCONN, errno.ECONNRESET}
)
_HOPELESS_CLASSES = frozenset({"UnsupportedProtocol", "InvalidURL", "RoundTimeoutError"})
_CLOSED = re.compile(r"client has been closed|session is closed", re.IGNORECASE)


def is_broken_connection(error: BaseException) -> bool:
    """Whether the request or its reply was lost on the way."""
    if isinstance(error, _BROKEN):
        return True
    bases = type(error).__mro__
    if any(base.__name__ in _BROKEN_CLASSES for base in bases):
        return True
    if any(f"{base.__module__.partition('.')[0]}.{base.__name__}" in _BROKEN_NAMES for base in bases):
        return True
    return isinstance(error, OSError) and error.errno in _NET_ERRNOS


def is_hopeless(error: BaseException) -> bool:
    """Whether another attempt would fail as surely: a closed client, a wrong address, no time left."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    if any(base.__name__ in _HOPELESS_CLASSES for base in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and bool(_CLOSED.search(error_text(error)[:1000]))


def is_rate_limit(told: Told) -> bool:
    """Whether too much was asked in too short a time, under whatever status it is said."""
    return told.status in _RATE_STATUSES and bool(_RATE.search(told.text))


def speaks_of_trouble(told: Told) -> bool:
    """Whether a server's error, or one inside a stream, says that the server is in trouble for a while."""
    if told.status is not None and told.status < _SERVER and not told.is_streamed:
        return False
    return not _PASSING_CLAIMS.isdisjoint(told.claims) or bool(_TROUBLE.search(told.text))


def is_passing(told: Told) -> bool:
    """Whether the status says that it passes. An error inside a stream that names no status does."""
    if told.status is None or told.status in _STATUSES or told.status >= _SERVER:
        return True
    return told.is_streamed and told.status in _BAD_REQUESTS and speaks_of_trouble(told)
