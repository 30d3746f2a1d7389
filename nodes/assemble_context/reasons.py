"""What became of each message of the transcript in a request (docs/context.md)."""

from __future__ import annotations

from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.assemble_context.manifest import Range, Ranges, Reason, is_shown
from turnflow.nodes.assemble_context.planning import Composition, Planning


def ranges_of(planning: Planning, composed: Composition, counter: TokenCounter) -> tuple[list[Range], int]:
    """The transcript in ranges, and what is shown of the turns before the current one takes.

    Only turns in which not all messages share a reason are looked at one by one.
    """
    outline, choice = planning.outline, composed.choice
    ranges = Ranges(outline.messages)
    odd = _odd_turns(planning, composed)
    history = 0
    stretches: list[tuple[int, Reason]] = [
        (outline.summarised, "summarised"),
        (outline.first, "outside_window"),
        (choice.first, "out_of_budget"),
        (outline.protected, "recent"),
        (len(outline.turns), "protected"),
        (len(outline.turns) + 1, "current"),
    ]
    turn = 0
    for end, reason in stretches:
        while turn < end:
            start = outline.starts[turn]
            if turn in odd:
                each = _reasons(turn, reason, planning, composed, counter)
                ranges.add_each(each)
                shown = sum(tokens for why, tokens in each if is_shown(why))
                turn += 1
            else:
                turn = next((at for at in range(turn + 1, end) if at in odd), end)
                stop = outline.starts[turn] if turn < len(outline.starts) else len(outline.messages)
                tokens = planning.between(start, stop)
                ranges.add(reason, stop - start, tokens)
                shown = tokens if is_shown(reason) else 0
            history += shown if reason != "current" else 0
    return ranges.ranges, history


def _odd_turns(planning: Planning, composed: Composition) -> set[int]:
    """The turns in which not all messages share a reason."""
    outline = planning.outline
    odd = {outline.turn_of(at) for at in composed.changed}
    odd.update(outline.turn_of(start) for start in (*outline.staying, *outline.folded))
    if composed.unsent:
        first = outline.starts[composed.choice.first]
        odd.update(
            outline.turn_of(at)
            for at in range(first, len(outline.messages))
            if id(outline.messages[at]) in composed.unsent
        )
    return odd


def _reasons(
    turn: int, reason: Reason, planning: Planning, composed: Composition, counter: TokenCounter
) -> list[tuple[Reason, int]]:
    """Reason and tokens of each message of a turn."""
    outline = planning.outline
    span = [*outline.turns, outline.current][turn]
    is_whole = is_shown(reason)
    shown = {place.index for place in outline.places(span)} if is_whole else outline.stays(span)
    found: list[tuple[Reason, int]] = []
    for at in range(span.start, span.end):
        message = outline.messages[at]
        why: Reason = reason
        if at in composed.changed:
            why, message = composed.changed[at]
        elif at not in shown:
            why = "folded" if is_whole else reason
        elif not is_whole:
            why = "pinned"
        if at in shown and id(message) in composed.unsent:
            why = "empty"
        found.append((why, counter.message(message)))
    return found
