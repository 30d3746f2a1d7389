"""How a call ended, as events and the transcript tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turnflow.nodes.dispatch_tools.results import Rendered

EndStatus = Literal["ok", "error", "timeout", "cancelled", "indeterminate", "asked", "rejected", "refused"]


@dataclass(frozen=True)
class Ended:
    """The end of a call.

    Attributes:
        status: What the event `tool.result` says.
        rendered: What the model reads.
    """

    status: EndStatus
    rendered: Rendered
