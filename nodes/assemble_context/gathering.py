"""What is gathered once a turn before its requests are planned: recalled turns and contributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from turnflow.graph.archive import Archive
from turnflow.graph.archive_access import archive_of
from turnflow.graph.archive_turns import count_visible
from turnflow.graph.archiving import archived_here, run_scope, turns_before
from turnflow.graph.content import iter_text
from turnflow.graph.flow import Body, NodeRun
from turnflow.graph.folding import placed_turns
from turnflow.graph.langgraph_access import remembers
from turnflow.graph.memory import Recalled, recent_turns, sums_up
from turnflow.graph.past import Past
from turnflow.nodes.assemble_context.contribute import bounded, contribute

RECALL_PART = 5
"""Recalled turns may take one part in so many of the window."""


def gather(state: Any, run: NodeRun) -> Body[dict[str, Any]]:
    """The `gathered` channel of a turn (docs/context.md).

    What was gathered for the same turn is kept, so that all its requests begin alike. Only how many messages
    wait for a summary is looked up again once there is a new one.
    """
    turn, known = state["turn"], state.get("gathered") or {}
    anchor = ((state.get("summary") or {}).get("anchor") or {}).get("position", -1)
    if known.get("turn_id") == turn["id"] and known.get("anchor") == anchor:
        return known
    pending = _pending(state, anchor, run)
    if known.get("turn_id") == turn["id"]:
        return {**known, "anchor": anchor, "pending": pending}
    text = _question(state)
    past = _past(state, anchor, run)
    recalled = yield from _recall(past, text, run, turn)
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


def _past(state: Any, anchor: int, run: NodeRun) -> Past | None:
    """The conversation before the turns that are shown word for word; None where there is nothing of it."""
    turn, prompts = state["turn"], run.resources.prompts
    memory, earlier = run.resources.memory, turns_before(state["messages"], turn["input_id"])
    before = turn.get("position", 0) - (earlier if sums_up(memory) else min(recent_turns(memory), earlier))
    before = max(before, anchor + 1)
    if before <= 0:
        return None
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
    return sum(count_visible(turn.messages) for turn in turns if turn.position > anchor)


def _recall(past: Past | None, text: str, run: NodeRun, turn: dict[str, Any]) -> Body[list[Recalled]]:
    settings, memory = run.resources.settings, run.resources.memory
    budget = min(settings.recall_tokens, run.resources.window_in(turn) // RECALL_PART)
    if past is None or budget <= 0 or not text.strip():
        return []
    recalled, problem = yield bounded(
        lambda: memory.recall(text, past, budget), settings.contributor_timeout, run.resources.cancel
    )
    if not problem and not _is_recalled(recalled):
        problem = f"recall gives a list of Recalled, not {recalled!r:.200}"
    if problem:
        run.emitter(turn).emit("contribution.failed", name="memory", why=problem)
        return []
    return list(recalled or ())


def _is_recalled(given: Any) -> bool:
    """Whether a memory, perhaps of somebody else, gave what it should."""
    if given is None:
        return True
    kinds = {"key": str, "position": int, "time": int | float, "text": str}
    return isinstance(given, Sequence) and all(
        isinstance(each, Mapping) and all(isinstance(each.get(k), kind) for k, kind in kinds.items())
        for each in given
    )
