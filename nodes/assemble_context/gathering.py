"""What is gathered once a turn before its requests are planned: recalled turns and contributions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from turnflow.graph.archive import Archive
from turnflow.graph.archive_access import archive_of
from turnflow.graph.archive_turns import count_visible
from turnflow.graph.archiving import archived_here, run_scope, turns_before
from turnflow.graph.content import iter_text
from turnflow.graph.flow import Body, InThread, NodeRun
from turnflow.graph.folding import placed_turns
from turnflow.graph.langgraph_access import remembers
from turnflow.graph.memory import Recalled, recent_turns, sums_up
from turnflow.graph.past import Past
from turnflow.graph.tokens import TokenCounter, is_counter_loaded, load_counter
from turnflow.nodes.assemble_context.contribute import bounded, contribute

LEAST_MESSAGES = 2
"""A turn has a question and an answer."""

RECALL_PART = 5
"""Recalled turns may take one part in so many of the window."""


def gather(state: Any, run: NodeRun) -> Body[dict[str, Any]]:
    """The `gathered` channel of a turn (docs/context.md).

    What was gathered for the same turn is kept, so that all its requests begin alike. Only how many messages
    wait for a summary is looked up again once there is a new one.
    """
    turn, known = state["turn"], state.get("gathered") or {}
    anchor = ((state.get("summary") or {}).get("anchor") or {}).get("position", -1)
    if not is_counter_loaded(name := run.resources.model_name):
        yield InThread(lambda: load_counter(name))
    is_known = known.get("turn_id") == turn["id"]
    if is_known and known["anchor"] == anchor:
        return known
    pending = _pending(state, anchor, run)
    text = _question(state)
    if is_known and turn["usage"]["requests"]:
        # What was sent in this turn begins alike to its end.
        return {**known, "anchor": anchor, "pending": pending}
    recalled = yield from _recall(state, anchor, text, run)
    if is_known:
        return {**known, "anchor": anchor, "pending": pending, "recalled": recalled}
    contributions = yield from contribute(
        run.resources.contributors,
        {
            "session_id": turn.get("session_id"),
            "turn_id": turn["id"],
            "user_id": run.resources.context.user_id,
            "text": text,
            "variables": (state.get("session") or {}).get("vars", {}),
        },
        run.resources.settings.contributor_timeout,
        run,
        turn,
    )
    return {
        "turn_id": turn["id"],
        "anchor": anchor,
        "pending": pending,
        "recalled": recalled,
        "contributions": contributions,
    }


def _question(state: Any) -> str:
    messages: Sequence[AnyMessage] = state["messages"]
    user = next((m for m in reversed(messages) if m.id == state["turn"]["input_id"]), None)
    return "" if user is None else "".join(iter_text(user.content))


def _shown_from(state: Any, anchor: int, run: NodeRun) -> int:
    """Position of the first turn that is shown word for word; 0 where nothing stands before it."""
    turn = state["turn"]
    memory, earlier = run.resources.memory, turns_before(state["messages"], turn["input_id"])
    before = turn.get("position", 0) - (earlier if sums_up(memory) else min(recent_turns(memory), earlier))
    return max(0, int(before), anchor + 1)


def _past(state: Any, before: int, run: NodeRun) -> Past:
    """The conversation before a position. Where there is no archive it is made here, which takes a while."""
    turn, prompts = state["turn"], run.resources.prompts
    archive: Archive | None = archive_of(run)
    head = turn.get("archived", "")
    scope = run_scope(run, turn)
    if archive is None:
        archive, head = archived_here(state["messages"], turn["input_id"], scope)
    return Past(
        archive,
        scope,
        head,
        before,
        run.resources.counter_in(turn),
        user_said=prompts.template("context", "user_said"),
        assistant_said=prompts.template("context", "assistant_said"),
    )


def _pending(state: Any, anchor: int, run: NodeRun) -> int:
    """How many messages before the current turn are in no summary, though the memory wants one.

    Where the next turn knows nothing of this one, a summary would have to be made anew each time.
    """
    if not sums_up(run.resources.memory) or not remembers(run.config):
        return 0
    turns = placed_turns(state["messages"], state["turn"])[:-1]
    waiting = [turn for turn in turns if turn.position > anchor]
    # A turn that had to leave the state before a summary came counts as the least that a turn holds.
    gone = max(0, turns[0].position - anchor - 1) if turns else 0
    return gone * LEAST_MESSAGES + sum(count_visible(turn.messages) for turn in waiting)


def _recall(state: Any, anchor: int, text: str, run: NodeRun) -> Body[list[Recalled]]:
    turn, settings, memory = state["turn"], run.resources.settings, run.resources.memory
    budget = min(settings.recall_tokens, run.resources.window_in(turn) // RECALL_PART)
    before = _shown_from(state, anchor, run)
    if before <= 0 or budget <= 0 or not text.strip():
        return []

    def recall() -> Any:
        return memory.recall(text, _past(state, before, run), budget)

    async def arecall() -> Any:
        return await recall()

    ask = arecall if inspect.iscoroutinefunction(memory.recall) else recall
    recalled, problem = yield bounded(ask, settings.contributor_timeout, run.resources.cancel)
    if not problem and not _is_recalled(recalled):
        problem = f"recall gives a list of Recalled, not {recalled!r:.200}"
    if problem:
        run.emitter(turn).emit("contribution.failed", name="memory", why=problem)
        return []
    return _within(list(recalled or ()), budget, run.resources.counter_in(turn))


def _within(recalled: list[Recalled], budget: int, counter: TokenCounter) -> list[Recalled]:
    """What of it the budget holds, the first ones first: a memory of somebody else may give any amount."""
    kept: list[Recalled] = []
    for each in recalled:
        budget -= counter.text(each["text"])
        if budget >= 0:
            kept.append(each)
    return kept


def _is_recalled(given: Any) -> bool:
    """Whether a memory, perhaps of somebody else, gave what it should."""
    if given is None:
        return True
    kinds = {"key": str, "position": int, "time": int | float, "text": str}
    return isinstance(given, Sequence) and all(
        isinstance(each, Mapping) and all(isinstance(each.get(k), kind) for k, kind in kinds.items())
        for each in given
    )
