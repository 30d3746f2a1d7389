"""Text that can be stored and sent."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from turnflow.graph.redaction import is_secret, redact

_SURROGATES = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where the other half is missing.

    Escapes in JSON and undecodable file names give such halves; UTF-8, and so every database and every
    request, refuses them.
    """
    if not _SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable_json(value: Any) -> Any:
    """A JSON value with all of its texts storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(key): storable_json(item) for key, item in value.items()}
    return [storable_json(item) for item in value] if isinstance(value, list) else value


def is_storable(number: int) -> bool:
    """Whether a checkpoint can hold a whole number: msgpack has 64 bits for it."""
    return -(2**63) <= number < 2**64


def plain_json(value: Any) -> Any:
    """Any value as plain JSON that can be stored; its type's name where it cannot be."""
    try:
        return storable_copy(value)
    except Exception:  # noqa: BLE001 - a foreign value can raise anything when it is looked at
        return f"({type(value).__name__})"


def storable_copy(value: Any) -> Any:
    """The value as plain JSON that can be stored; what JSON or a checkpoint does not know becomes text.

    Raises:
        TypeError: A key is no text, or the like.
        ValueError: It holds itself.
        RecursionError: It is nested too deeply.
    """
    text = storable(json.dumps(value, ensure_ascii=False, default=str))
    return json.loads(text, parse_int=_integer_or_text, parse_constant=str)


def _integer_or_text(digits: str) -> int | str:
    try:
        number = int(digits)
    except ValueError:  # more digits than Python reads
        return digits
    return number if is_storable(number) else digits


def canonical(value: Any) -> str:
    """A JSON value as a text that is the same for equal values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_with_whole_numbers(value), sort_keys=True, separators=(",", ":"))


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    return value


class SurrogateJoiner:
    """Joins surrogate pairs that a stream cut in two."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The storable text so far; a first half at its end waits for the second."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return storable(text)

    def close(self) -> str:
        """What stands for a half whose other half never came."""
        rest, self._half = storable(self._half), ""
        return rest


_OF_A_KEY = frozenset({"code", "key", "sig", "signature"})
"""Names of parameters that hold a key in addresses, and need not elsewhere."""

_ADDRESS = re.compile(r"(?P<scheme>[^/?#]*://)?(?P<host>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.*)", re.DOTALL)


def without_credentials(url: str) -> str:
    """An address without the name, the password and the keys that may stand in it.

    What goes: all before an `@` of the host, and each parameter of the query or the fragment that is named or
    looks like a secret.
    """
    parts = _ADDRESS.fullmatch(url)
    if parts is None:
        return url
    host = parts["host"].rpartition("@")[2]
    rest = "".join(_without_keys(piece) for piece in re.split("(?=[?#])", parts["rest"]) if piece)
    return f"{parts['scheme'] or ''}{host}{parts['path']}{rest}"


def _without_keys(piece: str) -> str:
    """A query or a fragment, its mark before it, without the parameters that hold secrets."""
    kept = [each for each in re.split("[&;]", piece[1:]) if not _holds_key(each)]
    return f"{piece[0]}{'&'.join(kept)}" if kept else ""


def _holds_key(parameter: str) -> bool:
    name, is_given, _ = (unquote(part) for part in parameter.partition("="))
    is_named = is_secret(name) or name.lower() in _OF_A_KEY
    return bool(is_given and is_named) or redact(unquote(parameter)) != unquote(parameter)


_RESULT_FENCE = re.compile(r"<(?=\s*/?\s*tool_result)", re.IGNORECASE)


def within_result_fence(text: str) -> str:
    """A result's text as it may stand in the fence of a result: results are untrusted.

    What would close the fence from inside, or open another, does so no more.
    """
    return _RESULT_FENCE.sub("<\\\\", text)
