"""The effects journal on a saver of another kind: markers among what tasks wrote (docs/effects.md).

A marker is a write of a task of its own, to a channel that no graph has, at the checkpoint that the call's
task comes after. LangGraph stores such writes and passes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

from turnflow.graph.effects_journal import NEW, STARTED, Effect, EffectFound, found_among
from turnflow.graph.flow import Body, TwoWays

Saver = BaseCheckpointSaver[Any]

MARKER = "turnflow_effect"
"""The channel of markers."""

MAX_STEPS = 50
"""How many checkpoints back markers are looked for."""

_PRIVATE = "__pregel_"
_PLACES = frozenset({"checkpoint_ns", "checkpoint_id", "checkpoint_map", "thread_ts"})
_COPIES = frozenset({"fork", "update"})
"""Sources of checkpoints that stand for the one before, with the same calls ahead."""


def start_marked(
    saver: Saver, config: RunnableConfig, effect: Effect, *, again: bool, needs_checkpoint: bool
) -> Body[EffectFound | None]:
    """Mark a call as started, unless it was before.

    Args:
        saver: The saver.
        config: The task's configuration.
        effect: The call.
        again: Mark it anew if it was started and is not done.
        needs_checkpoint: Mark it only if the checkpoint that its task comes after is stored.

    Returns:
        What is known of the call; None, and nothing marked, if the checkpoint is needed and not there yet.
    """
    place = _place(config, effect.namespace, effect.checkpoint_id)
    number = 0
    saved: CheckpointTuple | None = yield _get(saver, place)
    if saved is None and needs_checkpoint:
        return None
    if saved is not None:
        number = len(_markers_of(saved, effect.batch_id, effect.call_id))
    for _ in range(MAX_STEPS):
        if saved is None:
            break
        markers = _markers_of(saved, effect.batch_id, effect.call_id)
        if same := [marker for marker in markers if marker["key"] == effect.key]:
            found = _found(saved, same)
            if found is not None and not (again and found is STARTED):
                return found
            break
        if saved.metadata.get("source") not in _COPIES:
            break
        saved = yield from _parent(saver, place, saved)
    yield _put(saver, place, _marker(effect, number))
    return NEW


def withdraw_marked(saver: Saver, config: RunnableConfig, effect: Effect) -> Body[None]:
    """Mark a call as not started after all, if it is marked as started."""
    place = _place(config, effect.namespace, effect.checkpoint_id)
    saved: CheckpointTuple | None = yield _get(saver, place)
    markers = _markers_of(saved, effect.batch_id, effect.call_id) if saved else []
    if markers and not markers[-1]["withdrawn"]:
        yield _put(saver, place, {**markers[-1], "number": len(markers), "withdrawn": True})


def find_marked(
    saver: Saver, config: RunnableConfig, namespace: str, batch_id: str
) -> Body[dict[str, EffectFound]]:
    """Give what the markers say about a batch, by call id, from the newest checkpoint back."""
    place = _place(config, namespace, None)
    found: dict[str, EffectFound | None] = {}
    saved: CheckpointTuple | None = yield _get(saver, place)
    is_inside = False
    for _ in range(MAX_STEPS):
        if saved is None:
            break
        for call_id, markers in _markers(saved, batch_id).items():
            if call_id not in found:
                found[call_id] = _found(saved, markers)
        was_inside, is_inside = is_inside, _batch_id(saved) == batch_id
        if was_inside and not is_inside:
            break  # what came before the batch
        saved = yield from _parent(saver, place, saved)
    return {call_id: one for call_id, one in found.items() if one is not None}


def _marker(effect: Effect, number: int) -> dict[str, Any]:
    return {
        "batch_id": effect.batch_id,
        "call_id": effect.call_id,
        "key": effect.key,
        "name": effect.name,
        "task_id": effect.task_id,
        "number": number,
        "withdrawn": False,
    }


def _markers_of(saved: CheckpointTuple, batch_id: str, call_id: str) -> list[dict[str, Any]]:
    """The markers of a call at a checkpoint, the oldest first."""
    return _markers(saved, batch_id).get(call_id, [])


def _markers(saved: CheckpointTuple, batch_id: str) -> dict[str, list[dict[str, Any]]]:
    """The markers of a batch at a checkpoint, by call id, the oldest first."""
    values = [value for _, channel, value in saved.pending_writes or () if channel == MARKER]
    markers: dict[str, list[dict[str, Any]]] = {}
    for value in sorted(values, key=lambda value: int(value["number"])):
        if value["batch_id"] == batch_id:
            markers.setdefault(value["call_id"], []).append(value)
    return markers


def _found(saved: CheckpointTuple, markers: list[dict[str, Any]]) -> EffectFound | None:
    """What the markers of a call say, with what its task wrote; None for a call that was withdrawn."""
    last = markers[-1]
    if last["withdrawn"]:
        return None
    writes = [
        (channel, value)
        for task_id, channel, value in saved.pending_writes or ()
        if task_id == last["task_id"]
    ]
    # An error stays beside what the task wrote when it ran once more.
    if all(channel in WRITES_IDX_MAP for channel, _ in writes):
        return STARTED
    return found_among("done", writes, last["call_id"])


def _batch_id(saved: CheckpointTuple) -> Any:
    batch = saved.checkpoint["channel_values"].get("batch")
    return batch.get("id") if isinstance(batch, dict) else None


def _place(config: RunnableConfig, namespace: str, checkpoint_id: str | None) -> dict[str, Any]:
    """What names a checkpoint, or (None) a namespace's newest, with the keys of the caller's own."""
    given = config.get("configurable", {})
    own = {key: value for key, value in given.items() if not key.startswith(_PRIVATE) and key not in _PLACES}
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    # LangGraph, too, makes a text of a thread's id before it asks the saver.
    return {**own, "thread_id": str(given["thread_id"]), "checkpoint_ns": namespace, **named}


def _parent(saver: Saver, place: Mapping[str, Any], saved: CheckpointTuple) -> Body[CheckpointTuple | None]:
    if saved.parent_config is None:
        return None
    parent: CheckpointTuple | None = yield _get(saver, {**place, **saved.parent_config["configurable"]})
    return parent


def _get(saver: Saver, place: Mapping[str, Any]) -> TwoWays:
    config: RunnableConfig = {"configurable": dict(place)}
    return TwoWays(lambda: saver.get_tuple(config), lambda: saver.aget_tuple(config))


def _put(saver: Saver, place: Mapping[str, Any], marker: dict[str, Any]) -> TwoWays:
    """Write a marker. Savers keep a task's first write at each position, so each has a task of its own."""
    config: RunnableConfig = {"configurable": dict(place)}
    name = "|".join([place["checkpoint_id"], marker["batch_id"], marker["call_id"], str(marker["number"])])
    task_id = str(uuid5(NAMESPACE_OID, name))
    writes = [(MARKER, marker)]
    return TwoWays(
        lambda: saver.put_writes(config, writes, task_id), lambda: saver.aput_writes(config, writes, task_id)
    )
