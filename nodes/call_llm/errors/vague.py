"""Which errors say by their words alone that the request is at fault, so that only plain ones count."""

from __future__ import annotations

import re

from turnflow.nodes.call_llm.errors.told_error import Told

_SERVER = 500
_ADDRESS = frozenset({404, 405})
"""Statuses of an address or a model that is not there."""
_REQUEST = frozenset({400, 413, 415, 422})
_BAD_REQUEST = re.compile(
    r"\b(?:error code|status(?:[ _]code)?|http)\W{1,3}(?:400|422)\b|\b400 bad request|^<400>"
    r"|(?:BadRequest|InvalidRequest|UnsupportedParams|UnprocessableEntity)Error",
    re.IGNORECASE,
)
_PAGE = re.compile(r"\s{0,20}<(?:!doctype|html|head|body|center|\?xml|script|title)\b", re.IGNORECASE)


def is_vague(told: Told) -> bool:
    """Whether neither its status nor a code says that the request is at fault, or a gateway's page does."""
    if told.status in _ADDRESS or is_page(told):
        return True
    if told.status is not None and told.status < _SERVER:
        return False
    return _REQUEST.isdisjoint(told.claims) and not _BAD_REQUEST.search(told.text)


def is_page(told: Told) -> bool:
    """Whether it is a page for people: of a gateway, not of a model's server."""
    return bool(_PAGE.match(told.text))
