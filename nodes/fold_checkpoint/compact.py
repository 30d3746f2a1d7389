"""Compaction: turns, or rounds of this turn, give way to a summary; without one nothing changes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AnyMessage

from turnflow.graph.archive_access import archive_of
from turnflow.graph.archiving import run_scope
from turnflow.graph.decision import decide
from turnflow.graph.flow import Body, InThread, NodeRun, Update
from turnflow.graph.folding import (
    MOST_FAILURES,
    RoundRange,
    TurnRange,
    count_hidden,
    failed,
    succeeded,
    tried,
)
from turnflow.graph.folds import Anchor, Fold, written_part
from turnflow.graph.outcome import sum_usage
from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.fold_checkpoint.kept_words import KeptWording, open_todos, user_words
from turnflow.nodes.fold_checkpoint.summarise import Summed, most_words, sum_up

Reason = Literal["window", "memory", "overflow"]

logger = logging.getLogger("turnflow")

PLAN_AGAIN = decide("fold", "done", again=True)
"""The request is planned once more, in the same round."""

_WORDS_PART = 3
"""The user's own words take one part in so many of what the summary stands for, at most."""


@dataclass(frozen=True)
class Material:
    """What a summary is to stand for.

    Attributes:
        messages: To be summed up.
        old: The summary so far, as a model wrote it, that the new one takes in; '' for none.
        replaced: Tokens of what is shown, or was, in place of it.
        place: Fields of the event: what it is.
        through: Id and position of the last turn; None for rounds.
        turn_ids: Ids of the user messages that the turns begin with: their own folds are not needed any more.
        rounds: The rounds; None for turns.
    """

    messages: Sequence[AnyMessage]
    old: str
    replaced: int
    place: dict[str, Any]
    through: tuple[str, int] | None = None
    turn_ids: Collection[str] = ()
    rounds: RoundRange | None = None


def compact(state: Any, found: TurnRange | RoundRange, reason: Reason, run: NodeRun) -> Body[Update]:
    """Sum up what was found, and let the summary stand for it if it is shorter.

    Args:
        state: The state.
        found: Turns or rounds.
        reason: Why, for the event.
        run: The node's run.
    """
    turn = state["turn"]
    counter = run.resources.counter_in(turn)
    if isinstance(found, TurnRange):
        material = yield from _turns_material(state, found, counter, run)
    else:
        material = _rounds_material(state, found, counter)
    if material is None:
        return _not_made(state, None, reason, Summed("", "unreadable", "", {}), run)
    words = most_words(run.resources.window_in(turn), material.replaced)
    summed = yield from sum_up(material.messages, material.old, words=words, turn=turn, run=run)
    turn = {**turn, "usage": sum_usage(turn["usage"], summed.usage)}
    state = {**state, "turn": turn}
    if summed.why == "cancelled" or run.resources.cancelled:
        return {"turn": turn, "decision": decide("stop", "cancelled")}
    if summed.why:
        return _not_made(state, material, reason, summed, run)
    text = _whole(summed.text, material, state, counter, run)
    after = counter.text(text)
    if after >= material.replaced:
        return _not_made(state, material, reason, Summed("", "no_shorter", "", {}), run)
    run.emitter(turn).emit(
        "folded",
        reason=reason,
        failed=False,
        **material.place,
        **_learned(turn, reason),
        tokens_before=material.replaced,
        tokens_after=after,
        text=text,
    )
    return {
        "summary": _folded(state, material, text, len(summed.text)),
        "turn": {key: value for key, value in turn.items() if key != "fold_tried"},
        "decision": PLAN_AGAIN,
    }


def _turns_material(
    state: Any, found: TurnRange, counter: TokenCounter, run: NodeRun
) -> Body[Material | None]:
    """Whole turns, those that have left the state read from the archive; None where it fails."""
    turn = state["turn"]
    anchor: Any = (state.get("summary") or {}).get("anchor") or {}
    earlier: list[tuple[str, list[AnyMessage]]] = []
    before = found.turns[0].position if found.turns else found.last + 1
    if found.first < before and (archive := archive_of(run)) and turn.get("archived"):
        scope, head = run_scope(run, turn), turn["archived"]
        try:
            read = yield InThread(lambda: archive.read_turns(scope, head, found.first, before - 1))
        except Exception as error:
            logger.warning("earlier turns could not be read to sum them up", exc_info=error)
            return None
        earlier = [(each["input_id"], list(each["messages"])) for each in read]
    turns = [*earlier, *((each.input_id, list(each.messages)) for each in found.turns)]
    if not turns or not turns[-1][0]:
        return None
    messages = [message for _, own in turns for message in own]
    hidden = sum(count_hidden(own, counter) for _, own in turns)
    through = (turns[-1][0], found.last)
    return Material(
        messages=messages,
        old=written_part(anchor.get("text", ""), anchor.get("written")),
        replaced=hidden + (counter.text(anchor["text"]) if anchor.get("text") else 0),
        place={"positions": [found.first, found.last], "through_id": through[0], "messages": len(messages)},
        through=through,
        turn_ids={input_id for input_id, _ in turns},
    )


def _rounds_material(state: Any, found: RoundRange, counter: TokenCounter) -> Material:
    fold: Any = _own_fold(state)
    texts: list[str] = list(fold.get("texts", ()))
    if texts:
        texts[0] = written_part(texts[0], fold.get("written"))
    old_tokens = sum(counter.text(text) for text in fold.get("texts", ()))
    return Material(
        messages=found.messages,
        old="\n\n".join(texts),
        replaced=sum(counter.message(message) for message in found.messages) + old_tokens,
        place={
            "first_id": found.messages[0].id,
            "last_id": found.messages[-1].id,
            "messages": len(found.messages),
        },
        rounds=found,
    )


def _own_fold(state: Any) -> Any:
    folds = (state.get("summary") or {}).get("folds", ())
    return next((fold for fold in folds if fold["after_id"] == state["turn"]["input_id"]), {})


def _whole(summary: str, material: Material, state: Any, counter: TokenCounter, run: NodeRun) -> str:
    """The summary with what is kept whatever the summariser wrote."""
    prompts = run.resources.prompts
    wording = KeptWording(
        words=prompts.template("summary", "words_kept"),
        word=prompts.template("summary", "word"),
        todos=prompts.template("summary", "todos"),
        todo=prompts.template("summary", "todo"),
    )
    room = material.replaced // _WORDS_PART
    words = user_words(material.messages, room, counter, wording) if material.through else ""
    parts = [summary, words, open_todos(state.get("session"), wording)]
    return "\n\n".join(part for part in parts if part)


def _folded(state: Any, material: Material, text: str, written: int) -> dict[str, Any]:
    """The `summary` channel with the text in the place of what it stands for."""
    summary = succeeded(state.get("summary") or {})
    if material.through:
        input_id, position = material.through
        anchor: Anchor = {"through_id": input_id, "position": position, "text": text, "written": written}
        folds = [fold for fold in summary.get("folds", ()) if fold["after_id"] not in material.turn_ids]
        return {**summary, "folds": folds, "anchor": anchor}
    input_id = state["turn"]["input_id"]
    ids = material.rounds.message_ids if material.rounds else ()
    fold: Fold = {"after_id": input_id, "message_ids": list(ids), "texts": [text], "written": written}
    others = [each for each in summary.get("folds", ()) if each["after_id"] != input_id]
    return {**summary, "folds": [*others, fold]}


def _learned(turn: dict[str, Any], reason: Reason) -> dict[str, Any]:
    """Fields of the event: what a refusal taught."""
    return {"window": turn["learned"]["window"]} if reason == "overflow" else {}


def _not_made(state: Any, material: Material | None, reason: Reason, summed: Summed, run: NodeRun) -> Update:
    """The update without a summary: all stays as it was, and it cools down.

    What has left the memory's window is given up once the summariser keeps failing: it would only grow.
    """
    turn = state["turn"]
    summary = failed(state.get("summary") or {}, turn)
    gives_up = (
        reason == "memory"
        and summary["failures"] >= MOST_FAILURES
        and material is not None
        and material.through is not None
    )
    if gives_up and material and material.through:
        old: Any = summary.get("anchor") or {}
        input_id, position = material.through
        summary["anchor"] = {"text": "", **old, "through_id": input_id, "position": position}
    run.emitter(turn).emit(
        "folded",
        reason=reason,
        failed=True,
        why=summed.why,
        **({"error": summed.error} if summed.error else {}),
        **(material.place if material else {}),
        **_learned(turn, reason),
        given_up=gives_up,
    )
    return {"summary": summary, "turn": tried(turn), "decision": PLAN_AGAIN}
