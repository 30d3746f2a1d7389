"""What was said in a turn, as one text."""

from __future__ import annotations

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from turnflow.graph.archive import ArchivedTurn
from turnflow.graph.content import iter_text
from turnflow.graph.past import Past
from turnflow.graph.text import storable
from turnflow.graph.tool_names import ASK_USER
from turnflow.graph.turns import is_pinned


def said_in(turn: ArchivedTurn, record: Past) -> str:
    """The user's texts, their answers to questions, and the replies of a turn; '' where nothing was said.

    Left out are calls and what was said beside them, results of tools, media, and messages that are pinned,
    as each request holds those anyway.
    """
    pieces = [piece for message in turn["messages"] if (piece := _piece(message, record))]
    return "\n".join(pieces)


def _piece(message: AnyMessage, record: Past) -> str:
    introduction = _introduction(message, record)
    text = storable("\n".join(iter_text(message.content))).strip() if introduction else ""
    return introduction.replace("{text}", text, 1) if text else ""


def _introduction(message: BaseMessage, record: Past) -> str:
    """How the text of a message is introduced; '' where it is left out."""
    if is_pinned(message):
        return ""
    if isinstance(message, HumanMessage):
        return record.user_said
    if isinstance(message, ToolMessage):
        return record.user_said if message.name == ASK_USER and message.status == "success" else ""
    return record.assistant_said if isinstance(message, AIMessage) and not message.tool_calls else ""
