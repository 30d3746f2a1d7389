"""In what form the model and the turn speak to each other: labels, JSON, native calls, calls as text."""

from __future__ import annotations

from dataclasses import dataclass

from turnflow.graph.profile import Dialect, ProviderProfile
from turnflow.graph.protocol import LABELS, JsonProtocol, LabelProtocol, Protocol

TOOLS_REFUSED = "tools"
"""The degradation of a turn whose provider refused `tools`; it goes on with labels (docs/protocols.md)."""


@dataclass(frozen=True)
class ReplyForm:
    """The form of a request and its reply.

    Attributes:
        protocol: How a reply says what it wants; None for native calls.
        native_tools: Whether tools go with the request, and their calls and results are messages of their
            own. Otherwise all of it is text.
        dialects: How calls are written as text, the first being the one that the model is told to write.
    """

    protocol: Protocol
    native_tools: bool
    dialects: tuple[Dialect, ...]

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that the model is told to write; None where calls are native or JSON decisions."""
        return None if self.native_tools or not self.dialects else self.dialects[0]

    @property
    def can_call(self) -> bool:
        """Whether the model can call tools at all."""
        if isinstance(self.protocol, JsonProtocol):
            return True
        if isinstance(self.protocol, LabelProtocol) and self.protocol.tool is None:
            return False
        return self.native_tools or bool(self.dialects)


def reply_form(
    protocol: Protocol, profile: ProviderProfile, *, refused: bool, is_plain: bool = False
) -> ReplyForm:
    """The form for a provider.

    Args:
        protocol: How replies say what they want.
        profile: What the provider can do.
        refused: Whether it took no `tools` when they were sent.
        is_plain: Whether the reply goes on with a native one: its end has no label, and calls nothing.
    """
    if is_plain:
        return ReplyForm(None, native_tools=False, dialects=())
    if isinstance(protocol, JsonProtocol):
        return ReplyForm(protocol, native_tools=False, dialects=())
    if refused and protocol is None:
        protocol = LABELS
    # Labels that a grammar holds are worth more than native calls, which a grammar would rule out.
    can_hold = profile.grammar and not profile.starts_thinking and profile.text_dialects != ()
    as_text = refused or (isinstance(protocol, LabelProtocol) and can_hold)
    return ReplyForm(
        protocol,
        native_tools=profile.native_tools and not as_text,
        dialects=profile.dialects(as_text=as_text),
    )
