"""A tool call that stands in the text of a reply."""

from __future__ import annotations

from typing_extensions import TypedDict


class TextCall(TypedDict):
    """A tool call as the model wrote it; it has no id yet."""

    name: str
    """The tool's name, registered or not; "" if it could not be made out."""
    arguments: str
    """JSON text, or, if that could not be read, text which is no object."""
    complete: bool
    """False if the reply was cut off inside the call, which must not be executed then."""
