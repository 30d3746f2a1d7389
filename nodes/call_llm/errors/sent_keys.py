"""Keys taken out of what an error says: providers quote what they were sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from turnflow.graph.redaction import REDACTED, is_secret, redact

_SHORTEST_KEY = 6
"""Characters; a shorter one may stand in a text by chance."""
_KEY_HEADERS = frozenset({"x-goog-api-key", "ocp-apim-subscription-key"})
"""Headers that hold a key; others are known by their names."""


def without_keys(text: str, causes: Iterable[BaseException]) -> str:
    """A text without the keys that went out with the failed request, and without what looks like a secret.

    Args:
        text: The text.
        causes: The error, what it came of, and so on; a client's own error holds the request.
    """
    keys = {key for cause in causes for key in _sent_keys(cause)}
    for key in sorted(keys, key=len, reverse=True):
        text = text.replace(key, REDACTED)
    return str(redact(text))


def _sent_keys(error: BaseException) -> Iterable[str]:
    for name, value in _headers(error).items():
        if isinstance(value, str) and (is_secret(str(name)) or str(name).lower() in _KEY_HEADERS):
            key = value.split()[-1] if value.strip() else ""
            if len(key) >= _SHORTEST_KEY:
                yield key


def _headers(error: BaseException) -> Mapping[Any, Any]:
    """Headers of the request that an error came of; none where it holds no request."""
    for holder in (lambda: error, lambda: getattr(error, "response", None)):
        try:
            headers = getattr(getattr(holder(), "request", None), "headers", None)
        except Exception:  # noqa: BLE001, S112 - httpx raises where there is none; a foreign error, anything
            continue
        if isinstance(headers, Mapping):
            return headers
    return {}
