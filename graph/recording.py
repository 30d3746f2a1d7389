"""What each node leaves in the record beside its events: messages, decisions, changes of channels.

The nodes know nothing of this but for `NodeRun.keep_messages`: all of it is read off their updates, in the
one place through which these go (`graph/flow.py`), so that no change of the state can be forgotten.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Overwrite

from turnflow.graph.archive import scope_of
from turnflow.graph.langgraph_access import durability_of, own_fields_of, saver_of
from turnflow.graph.message_form import beginning_of, dump_messages
from turnflow.graph.outcome import Usage
from turnflow.graph.setup_fact import setup_of
from turnflow.graph.state import RECORD
from turnflow.graph.transcript import last_user_message, merge_messages, own_fields

if TYPE_CHECKING:
    from turnflow.graph.events import Emitter
    from turnflow.graph.flow import NodeRun, Update
    from turnflow.graph.step import Step

ON_RECORD = "on_record"
"""Field of the `turn` channel: what the record holds already.

`messages` is a mark of the transcript, `first` the id of the message that it begins with, `setup` a digest.
"""

_PLACES = frozenset({"checkpoint_ns", "checkpoint_id", "checkpoint_map", "thread_ts"})


def recorded(state: Any, update: Update, run: NodeRun) -> Update:
    """The update of a node with its facts, in the channel that a saver moves to the record.

    Args:
        state: What the node was given: the state, or what a task was sent.
        update: What it returned.
        run: Its run, with the events that it kept.
    """
    if saver_of(run.config) is None:
        return {**update, RECORD: run.facts} if run.facts else update
    turn = update.get("turn") or state.get("turn") or {}
    emitter = run.emitter(turn)
    types = {fact["type"] for fact in run.facts}
    passing: set[str | None] = set()
    if "turn.started" in types:
        update, passing = _started(state, update, run, emitter)
    elif turn.get("phase") == "ended" and "turn.ended" in types:
        update = _marked(update, _merged(state, update), turn.get(ON_RECORD) or {}, run)
    if (decision := update.get("decision")) and "decision" not in types:
        tell_decision(decision, emitter)
    _keep_changes(update, run, emitter, types, passing)
    return {**update, RECORD: _named(run.facts, run)} if run.facts else update


def tell_decision(decision: Mapping[str, Any], emitter: Emitter) -> None:
    """Put a decision on record."""
    label = decision.get("label")
    emitter.record(
        "decision",
        kind=decision["kind"],
        key=decision["key"],
        usage=emitter.turn.get("usage"),
        **({"label": label} if label else {}),
    )


def tell_reply(step: Step, usage: Usage, seconds: float, emitter: Emitter) -> None:
    """Put a model's reply on record, thoughts and raw text included.

    Args:
        step: The reply, read.
        usage: Of this request.
        seconds: From the request to the end of the reply.
        emitter: Of the turn.
    """
    said: dict[str, Any] = {name: step[name] for name in ("raw", "reasoning", "thinking") if step.get(name)}
    if said.get("thinking") == said.get("reasoning"):
        said.pop("thinking", None)
    if step["calls"]:
        said["calls"] = [{name: call[name] for name in ("id", "name", "arguments")} for call in step["calls"]]
    if step.get("calls_in_text"):
        said["calls_in_text"] = True
    for name in ("stop", "error"):
        if step[name]:
            said[name] = step[name]
    emitter.record(
        "model.replied",
        message_id=step["message_id"],
        **said,
        finish_reason=step["finish_reason"],
        usage=usage,
        duration=round(seconds, 6),
    )


def _started(state: Any, update: Update, run: NodeRun, emitter: Emitter) -> tuple[Update, set[str | None]]:
    """Put what a turn starts with on record, right behind its start: its messages and its setup.

    Returns:
        The update, and the ids of messages that came with the input and that it takes out again.
    """
    old = state.get("turn") or {}
    known = old.get(ON_RECORD) or {}
    behind = len(run.facts)
    session, summary = state.get("session") or {}, state.get("summary") or {}
    # What tasks wrote whose superstep was never over is on record, and not in the state; and what was put
    # into a thread before its first turn is in the state alone.
    if old.get("phase") != "ended" and (old or session or summary):
        emitter.record("session", session=session, whole=True)
        emitter.record("summary", summary=summary)
    removed = {m.id for m in _each(update.get("messages") or ()) if isinstance(m, RemoveMessage)}
    passing = _keep_input(list(state.get("messages", ())), known, removed, run, emitter)
    setup, digest = setup_of(run.resources, emitter.turn)
    if digest != known.get("setup"):
        emitter.record("setup", setup=digest, **setup())
    added = run.facts[behind:]
    del run.facts[behind:]
    place = next(i for i, fact in enumerate(run.facts) if fact["type"] == "turn.started")
    known_before = {name: emitter.turn[name] for name in ("learned", "refused") if emitter.turn.get(name)}
    merged = _merged(state, update)
    run.facts[place] |= {"setup": digest, "begins": beginning_of(merged)}
    run.facts[place] |= known_before
    began = run.facts[place]["time"]
    run.facts[place + 1 : place + 1] = [{**fact, "time": began} for fact in added]
    return _marked(update, merged, known, run, setup=digest), passing


def _keep_input(
    messages: Sequence[AnyMessage],
    known: Mapping[str, Any],
    removed: Collection[str | None],
    run: NodeRun,
    emitter: Emitter,
) -> set[str | None]:
    """Record the messages that the record does not explain: those of the input, as a rule.

    A client may send again what is in the archive alone; it is taken out at once, and not recorded. A graph
    that is embedded records its own turns alone: what came before is its parent's.

    Args:
        messages: The transcript.
        known: What was noted of it last.
        removed: Ids of messages that are taken out of it.
        run: The run.
        emitter: Of the turn.

    Returns:
        The ids of those that were left out.
    """
    start = known_messages(messages, str(known.get("messages", "")))
    if run.namespace:
        user = last_user_message(messages)
        start = max(start, next((i for i, message in enumerate(messages) if message is user), 0))
    passing = {message.id for message in messages[start:] if message.id in removed}
    if run.namespace:
        passing |= set(removed)  # what stands before the input was never recorded as such
    before = [message for message in messages[:start] if message.id not in passing]
    new = [message for message in messages[start:] if message.id not in passing]
    after = str(before[-1].id) if before else ""
    place = {"after": after} if after else {"after": "", "from": str(known.get("first", ""))}
    emitter.record("messages", **place, messages=dump_messages(new))
    return passing


def _keep_changes(
    update: Update, run: NodeRun, emitter: Emitter, types: set[str], passing: Collection[str | None]
) -> None:
    """Record what an update changes in the channels that the record gives back.

    Args:
        update: The update.
        run: The run.
        emitter: Of the turn.
        types: The types of the facts that there are already.
        passing: Ids of messages that the record knows nothing of, so that they need not be taken out.
    """
    if session := update.get("session"):
        emitter.record("session", session=session)
    if "summary" in update:
        emitter.record("summary", summary=update["summary"])
    if ("answer" in update or "outcome" in update) and not types & {"turn.started", "turn.ended"}:
        emitter.record("answer", answer=update.get("answer", ""), outcome=update.get("outcome", {}))
    written = update.get("messages")
    new = run.kept if isinstance(written, Overwrite) else written or ()
    new = [message for message in _each(new) if message is not None]
    if new := [m for m in new if not (isinstance(m, RemoveMessage) and m.id in passing)]:
        emitter.record("messages", messages=dump_messages(new))


def _each(written: Any) -> list[BaseMessage]:
    return list(written) if isinstance(written, Sequence) else [written]


def _merged(state: Any, update: Update) -> list[AnyMessage]:
    """The transcript once an update is in it."""
    messages, written = list(state.get("messages", ())), update.get("messages")
    if isinstance(written, Overwrite):
        return list(written.value)
    return merge_messages(messages, [_each(written)]) if written else messages


def _marked(
    update: Update, messages: Sequence[AnyMessage], known: Mapping[str, Any], run: NodeRun, **fields: Any
) -> Update:
    """The update with what the record holds then noted in its turn.

    LangGraph stores no facts of a run with `durability="exit"`: the next turn makes up for its messages.
    """
    turn = update["turn"]
    noted = {**known, "first": beginning_of(messages)}
    if durability_of(run.config) != "exit":
        noted |= {**fields, "messages": mark_of(messages)}
    return {**update, "turn": {**turn, ON_RECORD: noted}}


def mark_of(messages: Sequence[BaseMessage]) -> str:
    """What stands for a transcript, to be known again: how many messages it has, and a digest of them."""
    return f"{len(messages)}:{_digest(messages)}"


def known_messages(messages: Sequence[BaseMessage], mark: str) -> int:
    """How many messages at the beginning of a transcript are those of a mark; 0 where they are others."""
    count = int(mark.partition(":")[0] or 0)
    return count if count <= len(messages) and mark_of(messages[:count]) == mark else 0


def _digest(messages: Sequence[BaseMessage]) -> str:
    told = hashlib.blake2b(digest_size=8)
    for message in messages:
        content = message.content if isinstance(message.content, str) else repr(message.content)
        calls = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
        named = f"{message.id}\0{message.type}\0{calls}\0{own_fields(message).get('pinned')}\0{content}\0"
        told.update(named.encode("utf-8", "surrogatepass"))
    return told.hexdigest()


@dataclass(frozen=True)
class FailedFacts:
    """The facts of a node that raises, for its saver: LangGraph takes no update of it.

    They are written by a task of their own, which LangGraph stores and passes over.

    Attributes:
        saver: The saver.
        config: Names the checkpoint that the node came after.
        writes: Channel and value.
        task_id: The task.
    """

    saver: Any
    config: RunnableConfig
    writes: list[tuple[str, Any]]
    task_id: str


def failed_facts(run: NodeRun) -> FailedFacts | None:
    """What a node that is about to raise leaves on record; None where nothing is saved."""
    saver, info, thread_id = saver_of(run.config), run.runtime.execution_info, run.thread_id
    if saver is None or info is None or thread_id is None or not run.facts:
        return None
    own = {key: value for key, value in own_fields_of(run.config).items() if key not in _PLACES}
    place = {"thread_id": thread_id, "checkpoint_ns": run.namespace, "checkpoint_id": info.checkpoint_id}
    facts = _named([{**fact, "raised": True} for fact in run.facts], run)
    return FailedFacts(saver, {"configurable": {**own, **place}}, [(RECORD, facts)], str(uuid.uuid4()))


def _named(facts: list[dict[str, Any]], run: NodeRun) -> list[dict[str, Any]]:
    """The facts with the place of the graph in its parents, if it is embedded."""
    if not run.namespace:
        return facts
    graph = scope_of("", run.namespace).graph
    return [{**fact, "graph": graph} for fact in facts]
