"""What becomes of the text outside thinking: plain text, a label and its body, or a JSON decision."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from turnflow.graph.json_decision import JsonDecision
from turnflow.graph.profile import Dialect
from turnflow.graph.protocol import UNKNOWN, LabelProtocol
from turnflow.graph.text_call import TextCall
from turnflow.graph.tool_names import ASK_USER
from turnflow.nodes.call_llm.answer_text import AnswerText
from turnflow.nodes.call_llm.dialects import DialectScanner, Found
from turnflow.nodes.call_llm.json_reader import JsonReader
from turnflow.nodes.call_llm.label_reader import LabelReader
from turnflow.nodes.call_llm.repeated_label import RepeatedLabel
from turnflow.nodes.call_llm.reply_events import Telling


class Channel(Protocol):
    """Takes the text outside thinking, piece by piece, and tells what it is."""

    label: str | None
    calls: list[TextCall]
    violation: str
    problem: str

    @property
    def body(self) -> str:
        """What stands behind the label; all text where there is none."""

    def in_code(self) -> bool:
        """Whether a think tag that came now would be text."""

    def text(self, text: str) -> None:
        """Take text."""

    def thought_ended(self) -> None:
        """Note that a thought ended here."""

    def withdraw(self) -> None:
        """Turn all that came into a thought: a closer came whose opener never did."""

    def close(self, *, cut_off: bool) -> None:
        """Take the end of the reply; `cut_off` if a limit of tokens made it."""


class _WrittenCalls:
    """Takes the calls that are written in a text out of it, where there are dialects to read them by.

    Args:
        dialects: How calls are written.
        tool_names: Names of the tools.
        text: Where the rest of the text goes; it knows what of it is code.
    """

    def __init__(self, dialects: Sequence[Dialect], tool_names: Collection[str], text: AnswerText) -> None:
        self._text = text
        self._scanner = (
            DialectScanner(dialects, tool_names=tool_names, in_code=text.in_code) if dialects else None
        )
        self._markup: list[str] = []
        self.calls: list[TextCall] = []

    @property
    def are_read(self) -> bool:
        """Whether calls are read at all."""
        return self._scanner is not None

    @property
    def in_block(self) -> bool:
        """Whether a call has begun."""
        return self._scanner is not None and self._scanner.in_block

    def feed(self, text: str) -> Iterator[str]:
        """Take text; give what of it belongs to no call. Lazy, as `DialectScanner.feed` is."""
        if self._scanner is None:
            yield text
        else:
            yield from self._outside(self._scanner.feed(text))

    def close(self, *, cut_off: bool) -> Iterator[str]:
        """End the text; give what was held back and is no call."""
        if self._scanner is not None:
            yield from self._outside(self._scanner.close(cut_off=cut_off))

    def start_over(self) -> tuple[str, str]:
        """Forget all calls; give their markup, and what is held back."""
        markup = "".join(self._markup)
        self.calls.clear()
        self._markup.clear()
        return markup, self._scanner.start_over() if self._scanner else ""

    def _outside(self, found: Iterator[Found]) -> Iterator[str]:
        for each in found:
            if each.call is None:
                yield each.text
            else:
                self.calls.append(each.call)
                self._markup.append(each.markup)
                self._text.drop_blank_lines()


class PlainChannel:
    """The text is the answer, tool calls that are written in it taken out."""

    def __init__(
        self, telling: Telling, *, dialects: Sequence[Dialect], tool_names: Collection[str], after: str
    ) -> None:
        self._telling = telling
        self._answer = AnswerText(after)
        self._came: list[str] = []
        self._written = _WrittenCalls(dialects, tool_names, self._answer)
        self.label: str | None = None
        self.calls = self._written.calls
        self.violation = self.problem = ""

    @property
    def body(self) -> str:
        """The answer."""
        return self._telling.content

    def in_code(self) -> bool:
        """Whether the answer ends in code, or a call has begun."""
        return self._written.in_block or self._answer.in_code()

    def text(self, text: str) -> None:
        """Take text of the answer, or of a call in it."""
        self._came.append(text)
        for piece in self._written.feed(text):
            self._show(piece)

    def thought_ended(self) -> None:
        """Leave out the blank lines that follow."""
        self._answer.drop_blank_lines()

    def withdraw(self) -> None:
        """Take back the answer; it was a thought, the calls in it too."""
        self._telling.retract_all()
        shown, unshown = self._answer.withdraw()
        self._telling.tell("thinking", "".join(self._came) if self._written.are_read else shown + unshown)
        self._came.clear()
        self._written.start_over()

    def close(self, *, cut_off: bool) -> None:
        """End the answer."""
        for piece in self._written.close(cut_off=cut_off):
            self._show(piece)

    def _show(self, text: str) -> None:
        self._telling.tell("content", self._answer.add(text))


class LabelChannel:
    """The first line carries a label, which says what becomes of the body.

    Args:
        telling: Where events go.
        protocol: The labels.
        dialects: How calls are written in the body.
        tool_names: Names of the tools.
        after: What an earlier, cut-off part of the reply already showed.
        label: The label of that part; the reply then begins in its body.
    """

    def __init__(
        self,
        telling: Telling,
        protocol: LabelProtocol,
        *,
        dialects: Sequence[Dialect],
        tool_names: Collection[str],
        after: str,
        label: str | None,
    ) -> None:
        self._telling = telling
        self._protocol = protocol
        self._body = AnswerText(after)
        self._written = _WrittenCalls(dialects, tool_names, self._body)
        self._labels: LabelReader | RepeatedLabel = (
            LabelReader(protocol.allowed) if label is None else RepeatedLabel(label)
        )
        self._came: list[str] = []
        self._passed = ""
        self._has_begun = self._thought_before = self._thought_on_line = False
        self.label: str | None = label
        self.calls = self._written.calls
        self.violation = self.problem = ""

    @property
    def body(self) -> str:
        """What stands behind the label; the whole text where there is none."""
        return self._body.text

    def in_code(self) -> bool:
        """Whether the body ends in code, or a call has begun."""
        return self._written.in_block or self._body.in_code()

    def text(self, text: str) -> None:
        """Take text of the label's line, the body, or a call in it."""
        self._came.append(text)
        self._has_begun = self._has_begun or bool(text.strip())
        self._read(self._labels.feed(text))

    def thought_ended(self) -> None:
        """Leave out the blank lines that follow in the body."""
        if self.label is not None:
            self._body.drop_blank_lines()
        self._thought_before = True
        self._thought_on_line = self._thought_on_line or self._has_begun

    def withdraw(self) -> None:
        """Forget the label; what came was a thought."""
        came = "".join(self._came)
        self._telling.retract_all()
        _, unshown = self._body.withdraw()
        markup, held = self._written.start_over()
        if self._is_thought:
            # The body went out as a thought already; what did not is in calls, or was held back.
            came = markup + unshown + held
        self._telling.tell("thinking", came.replace(self._passed, "", 1) if self._passed else came)
        self._labels = LabelReader(self._protocol.allowed)
        self._came.clear()
        self._passed = ""
        self._thought_before, self._thought_on_line = True, False
        self.label = None

    def close(self, *, cut_off: bool) -> None:
        """Decide the label if it is not decided yet, and end the body."""
        self._read(self._labels.close())
        for piece in self._written.close(cut_off=cut_off):
            self._show(piece)
        if self.label in self._protocol.final and not self._protocol.stream_final:
            self._telling.tell("content", self._body.text)

    @property
    def _is_thought(self) -> bool:
        return self.label is not None and self._protocol.is_thought(self.label)

    def _read(self, read: Sequence[tuple[str, str]]) -> None:
        for kind, text in read:
            if kind == "passed":
                self._passed = text
                self._telling.tell("thinking", text)
            elif kind == "label":
                self.label = text
                if text != UNKNOWN:
                    self._telling.tell("label", text)
                if self._thought_on_line or (text == UNKNOWN and self._thought_before):
                    self._body.drop_blank_lines()
            else:
                for piece in self._written.feed(text):
                    self._show(piece)

    def _show(self, text: str) -> None:
        shown = self._body.add(text)
        if self._is_thought:
            self._telling.tell("thinking", shown)
        elif self.label in self._protocol.final and self._protocol.stream_final:
            self._telling.tell("content", shown)


class JsonChannel:
    """The text is one JSON object; once it has begun, think tags are text.

    Args:
        telling: Where events go.
        goes_on: Whether the reply goes on with one that was cut off.
    """

    def __init__(self, telling: Telling, *, goes_on: bool) -> None:
        self._telling = telling
        self._goes_on = goes_on
        self._reader = JsonReader(inside_text=goes_on)
        self._came: list[str] = []
        self._thoughts: list[str] = []
        self._question = ""
        self.label: str | None = None
        self.calls: list[TextCall] = []
        self.violation = self.problem = ""

    @property
    def body(self) -> str:
        """The reply's text, its question, or all text where it is nothing like a decision."""
        came = "".join(self._came)
        return self._telling.content or self._question or ("" if self.label or "{" in came else came)

    def in_code(self) -> bool:
        """Whether an object is open."""
        return self._reader.in_object

    def text(self, text: str) -> None:
        """Take text of the object, or around it."""
        self._came.append(text)
        self._tell(self._reader.feed(text))

    def thought_ended(self) -> None:
        """White space around the object means nothing."""

    def withdraw(self) -> None:
        """What came was a thought, a decision in it too."""
        self._telling.retract_all()
        came = "".join(self._came)
        told = "".join(self._thoughts)
        self._telling.tell("thinking", came.replace(told, "", 1) if told else came)
        self._came.clear()
        self._thoughts.clear()
        self._reader = JsonReader(inside_text=self._goes_on)

    def close(self, *, cut_off: bool) -> None:
        """Read the whole. A question that was cut off is not asked."""
        is_whole = not (cut_off and self._reader.in_object)
        self._tell(self._reader.close())
        decision = self._reader.decision
        self.violation, self.problem = decision["violation"], decision["problem"]
        self.label = decision["action"] or None
        asks = decision["action"] == "clarify" and not decision["violation"]
        self._question = decision["question"]
        self.calls = [_question(decision, complete=is_whole)] if asks else list(decision["calls"])
        if self.label:
            self._telling.tell("label", self.label)

    def _tell(self, read: Sequence[tuple[str, str]]) -> None:
        for kind, text in read:
            if kind == "thinking":
                self._thoughts.append(text)
            self._telling.tell("content" if kind == "content" else "thinking", text)


def _question(decision: JsonDecision, *, complete: bool) -> TextCall:
    """The call that asks the user."""
    question = {"prompt": decision["question"], "options": decision["options"]}
    arguments = json.dumps({"questions": [question]}, ensure_ascii=False)
    return {"name": ASK_USER, "arguments": arguments, "complete": complete}
