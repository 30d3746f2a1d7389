"""The request's messages, turn by turn: a turn that did not change is written once (docs/context.md)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from turnflow.graph.content import Content
from turnflow.graph.identity_cache import IdentityCache
from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.assemble_context.sent import has_text, says_something, unsent
from turnflow.nodes.assemble_context.style import Style


@dataclass(slots=True)
class Block:
    """A stretch of a request that does not depend on what stands around it."""

    messages: list[BaseMessage]
    """In the form of the request; without the system's."""
    system: list[Content]
    """What system messages in the transcript said."""
    call_ids: frozenset[str]
    unsent: tuple[int, ...]
    """Places of those that it was made of and that left no trace."""
    opens: bool
    """Whether it starts a user's part of the request, whatever stands before it."""
    closes: bool
    """Whether only a user can go on behind it."""
    counted: tuple[TokenCounter, int] | None = field(default=None, compare=False)

    def tokens(self, counter: TokenCounter) -> int:
        """What its messages take."""
        kept = self.counted
        if kept is None or (kept[0] is not counter and kept[0] != counter):
            kept = self.counted = (counter, sum(map(counter.message, self.messages)))
        return kept[1]


class _Kept(NamedTuple):
    rest: tuple[BaseMessage, ...]
    """The stretch's messages behind its first."""
    style: Style
    block: Block


_cache: IdentityCache[_Kept] = IdentityCache()


def block_of(messages: Sequence[BaseMessage], style: Style) -> Block:
    """A stretch of messages as a block; kept while its first message lives."""
    block = _known(messages, style)
    if block is None:
        block = _written(messages, style)
        _cache.put(messages[0], _Kept(tuple(messages[1:]), style, block))
    return block


def blocks_of(
    stretches: Sequence[Sequence[BaseMessage]], style: Style
) -> list[tuple[Sequence[BaseMessage], Block]]:
    """The blocks of a request, each with what it was made of.

    Together they are what all of the messages, written at once, would be.

    Args:
        stretches: The messages in order; where possible one block is made of each.
        style: How they are written.
    """
    blocks: list[tuple[Sequence[BaseMessage], Block]] = []
    taken: set[str] = set()
    for messages, known in _joined(stretches, style):
        block = known or block_of(messages, style)
        if not taken.isdisjoint(block.call_ids):  # an id that is used twice is renamed by what stands before
            every = [message for messages in stretches for message in messages]
            return [(every, _written(every, style))]
        taken |= block.call_ids
        blocks.append((messages, block))
    return blocks


def _known(messages: Sequence[BaseMessage], style: Style) -> Block | None:
    """The stretch's block, if it was written in this style before."""
    kept = _cache.get(messages[0])
    if kept is None or kept.style is not style or len(kept.rest) != len(messages) - 1:
        return None
    return kept.block if all(map(operator.is_, kept.rest, messages[1:])) else None


def _written(messages: Sequence[BaseMessage], style: Style) -> Block:
    shown = style.write(messages)
    system: list[Content] = []
    if shown and isinstance(shown[0], SystemMessage):
        system.append(shown.pop(0).content)
    calls = (call["id"] for m in shown if isinstance(m, AIMessage) for call in m.tool_calls)
    call_ids = frozenset(call_id for call_id in calls if call_id)
    return Block(shown, system, call_ids, unsent(messages, style), _opens(messages[0]), _closes(messages[-1]))


def _joined(
    stretches: Sequence[Sequence[BaseMessage]], style: Style
) -> list[tuple[Sequence[BaseMessage], Block | None]]:
    """The stretches, those joined that depend on each other; with their blocks where they are known."""
    joined: list[tuple[Sequence[BaseMessage], Block | None]] = []
    grown: list[BaseMessage] | None = None  # the last of them, where it is put together here
    is_open = False
    for messages in stretches:
        if not messages:
            continue
        known = _known(messages, style)
        if not joined or (not is_open and (known.opens if known else _opens(messages[0]))):
            joined.append((messages, known))
            grown = None
        else:
            if grown is None:
                grown = list(joined[-1][0])
                joined[-1] = (grown, None)
            grown += messages
        is_open = not (known.closes if known else _closes(messages[-1]))
    return joined


def _opens(message: BaseMessage) -> bool:
    """Whether a message starts a user's part of the request, whatever stands before it."""
    return isinstance(message, HumanMessage) and has_text(message.content)


def _closes(message: BaseMessage) -> bool:
    """Whether a message is a plain reply that is sent in any form, so that only a user can go on."""
    return isinstance(message, AIMessage) and not message.tool_calls and says_something(message)
