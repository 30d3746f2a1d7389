"""Secrets taken out of what is logged or told: by the name of a field, and by how they look."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "[redacted]"

_SECRET_WORDS = frozenset(
    {
        *("auth", "authorization", "bearer", "cookie", "credential", "dsn", "otp", "passwd", "pwd", "secret"),
        "token",
    }
)
"""What makes a name that of a secret, as any of its parts."""

_SECRET_PAIRS = frozenset(
    {
        *("accesskey", "accountkey", "apikey", "connectionstring", "encryptionkey", "passphrase", "password"),
        *("privatekey", "secretkey", "signingkey", "sshkey"),
    }
)
"""The same, as one part or two that follow each other."""

_GRANTING = frozenset({"access", "api", "auth", "bearer", "csrf", "id", "refresh", "session"})
"""Before `tokens`, which else are those that are counted, as in `max_tokens`."""

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NAMING, _NAMED = frozenset({"header", "key", "name"}), frozenset({"value", "values"})

Pattern = str | re.Pattern[str]

_COUNTED = "".join(
    f"(?<!{word}[_ -])"
    for word in (
        *("budget", "cached", "completion", "input", "max", "min", "new", "output", "prompt", "thinking"),
    )
)
"""Before `tokens` that are counted; a text about a limit is of no use without its name."""

_KEY = (
    r"(?:(?:(?:api|access|account|encryption|private|secret|signing|ssh)[_-]?key|pass[_-]?word|passwd|pwd"
    r"|passphrase|secret|connection[_-]?string|dsn|otp)s?"
    rf"|token(?!s)|(?=tokens){_COUNTED}tokens(?![\"']?\s{{0,4}}[=:]\s{{0,4}}\d{{1,12}}(?![\w-])))"
)
_IS = r"(?:\\{0,8}[\"'])?\s{0,4}[=:]\s{0,4}"
_VALUE = r"(?:\\+\"[^\"\r\n]*|\"(?:[^\"\\\r\n]|\\.)*|'(?:[^'\\\r\n]|\\.)*|[^\s\"'&,;}]+)"
"""To the quote that ends it, or the white space; there may be JSON within JSON, its quotes escaped."""

DEFAULT_PATTERNS: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[\s\S]*?"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    ),
    re.compile(
        rf"(?i)\b(?:(?:set-)?cookie|(?:proxy-)?authorization){_IS}(?:\\{{0,8}}[\"'])?[^\s\"'][^\r\n\"']*"
    ),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{6,}"),
    re.compile(r"\b(?:sk|pk|rk)[-_][\w-]{8,}"),
    re.compile(r"\b(?:gh[oprsu]|github_pat|glpat|xox[abeprs]|hf|pypi)[-_][\w-]{8,}"),
    re.compile(r"\bnpm_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"),
    re.compile(r"\bAIza[\w-]{20,}"),
    re.compile(r"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*"),
    re.compile(rf"(?i)(?:\b[\w-]{{0,40}})?{_KEY}{_IS}{_VALUE}"),
    re.compile(rf"(?i)(?<![\w-])--?[\w-]{{0,40}}{_KEY}\s{{1,4}}(?!-){_VALUE}"),
    re.compile(
        r"(?<!\S)(?:-u|--user|--proxy-user)(?:=|\s{1,4})"
        r"(?:\"[^\":\r\n]*:[^\"\r\n]*|'[^':\r\n]*:[^'\r\n]*|[^\s:\"']*:[^\s\"']+)"
    ),
    re.compile(r"(?<=://)[^\s/@:]*:[^\s/]+(?=@)"),
    re.compile(rf"(?i)(?<=[?&])(?:key|sig|signature)={_VALUE}"),
    re.compile(
        r"(?i)\bapi key\b(?:\s\w{1,20}){0,2}\s{0,4}:\s{0,4}[\"']?"
        r"(?=[\w*.+/=-]{0,60}[\d*])[\w*.+/=-]{8,}"
    ),
)
"""What secrets look like: private keys, headers, well-known services' keys, JSON web tokens, `key=value`,
`--key value`, `-u user:pass`, `user:pass@` and `?key=` in an address, `API key: value`."""


def redact(value: Any, patterns: Iterable[re.Pattern[str]] = ()) -> Any:
    """The value with secrets replaced, at any depth.

    Args:
        value: Plain data.
        patterns: What else is secret in a text, beside `DEFAULT_PATTERNS`.
    """
    return _redact(value, (*DEFAULT_PATTERNS, *patterns))


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret: such as `api_key`, `accessTokens` or `Authorization`."""
    parts = [part.lower() for part in _PART.findall(unicodedata.normalize("NFKC", name))]
    words = {_singular(part) for part in parts if part != "tokens"}
    pairs = list(itertools.pairwise(parts))
    joined = {_singular(one + other) for one, other in pairs} | {_singular("".join(parts))}
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or not _SECRET_PAIRS.isdisjoint(words | joined)
        or joined == {"token"}
        or parts[-1:] == ["pass"]
        or any(one in _GRANTING and other == "tokens" for one, other in pairs)
    )


def _singular(word: str) -> str:
    return word.removesuffix("s")


def as_patterns(given: Iterable[Pattern]) -> list[re.Pattern[str]]:
    """Patterns as compiled ones.

    Raises:
        ValueError: They are no list, or one is no regular expression for texts, or finds nothing everywhere;
            the text names it.
    """
    if isinstance(given, str | bytes | re.Pattern) or not isinstance(given, Iterable):
        raise ValueError(
            f"patterns is a list of regular expressions, not {given!r:.80}; give [{given!r:.80}]"
        )
    return [_as_pattern(pattern) for pattern in given]


def _as_pattern(given: object) -> re.Pattern[str]:
    if isinstance(given, re.Pattern) and isinstance(given.pattern, str):
        pattern = given
    elif isinstance(given, str):
        try:
            pattern = re.compile(given)
        except re.error as error:
            raise ValueError(f"{given!r} is no regular expression: {error}") from error
    else:
        raise ValueError(f"patterns holds {given!r:.80}, which is no regular expression for texts")
    if pattern.match(""):
        raise ValueError(f"{pattern.pattern!r:.80} matches the empty text, which is everywhere; ask for more")
    return pattern


def _redact(value: Any, patterns: tuple[re.Pattern[str], ...]) -> Any:
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.sub(REDACTED, value)
        return value
    if isinstance(value, Mapping):
        hidden = _NAMED if _names_secret(value) else ()
        return {
            name: REDACTED
            if item is not None and (is_secret(str(name)) or str(name).lower() in hidden)
            else _redact(item, patterns)
            for name, item in value.items()
        }
    return [_redact(item, patterns) for item in value] if isinstance(value, list | tuple) else value


def _names_secret(entry: Mapping[Any, Any]) -> bool:
    """Whether this is a name and a value, as headers and form fields come, and the name is a secret's."""
    return any(
        isinstance(said, str) and str(name).lower() in _NAMING and is_secret(said)
        for name, said in entry.items()
    )
