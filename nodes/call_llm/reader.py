"""The reply reader: what a model streams, told apart into answer and thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from turnflow.graph.profile import ProviderProfile
from turnflow.nodes.call_llm.code_spans import CodeTracker
from turnflow.nodes.call_llm.think_tags import Piece, ThinkTagScanner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnflow.nodes.call_llm.call_assembly import AssembledCall

_BLANKS = " \t\r"

EventKind = Literal["content", "thinking", "label", "call", "retract"]


class ReplyEvent(TypedDict):
    """One thing that was read, in the order of the reply.

    `content` is text for the user and `retract` takes back the last of it, exactly the `text` it carries;
    `thinking` is not for the answer; `label` and `call` carry a label and a tool's name.
    """

    kind: EventKind
    text: str


class Reply(TypedDict):
    """A whole reply, read."""

    text: str
    """The answer: byte for byte the `content` events without what was retracted."""
    thinking: str
    """All thoughts, one directly after the other: the `thinking` events."""
    label: str | None
    """The label, under a protocol that has labels."""
    calls: list[AssembledCall]
    """Tool calls that were written as text."""
    raw: str
    """The content channel as it came, tags included."""


class ReplyReader:
    """Reads one reply while it arrives (docs/replies.md).

    Any way of cutting a reply into chunks gives the same events, up to neighbours of one kind, which may come
    in parts. The time taken is linear in the text, whatever it holds.

    Args:
        profile: What the model does about thinking; the default profile if None.
        after: The answer's text that an earlier, truncated reply already showed. Code that it left open is
            still open, and as the reply goes on with an answer, a closer without an opener is text.
    """

    def __init__(self, *, profile: ProviderProfile | None = None, after: str = "") -> None:
        profile = profile or ProviderProfile()
        self._answer = _Answer(after)
        self._tags = ThinkTagScanner(
            profile.think_tags,
            in_code=self._answer.in_code,
            starts_thinking=profile.starts_thinking,
            orphans=not profile.starts_thinking and not after,
        )
        self._thinking: list[str] = []
        self._raw: list[str] = []
        self._told: list[tuple[EventKind, list[str]]] = []  # the events of the call that is under way
        self._reply: Reply | None = None

    def feed(self, text: str) -> list[ReplyEvent]:
        """Read the next text of the content channel.

        Raises:
            RuntimeError: The reader is closed.
        """
        self._check_open()
        self._raw.append(text)
        return self._read(self._tags.feed(text))

    def feed_thinking(self, text: str) -> list[ReplyEvent]:
        """Read text of a delta's `reasoning_content` or `reasoning` field: thinking, whatever it holds.

        Raises:
            RuntimeError: The reader is closed.
        """
        self._check_open()
        if text:
            self._tags.thought_came_apart()
        return self._read([Piece("thinking", text)])

    def close(self) -> list[ReplyEvent]:
        """End the reply and give its last events; closing again gives none."""
        if self._reply is not None:
            return []
        events = self._read(self._tags.close())
        self._reply = {
            "text": self._answer.text,
            "thinking": "".join(self._thinking),
            "label": None,
            "calls": [],
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

    def _check_open(self) -> None:
        if self._reply is not None:
            raise RuntimeError("This reader is closed: a ReplyReader reads one reply, make a new one.")

    def _read(self, pieces: Iterable[Piece]) -> list[ReplyEvent]:
        for piece in pieces:
            self._route(piece)
        told, self._told = self._told, []
        return [{"kind": kind, "text": "".join(parts)} for kind, parts in told]

    def _route(self, piece: Piece) -> None:
        match piece.kind:
            case "text":
                self._tell("content", self._answer.add(piece.text))
            case "thinking":
                self._think(piece.text)
            case "closed":
                self._answer.drop_blank_lines()
            case "orphan":
                shown, unshown = self._answer.withdraw()
                self._tell("retract", shown)
                self._think(shown + unshown)

    def _think(self, text: str) -> None:
        self._thinking.append(text)
        self._tell("thinking", text)

    def _tell(self, kind: EventKind, text: str) -> None:
        if not text:
            return
        if self._told and self._told[-1][0] == kind:
            self._told[-1][1].append(text)
        else:
            self._told.append((kind, [text]))


class _Answer:
    """The answer as the user sees it, without the blank lines that follow a thought.

    Args:
        after: What the user saw before it.
    """

    def __init__(self, after: str) -> None:
        self._code = CodeTracker(after)
        self._parts: list[str] = []
        self._dropping = False
        self._blanks: list[str] = []  # since the thought, on a line that may turn out to be blank

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def in_code(self) -> bool:
        return self._code.in_code()

    def add(self, text: str) -> str:
        """Take text outside thinking; give what of it, and of text before it, can be shown now."""
        shown = self._without_blank_lines(text) if self._dropping else text
        self._code.feed(shown)
        self._parts.append(shown)
        return shown

    def drop_blank_lines(self) -> None:
        """Begin to leave out blank lines: a thought ended here.

        Only lines that are blank to the user count. After a thought in the middle of a line, the rest of that
        line and its end are kept.
        """
        self._dropping = True

    def withdraw(self) -> tuple[str, str]:
        """Give up all text, what was shown and the blanks that were not: it was a thought."""
        shown, unshown = self.text, "".join(self._blanks)
        self._code.start_over()
        self._parts = []
        self._blanks = []
        self._dropping = True
        return shown, unshown

    def _without_blank_lines(self, text: str) -> str:
        kept = ""
        if not self._code.at_line_start:
            line, newline, text = text.partition("\n")
            kept = line + newline
            if line.strip(_BLANKS):
                self._dropping = False
                return kept + text
        blank = len(text) - len(text.lstrip(_BLANKS + "\n"))
        line_start = text.rfind("\n", 0, blank) + 1
        if line_start:
            self._blanks = []
        if blank == len(text):
            self._blanks.append(text[line_start:])
            return kept
        self._dropping = False
        unshown, self._blanks = "".join(self._blanks), []
        return kept + unshown + text[line_start:]
