"""What goes into a request beside the transcript: contributions, and what a memory brought back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from turnflow.graph.contributions import Contribution
from turnflow.graph.memory import Recalled
from turnflow.graph.tokens import TokenCounter
from turnflow.nodes.assemble_context.fences import ContextTexts, contribution_fence, recalled_fence
from turnflow.nodes.assemble_context.manifest import ContributionShown, RecalledShown

_JOIN = 2
"""Tokens between one part of a message and the next."""


@dataclass(frozen=True)
class Extra:
    """A contribution or a recalled turn, ready to be shown.

    Attributes:
        name: The contribution's name, or the recalled turn's key.
        text: Its text; of a contribution that is data, with its fence.
        tokens: What it takes.
        priority: Those of the lowest go first.
        recalled: The recalled turn, if it is one.
        is_system: Whether it stands in the system prompt.
        is_cut: Whether it was longer than its budget.
    """

    name: str
    text: str
    tokens: int
    priority: int
    recalled: Recalled | None = None
    is_system: bool = False
    is_cut: bool = False


class Extras:
    """All of them, in the order in which they give way.

    The lowest priority goes first; recalled turns, which have the priority 0, before contributions of the
    same, and the oldest of them first.
    """

    def __init__(
        self,
        contributions: Sequence[Contribution],
        recalled: Sequence[Recalled],
        shown_ids: set[str],
        texts: ContextTexts,
        counter: TokenCounter,
    ) -> None:
        """Take what is to be shown, if there is room.

        Args:
            contributions: What contributors gave.
            recalled: What the memory brought back; a turn that is shown word for word is passed over.
            shown_ids: Ids of the user messages whose turns are shown word for word.
            texts: The fences.
            counter: Counts tokens.
        """
        self._texts = texts
        self._counter = counter
        self._given = list(contributions)
        fresh: dict[str, Recalled] = {}
        for turn in recalled:
            if turn["text"].strip() and not _is_of(turn["key"], shown_ids):
                fresh.setdefault(turn["key"], turn)
        made = [extra for one in contributions if (extra := self._contribution(one)) is not None]
        made += [self._recalled(turn) for turn in fresh.values()]
        self.ordered = sorted(made, key=_gives_way)
        self.frame = counter.text(recalled_fence(_EMPTY, texts)) + _JOIN if fresh else 0

    def tokens(self, dropped: int) -> int:
        """What is left of them takes, once so many have given way."""
        left = self.ordered[dropped:]
        frame = self.frame if any(extra.recalled for extra in left) else 0
        return frame + sum(extra.tokens + _JOIN for extra in left)

    def system(self, dropped: int) -> list[str]:
        """The texts for the system prompt, in their fixed order."""
        return [extra.text for extra in self._placed(dropped) if extra.is_system]

    def recalled(self, dropped: int) -> str:
        """The fence with the recalled turns, '' if none is left."""
        turns = [extra.recalled for extra in self.ordered[dropped:] if extra.recalled]
        return recalled_fence(turns, self._texts)

    def told(self, dropped: int) -> list[str]:
        """The fenced contributions for the user's message, in their fixed order."""
        return [extra.text for extra in self._placed(dropped) if not extra.is_system]

    def recalled_shown(self, dropped: int) -> list[RecalledShown]:
        """The recalled turns that are shown, in the order of the conversation."""
        left = [extra for extra in self.ordered[dropped:] if extra.recalled]
        left.sort(key=lambda extra: (cast("Recalled", extra.recalled)["position"], extra.name))
        return [{"key": extra.name, "tokens": extra.tokens} for extra in left]

    def contributions_shown(self, dropped: int) -> list[ContributionShown]:
        """What became of each contribution, in their fixed order."""
        left = {extra.name: extra for extra in self._placed(dropped)}
        shown: list[ContributionShown] = []
        for one in sorted(self._given, key=lambda one: (-one["priority"], one["name"])):
            extra = left.get(one["name"])
            if extra is None:
                shown.append({"name": one["name"], "tokens": 0, "shown": "left_out"})
            else:
                how = "cut" if extra.is_cut else "whole"
                shown.append({"name": one["name"], "tokens": extra.tokens, "shown": how})  # type: ignore[typeddict-item]
        return shown

    def _placed(self, dropped: int) -> list[Extra]:
        left = [extra for extra in self.ordered[dropped:] if extra.recalled is None]
        return sorted(left, key=lambda extra: (-extra.priority, extra.name))

    def _contribution(self, one: Contribution) -> Extra | None:
        is_system = one["place"] == "system"
        text = one["text"].strip()
        fits = cut_off(text, one["budget"], self._texts.cut_contribution, self._counter)
        if not fits:
            return None
        shown = fits if is_system else contribution_fence(one["name"], fits, self._texts)
        tokens = self._counter.text(shown)
        is_cut = fits != text
        return Extra(one["name"], shown, tokens, one["priority"], is_system=is_system, is_cut=is_cut)

    def _recalled(self, turn: Recalled) -> Extra:
        frame = self._counter.text(recalled_fence(_EMPTY, self._texts))
        tokens = max(1, self._counter.text(recalled_fence([turn], self._texts)) - frame)
        return Extra(turn["key"], "", tokens, 0, recalled=turn)


_EMPTY: list[Recalled] = [{"key": "", "position": 0, "time": 0.0, "text": ""}]


def cut_off(text: str, budget: int, ending: str, counter: TokenCounter) -> str:
    """The text, or as much of its beginning as a budget of tokens holds, with the ending; '' for none."""
    size = counter.text(text)
    if not text or budget <= 0:
        return ""
    kept = len(text)
    cut = text
    while size > budget and kept > 0:
        kept = min(kept - 1, int(kept * budget / size), int(kept * 0.95))
        cut = text[:kept].rstrip() + ending
        size = counter.text(cut)
    return cut if kept > 0 else ""


def _gives_way(extra: Extra) -> tuple[int, int, int, tuple[int, ...], str]:
    if extra.recalled is not None:
        return (extra.priority, 0, extra.recalled["position"], (), extra.name)
    return (extra.priority, 1, 0, tuple(-ord(letter) for letter in extra.name), "")


def _is_of(key: str, shown_ids: set[str]) -> bool:
    """Whether this archived turn is shown: `turn-<input id>~<digest>`, or with `-<number>` before the `~`."""
    named = key.rpartition("~")[0].removeprefix("turn-")
    first, _, number = named.rpartition("-")
    return named in shown_ids or (number.isdigit() and first in shown_ids)
