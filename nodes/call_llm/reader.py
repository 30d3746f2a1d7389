"""The reply reader: what a model streams, told apart into label, answer, thinking and calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from turnflow.graph.profile import ProviderProfile
from turnflow.graph.protocol import JsonProtocol, LabelProtocol, Protocol, ProtocolName, as_protocol
from turnflow.nodes.call_llm.channels import Channel, JsonChannel, LabelChannel, PlainChannel
from turnflow.nodes.call_llm.reply_events import Reply, ReplyEvent, Telling
from turnflow.nodes.call_llm.think_tags import Piece, ThinkTagScanner


class ReplyReader:
    """Reads one reply while it arrives (docs/replies.md).

    Any way of cutting a reply into chunks gives the same events, up to neighbours of one kind, which may come
    in parts. The time taken is linear in the text, whatever it holds.

    Args:
        protocol: How the reply says what it wants: a name, a `LabelProtocol`, a `JsonProtocol`, or None for
            plain text.
        profile: What the model does about thinking, and how it writes calls as text; the default profile if
            None.
        tool_names: Names of the tools, by which a lone JSON object is known for a call.
        after: The answer's text that an earlier, truncated reply already showed. Code that it left open is
            still open, and as the reply goes on with an answer, a closer without an opener is text.
        label: The label of that earlier reply: this one begins in its body.

    Raises:
        ValueError: There is no such protocol.
    """

    def __init__(
        self,
        protocol: Protocol | ProtocolName = None,
        *,
        profile: ProviderProfile | None = None,
        tool_names: Collection[str] = (),
        after: str = "",
        label: str | None = None,
    ) -> None:
        profile = profile or ProviderProfile()
        self._telling = Telling()
        self._channel = _channel(as_protocol(protocol), self._telling, profile, tool_names, after, label)
        self._tags = ThinkTagScanner(
            profile.think_tags,
            in_code=self._channel.in_code,
            starts_thinking=profile.starts_thinking,
            orphans=not profile.starts_thinking and not after and label is None,
        )
        self._raw: list[str] = []
        self._reply: Reply | None = None

    def feed(self, text: str) -> list[ReplyEvent]:
        """Read the next text of the content channel.

        Raises:
            RuntimeError: The reader is closed.
        """
        self._check_open()
        self._raw.append(text)
        self._read(self._tags.feed(text))
        return self._telling.take()

    def feed_thinking(self, text: str) -> list[ReplyEvent]:
        """Read text of a delta's `reasoning_content` or `reasoning` field: thinking, whatever it holds.

        Raises:
            RuntimeError: The reader is closed.
        """
        self._check_open()
        if text:
            self._tags.thought_came_apart()
        self._telling.tell("thinking", text)
        return self._telling.take()

    def close(self, *, cut_off: bool = False) -> list[ReplyEvent]:
        """End the reply and give its last events; closing again gives none.

        Args:
            cut_off: Whether a limit of tokens ended it: a call whose end is missing is then a call that was
                not complete, else it is text.
        """
        if self._reply is not None:
            return []
        self._read(self._tags.close())
        channel = self._channel
        channel.close(cut_off=cut_off)
        for call in channel.calls:
            self._telling.tell("call", call["name"])
        events = self._telling.take()
        self._reply = {
            "text": self._telling.content,
            "thinking": self._telling.thinking,
            "label": channel.label,
            "calls": channel.calls,
            "raw": "".join(self._raw),
        }
        return events

    @property
    def reply(self) -> Reply:
        """The whole reply.

        Raises:
            RuntimeError: The reader is not closed yet.
        """
        if self._reply is None:
            raise RuntimeError("The reply is still being read: call close() before you look at it.")
        return self._reply

    @property
    def body(self) -> str:
        """What stands behind the label, whether it is shown or not; without a protocol, the answer."""
        return self._channel.body

    @property
    def violation(self) -> tuple[str, str]:
        """What is wrong with a JSON decision, as a key and in words; two empty texts if nothing is."""
        return self._channel.violation, self._channel.problem

    def _check_open(self) -> None:
        if self._reply is not None:
            raise RuntimeError("This reader is closed: a ReplyReader reads one reply, make a new one.")

    def _read(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            match piece.kind:
                case "text":
                    self._channel.text(piece.text)
                case "thinking":
                    self._telling.tell("thinking", piece.text)
                case "closed":
                    self._channel.thought_ended()
                case "orphan":
                    self._channel.withdraw()


def _channel(
    protocol: Protocol,
    telling: Telling,
    profile: ProviderProfile,
    tool_names: Collection[str],
    after: str,
    label: str | None,
) -> Channel:
    if isinstance(protocol, JsonProtocol):
        return JsonChannel(telling, goes_on=bool(after))
    goes_on = bool(after) or label is not None
    dialects = [dialect for dialect in profile.dialects() if not (goes_on and dialect == "json")]
    if isinstance(protocol, LabelProtocol):
        return LabelChannel(
            telling, protocol, dialects=dialects, tool_names=tool_names, after=after, label=label
        )
    return PlainChannel(telling, dialects=dialects, tool_names=tool_names, after=after)
