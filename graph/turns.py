"""The transcript as turns: each begins with a user message (docs/context.md).

A user message that came while a turn ran, and was taken into it, begins none (docs/inbox.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from turnflow.graph.transcript import is_steering, own_fields


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Where one turn stands in a list of messages.

    Attributes:
        start: Index of its first message.
        end: Index behind its last.
        input_id: Id of the user message that it begins with; '' where none stands before the first messages.
    """

    start: int
    end: int
    input_id: str


def turn_spans(messages: Sequence[BaseMessage]) -> list[TurnSpan]:
    """The turns of a transcript, oldest first; each message is in exactly one."""
    if not messages:
        return []
    # By class: asking pydantic what each of ten thousand messages is an instance of takes milliseconds.
    human = {kind for kind in set(map(type, messages)) if issubclass(kind, HumanMessage)}
    starts = [
        index
        for index, message in enumerate(messages)
        if type(message) in human and not (message.additional_kwargs and is_steering(message))
    ]
    begin = set(starts)
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
    ends = [*starts[1:], len(messages)]
    return [
        TurnSpan(start, end, (messages[start].id or "") if start in begin else "")
        for start, end in zip(starts, ends, strict=True)
        if end > start
    ]


def is_pinned(message: BaseMessage) -> bool:
    """Whether a message stays in each request, however old it is (`pinned`)."""
    return own_fields(message).get("pinned") is True


def pinned(message: AnyMessage) -> AnyMessage:
    """The message, pinned: it stays in each request, however old it becomes.

    Send it as input, or put it in place of the one with its id by `graph.update_state`.

    Raises:
        ValueError: It is no message.
    """
    if not isinstance(message, BaseMessage):
        raise ValueError(f"only a message can be pinned, such as HumanMessage(...), not {message!r:.80}")
    own = {**own_fields(message), "pinned": True}
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "turnflow": own}})


def last_turns(messages: Sequence[AnyMessage], count: int) -> list[AnyMessage]:
    """The last turns, behind what is pinned of those before; a pinned reply keeps its calls' results."""
    spans = turn_spans(messages)
    if len(spans) <= count:
        return list(messages)
    cut = spans[-count].start if count else len(messages)
    return [*pinned_groups(messages[:cut]), *messages[cut:]]


def pinned_groups(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What is pinned; where a reply that calls tools, or a result of it, is pinned, both stay whole."""
    kept: list[AnyMessage] = []
    group: list[AnyMessage] = []
    for message in [*messages, None]:
        if message is not None and isinstance(message, ToolMessage) and group:
            group.append(message)
            continue
        if any(is_pinned(each) for each in group):
            kept += group
        group = []
        if message is None:
            break
        if isinstance(message, AIMessage) and message.tool_calls:
            group = [message]
        elif is_pinned(message):
            kept.append(message)
    return kept
