"""The address of an endpoint as a user gives it: checked before anything is asked."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

import idna

_SCHEMES = ("http", "https")
_MOST_SHOWN = 200
_MOST_LABEL, _MOST_HOST = 63, 253
_LIKE = "give one like http://127.0.0.1:8000/v1"
_CREDENTIALS = re.compile(r"^([A-Za-z][\w+.-]*:/{1,3})?.*@", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9._~-]+")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*\.?", re.ASCII)
_VERSION = re.compile(r"/v\d+[a-z]*\d*/?$")


def check_base_url(text: str, named: str = "base_url") -> str:
    """An endpoint's address, without blanks around it.

    Args:
        text: The address.
        named: Where it was given, for the error.

    Raises:
        ValueError: No request can be sent there. The text, one line, names the address without a name or
            password that may stand in it, and the mend.
    """
    url = text.strip()
    if wrong := _wrong(url):
        shown = _CREDENTIALS.sub(r"\1", url)
        shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
        plain = shown if shown.isprintable() else repr(shown)[1:-1]
        raise ValueError(f"{named} {plain or repr(plain)} is no address: {wrong}; {_LIKE}")
    return url


def version_hint(url: str) -> str:
    """What to say of an address that may lack its version, behind a complaint; '' where it has one."""
    return "" if _VERSION.search(url) else "; a base URL usually ends in /v1"


def _wrong(url: str) -> str:
    """What is wrong with an address; '' if nothing is."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        return "it begins with http:// or https://"
    if not url.isprintable():
        return "it has a control character"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "its host is no host"
    if not host:
        return "it names no host"
    if "[" in parts.netloc and not _is_ip(host):
        return "its host is no IP address"
    return _wrong_host(host) or _wrong_port(parts)


def _wrong_host(host: str) -> str:
    if ":" in host or _NUMBERS.fullmatch(host):
        return "" if _is_ip(host) else "its host is no IP address"
    if any(char.isspace() for char in host):
        return "its host has a blank"
    try:
        written = host if host.isascii() else idna.encode(host).decode("ascii")
    except UnicodeError:  # which idna's own errors are
        return "its host has a character that no host has"
    if not _HOST.fullmatch(written):
        return "its host has a character that no host has"
    labels = written.removesuffix(".").split(".")
    if len(written) > _MOST_HOST or not all(1 <= len(label) <= _MOST_LABEL for label in labels):
        return "its host has an empty or a too long part"
    return ""


def _wrong_port(parts: SplitResult) -> str:
    try:
        port = parts.port
    except ValueError:
        port = 0
    return "" if port is None or port else "its port is no number from 1 to 65535"


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
