"""How the messages of a request are written: in which form, with which texts around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from turnflow.graph.reply_form import ReplyForm
from turnflow.graph.strict_projection import project
from turnflow.nodes.assemble_context.written import Wording, written


@dataclass(frozen=True)
class Style:
    """A form and its texts."""

    form: ReplyForm
    wording: Wording

    def written(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages in the form."""
        return written(messages, self.form, self.wording)

    def write(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages in the form, as a strict provider takes them."""
        return project(self.written(messages), self.wording.fillers)


_styles: list[Style] = []
_MAX_STYLES = 8


def style_of(form: ReplyForm, wording: Wording) -> Style:
    """The style; the same object for equal ones, so that what was written in it is found again."""
    for known in tuple(_styles):
        if known.form == form and known.wording == wording:
            return known
    style = Style(form, wording)
    _styles.insert(0, style)
    del _styles[_MAX_STYLES:]
    return style
