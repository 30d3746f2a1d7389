"""What was read of replies whose run was broken off from outside, until the turn is settled.

The node that reads a reply cannot write any more once it is broken off, so what it has read is kept in this
process, by saver, thread and message id. It is gone with the process, and with the saver; of a saver at most
`MOST_KEPT` replies are kept.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from turnflow.graph import daemon
from turnflow.graph.flow import NodeRun
from turnflow.graph.langgraph_access import saver_of
from turnflow.graph.outcome import Usage
from turnflow.graph.step import Step

logger = logging.getLogger("turnflow")

MOST_KEPT = 32

Partial = tuple[Step, Usage]
"""A reply, as far as it was read, and what it took."""

_Key = tuple[str | None, str, str]

_kept: weakref.WeakKeyDictionary[Any, OrderedDict[_Key, Partial]] = weakref.WeakKeyDictionary()


def is_broken_off(error: BaseException) -> bool:
    """Whether what was raised comes from outside, to end this very task, rather than from what it called."""
    if isinstance(error, asyncio.CancelledError):
        return daemon.is_being_cancelled()
    return not isinstance(error, Exception)


def keep_partial(run: NodeRun, message_id: str, read: Callable[[], Partial]) -> None:
    """Keep what was read of a reply, where the run is saved and there is text to keep; raises nothing.

    Args:
        run: The node's run.
        message_id: Id of the reply's message.
        read: Gives what was read.
    """
    saver = saver_of(run.config)
    if saver is None:
        return
    try:
        partial = read()
        kept = _kept.setdefault(saver, OrderedDict())  # a saver need not take weak references
    except Exception:
        logger.exception("what was read of reply %s is lost", message_id)
        return
    if not partial[0]["text"].strip():
        return
    kept[_key(run, message_id)] = partial
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)


def take_partial(run: NodeRun, message_id: str) -> Partial | None:
    """What was kept of a reply; it is kept no longer."""
    try:
        kept = _kept.get(saver_of(run.config))
    except TypeError:
        return None
    return kept.pop(_key(run, message_id), None) if kept else None


def _key(run: NodeRun, message_id: str) -> _Key:
    return run.thread_id, run.namespace, message_id
