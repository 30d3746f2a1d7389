"""What a failed request means for the turn, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FailureKind = Literal["transient", "refused", "context_too_long", "content_filter", "final"]


@dataclass(frozen=True)
class Failure:
    """What a failed request means (docs/degradation.md).

    Attributes:
        kind: `transient`: the same request may be taken later. `refused`: a request without `refusal` may be
            taken. `context_too_long`: a shorter one may be. `content_filter`: the provider's filter stopped
            it. `final`: none of these.
        refusal: What the provider said no to, where `kind` is `refused`, else "".
        retry_after: Seconds that the provider asks to wait, where `kind` is `transient` and it says so.
        lasting: Whether another request would be refused for the same. False where only this one's content
            was wrong, as an image that cannot be read.
    """

    kind: FailureKind
    refusal: str = ""
    retry_after: float | None = None
    lasting: bool = True
