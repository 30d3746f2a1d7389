"""Secrets taken out of what is logged: by the name of a field, and by how they look."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "[redacted]"

_SECRET_NAMES = frozenset(
    {
        *("apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials"),
        *("passphrase", "passwd", "password", "pwd", "secret", "secrets", "token"),
    }
)
_SECRET_PAIRS = frozenset({"api key", "access key", "private key", "secret key", "account key"})
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

Pattern = str | re.Pattern[str]

DEFAULT_PATTERNS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{6,}"),
    re.compile(r"\b(?:sk|pk|rk)[-_][\w-]{8,}"),
    re.compile(r"\b(?:gh[oprsu]|github_pat|glpat|xox[abprs]|hf)[-_][\w-]{8,}"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"),
    re.compile(r"\bAIza[\w-]{20,}"),
    re.compile(r"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*"),
    re.compile(
        r"(?i)\b[\w-]{0,40}(?:api[_-]?key|token|password|passwd|secret|authorization)[\"']?\s{0,4}[=:]\s{0,4}"
        r"[\"']?[^\s\"'&,;}]+"
    ),
    re.compile(r"(?<=://)[^\s/@:]{1,200}:[^\s/@]{1,200}(?=@)"),
)
"""What secrets look like: headers, well-known services' keys, JSON web tokens, `key=value`, `user:pass@`."""


def redact(value: Any, patterns: Iterable[re.Pattern[str]] = ()) -> Any:
    """The value with secrets replaced, at any depth.

    Args:
        value: Plain data.
        patterns: What else is secret in a text, beside `DEFAULT_PATTERNS`.
    """
    return _redact(value, (*DEFAULT_PATTERNS, *patterns))


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret: such as `api_key`, `accessToken` or `Authorization`."""
    parts = [part.lower() for part in _PART.findall(name)]
    pairs = {f"{one} {other}" for one, other in itertools.pairwise(parts)}
    return bool(_SECRET_NAMES.intersection(parts) or _SECRET_PAIRS & pairs)


def as_patterns(given: Iterable[Pattern]) -> list[re.Pattern[str]]:
    """Patterns as compiled ones.

    Raises:
        ValueError: One is no regular expression; the text names it.
    """
    patterns = []
    for pattern in given:
        try:
            patterns.append(re.compile(pattern))
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return patterns


def _redact(value: Any, patterns: tuple[re.Pattern[str], ...]) -> Any:
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.sub(REDACTED, value)
        return value
    if isinstance(value, Mapping):
        return {
            name: REDACTED if is_secret(str(name)) and item is not None else _redact(item, patterns)
            for name, item in value.items()
        }
    return [_redact(item, patterns) for item in value] if isinstance(value, list | tuple) else value
