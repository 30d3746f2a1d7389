"""What a turn did, step by step, as its facts tell it, and where two such paths part (docs/record.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage

from turnflow.graph.message_form import load_message
from turnflow.graph.replay_parts import Fact
from turnflow.graph.transcript import own_fields

_HANDLE = "the handle"


class Step(NamedTuple):
    """One thing that a turn did."""

    round: int
    what: str
    """`decision`, `message`, `result` or `end`."""
    said: Any


@dataclass(frozen=True)
class Difference:
    """Where a replay first went another way.

    Attributes:
        round: The round.
        what: What differs: `decision`, `message`, `result` or `end`.
        was: What is on record; None where there is nothing.
        now: What today's graph did; None where it did nothing.
    """

    round: int
    what: str
    was: Any
    now: Any


def path_of(facts: Iterable[Fact]) -> list[Step]:
    """What a turn did, in order; results of a batch in the order of its calls, whenever they came."""
    path: list[Step] = []
    order: dict[str, int] = {}
    results: list[tuple[int, Step]] = []
    end: Step | None = None
    for fact in facts:
        number = int(fact["round"])
        if fact["type"] == "messages" and "after" not in fact:
            told: list[BaseMessage] = [load_message(form) for form in fact["messages"]]
            for message in told:
                if isinstance(message, ToolMessage):
                    if message.tool_call_id in order:
                        results.append((order[message.tool_call_id], Step(number, "result", _said(message))))
                    continue
                if isinstance(message, RemoveMessage):
                    continue
                path += _flushed(results)
                if isinstance(message, AIMessage):
                    order |= {str(call["id"]): len(order) + i for i, call in enumerate(message.tool_calls)}
                path.append(Step(number, "message", _said(message)))
        elif fact["type"] == "decision":
            path += _flushed(results)
            path.append(Step(number, "decision", (fact["kind"], fact["key"], fact.get("label", ""))))
        elif fact["type"] == "turn.ended":
            outcome = fact["outcome"]
            end = Step(number, "end", (outcome["status"], outcome["stop_reason"], fact["answer"]))
    path += _flushed(results)
    is_over = end is not None and end.said[0] not in {"paused", "cancelled"}
    return [*path, *([end] if end is not None and is_over else [])]


def _flushed(results: list[tuple[int, Step]]) -> Iterator[Step]:
    ordered = sorted(results, key=lambda pair: pair[0])
    results.clear()
    return (step for _, step in ordered)


def without_handle(message: BaseMessage) -> Any:
    """The content without the handle of its whole: that is a new one each time."""
    handle = own_fields(message).get("handle")
    if not handle:
        return message.content
    if isinstance(message.content, str):
        return message.content.replace(handle, _HANDLE)
    return [
        {**block, "text": block["text"].replace(handle, _HANDLE)}
        if isinstance(block, dict) and block.get("type") == "text"
        else block
        for block in message.content
    ]


def _said(message: BaseMessage) -> Any:
    if isinstance(message, ToolMessage):
        return (message.tool_call_id, message.status, without_handle(message))
    calls = [(c["name"], c["args"]) for c in message.tool_calls] if isinstance(message, AIMessage) else []
    return (message.type, message.content, calls)


def first_difference(before: Sequence[Step], after: Sequence[Step]) -> Difference | None:
    """Where one path first goes another way than the other; None where they are the same."""
    for was, now in zip_longest(before, after):
        if was != now:
            place: Step = was or now
            is_same_kind = was is not None and now is not None and was.what == now.what
            then = now and (now.said if is_same_kind or was is None else (now.what, now.said))
            return Difference(place.round, place.what, was and was.said, then)
    return None
