"""What a turn does with its inbox: looks into it, and acknowledges what is stored (docs/inbox.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.types import Overwrite

from turnflow.graph.flow import Body, InThread, NodeRun, TwoWays
from turnflow.graph.inbox import Inbox, InputSource
from turnflow.graph.langgraph_access import own_fields_of, remembers, saver_of
from turnflow.graph.state import TRANSCRIPT
from turnflow.graph.transcript import unmarked_id

logger = logging.getLogger("turnflow")

T = TypeVar("T")

TAKEN = "taken"
"""Section of the session: ids of the items that were taken in last, by which they are known for good."""

_MOST_TAKEN = 200

_PLACES = ("checkpoint_ns", "checkpoint_id", "checkpoint_map", "thread_ts")


@dataclass(frozen=True)
class Looked:
    """What a turn found in its inbox.

    Attributes:
        new: The items that its conversation does not hold yet, in order.
        held: Ids of the others.
    """

    new: Sequence[HumanMessage] = ()
    held: Sequence[str] = ()


def look(state: Any, run: NodeRun) -> Body[Looked]:
    """What is in the run's inbox. What the conversation holds of it is acknowledged, if that is stored.

    Args:
        state: The state.
        run: The node's run.
    """
    inbox = run.resources.context.inbox
    if inbox is None:
        return Looked()
    items = yield from pending_in(inbox)
    held = held_ids(items, state, is_embedded=bool(run.namespace))
    if held:
        stored = yield from _stored_ids(held, state, run)
        yield from acknowledge(inbox, stored)
    return Looked([item for item in items if str(item.id) not in held], held)


def held_ids(items: Sequence[HumanMessage], state: Any, *, is_embedded: bool = False) -> list[str]:
    """Ids of the items that a conversation holds.

    Args:
        items: The items.
        state: Its state.
        is_embedded: Whether a parent graph may have given the turn's input another id.
    """
    if not items:
        return []
    known = {str(m.id) for m in state.get("messages") or () if isinstance(m, HumanMessage)}
    if is_embedded:
        known |= {unmarked_id(each) for each in known}
    known.update(_taken(state))
    return [str(item.id) for item in items if str(item.id) in known]


def note_taken(state: Any, ids: Iterable[str]) -> dict[str, Any]:
    """The change of the session that notes ids of items as taken in; empty where they are known."""
    known = _taken(state)
    new = [each for each in ids if each not in known]
    if not new:
        return {}
    gone = known[: max(0, len(known) + len(new) - _MOST_TAKEN)]
    return {TAKEN: {**dict.fromkeys(gone), **dict.fromkeys(new, True)}}


def pending_in(inbox: InputSource) -> Body[list[HumanMessage]]:
    """What is in an inbox; nothing where it fails, which is logged."""
    try:
        items = yield from _called(inbox, lambda: list(inbox.pending()))
        _check(items)
    except Exception as error:
        logger.warning("the inbox failed; the turn goes on without it", exc_info=error)
        return []
    return items


def acknowledge(inbox: InputSource, ids: Collection[str]) -> Body[None]:
    """Take items out of an inbox; that it fails is logged, and it is tried again later."""
    if not ids:
        return
    try:
        yield from _called(inbox, lambda: inbox.acknowledge(list(ids)))
    except Exception as error:
        logger.warning("the inbox failed; items that were taken in stay in it", exc_info=error)


def acknowledge_held(inbox: InputSource | None, state: Any) -> Body[None]:
    """Acknowledge what a conversation holds whose run is over, and so is stored as far as it ever is."""
    if inbox is not None:
        items = yield from pending_in(inbox)
        yield from acknowledge(inbox, held_ids(items, state))


def is_all_held(inbox: InputSource | None, given: Any, state: Callable[[], TwoWays]) -> Body[bool]:
    """Whether a run is given nothing but items of its inbox that an earlier one has brought into the thread.

    Those that are still in the inbox are acknowledged.

    Args:
        inbox: The inbox.
        given: What the run is given.
        state: Reads the thread's stored state, a `StateSnapshot`.
    """
    messages = given if isinstance(given, list) else [given]
    users = [message for message in messages if isinstance(message, HumanMessage)]
    if inbox is None or not users or not all(message.id for message in users):
        return False
    items = yield from pending_in(inbox)
    snapshot = yield state()
    held = held_ids(items, snapshot.values)
    yield from acknowledge(inbox, held)
    known = {*held, *_taken(snapshot.values)}
    return all(message.id in known for message in users)


def _taken(state: Any) -> list[str]:
    """The ids that the session has noted, oldest first."""
    return list((state.get("session") or {}).get(TAKEN) or {})


def _called(inbox: InputSource, function: Callable[[], T]) -> Body[T]:
    if isinstance(inbox, Inbox):  # it never blocks
        return function()
    value: T = yield InThread(function)
    return value


def _check(items: Sequence[object]) -> None:
    for item in items:
        if not isinstance(item, HumanMessage) or not isinstance(item.id, str) or not item.id:
            raise TypeError(f"`pending` gives a list of HumanMessage, each with an id, not {item!r:.80}")


def _stored_ids(ids: Collection[str], state: Any, run: NodeRun) -> Body[list[str]]:
    """Which of the items that a conversation holds would be found there after a crash.

    The saver is asked, as only it knows what has reached it: checkpoints may come late, or at the end alone.
    """
    saver = saver_of(run.config)
    if saver is None or run.thread_id is None:
        # The caller keeps the conversation: what it gave before the turn's input is in its own hands.
        known = {str(m.id) for m in _before_input(state.get("messages") or (), state.get("turn") or {})}
        return [each for each in ids if each in known]
    own = {key: value for key, value in own_fields_of(run.config).items() if key not in _PLACES}
    place = {**own, "thread_id": run.thread_id, "checkpoint_ns": _keeping_namespace(run)}
    try:
        found = yield from _read_ids(saver, {"configurable": place})
    except Exception as error:
        logger.warning("it is not known which items of the inbox are stored; they stay", exc_info=error)
        return []
    if run.namespace:
        found |= {unmarked_id(each) for each in found}
    if remembers(run.config):
        here = {str(message.id) for message in state.get("messages") or ()}
        found |= {*_taken(state)} - here - {unmarked_id(each) for each in here}
    return [each for each in ids if each in found]


def _keeping_namespace(run: NodeRun) -> str:
    """Where the next turn finds the conversation: here, or in the nearest parent that is not a task's."""
    parts: list[str] = []
    for part in run.namespace.split("|"):
        if ":" in part:
            break
        parts.append(part)
    return "|".join(parts)


def _before_input(messages: Sequence[AnyMessage], turn: dict[str, Any]) -> Sequence[AnyMessage]:
    """The messages before a turn's input, or before the newest where the turn is yet to begin."""
    ids = [message.id for message in messages]
    end = len(ids)
    if turn.get("input_id") in ids and turn["phase"] != "ended":
        end = ids.index(turn["input_id"])
    while end and isinstance(messages[end - 1], HumanMessage):
        end -= 1
    return messages[:end]


def _read_ids(saver: Any, config: Any) -> Body[set[str]]:
    """The ids of all messages in the stored transcript of a conversation."""
    saved = yield TwoWays(lambda: saver.get_tuple(config), lambda: saver.aget_tuple(config))
    if saved is None:
        return set()
    values = saved.checkpoint["channel_values"]
    found = set(_ids_of(list(values.values())))
    if TRANSCRIPT not in values:
        asked: dict[str, Any] = {"config": saved.config, "channels": [TRANSCRIPT]}
        told = yield TwoWays(
            lambda: saver.get_delta_channel_history(**asked),
            lambda: saver.aget_delta_channel_history(**asked),
        )
        history = told.get(TRANSCRIPT) or {}
        found |= set(_ids_of([history.get("seed"), *(value for _, _, value in history.get("writes", ()))]))
    return found


def _ids_of(value: Any) -> Iterable[str]:
    """The ids of the messages in a stored value: a list of them, one, or what stands for them."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _ids_of(each)
    elif isinstance(value, Overwrite):
        yield from _ids_of(value.value)
    elif isinstance(value, BaseMessage):
        if value.id and not isinstance(value, RemoveMessage):
            yield value.id
    elif isinstance(value, dict):
        if "content" in value and isinstance(value.get("id"), str):
            yield value["id"]
    elif hasattr(value, "value"):  # a snapshot of a delta channel
        yield from _ids_of(value.value)
