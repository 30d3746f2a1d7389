"""The grammar of a body under a label: reads how lines begin, and what begins with `<`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnflow.graph.gbnf import one_of
from turnflow.graph.gbnf_rules import Rules
from turnflow.graph.profile import Dialect

_BLANKS = " \t\u00a0\u3000\u200b\u200c\u200d\u2060\ufeff"
_WRAPPERS = "`*_[#>"
_CLOSERS = "`*_]"
_MAX_CLOSERS = 4
_NOT_AFTER_LABEL = "\n:：.。"
_MARKUP: Mapping[Dialect, tuple[str, ...]] = {
    "hermes": ("<tool_call",),
    "deepseek": ("<｜", "<|"),
    "deepseek_tokens": ("<｜", "<|"),
    "json": (),
}


def add_body(rules: Rules, labels: Iterable[str], dialect: Dialect | None) -> None:
    """Add the rules of a body: no second label, no markup of calls, something other than blanks.

    A line may begin with a label's letters only where a sentence goes on after them. A line of nothing but
    fences, stars and the like is not followed by another one: small models repeat them for ever.
    """
    words = {label.casefold() for label in labels}
    starts = sorted({word[:length] for word in words for length in range(1, len(word) + 1)})
    markup = _MARKUP[dialect] if dialect else ()
    openers = sorted({opener[:length] for opener in markup for length in range(1, len(opener))})
    names = {start: f"label-{number}" for number, start in enumerate(starts)}
    names |= {opener: f"open-{number}" for number, opener in enumerate(openers)}

    def state(name: str, ways: Mapping[str, str], *, refused: str = "") -> None:
        """What may follow: `ways` from characters to rules, else the rest of the line."""
        targets = {"\n": "line", "<": names.get("<", "rest"), **ways, **dict.fromkeys(refused, "")}
        by_target = dict[str, str]()
        for char, target in targets.items():
            by_target[target] = by_target.get(target, "") + char
        follows = [f"{one_of(chars)} {target}" for target, chars in by_target.items() if target]
        follows.append(f"{one_of(''.join(targets), but=True)} rest")
        rules[name] = " | ".join(follows if "\n" in refused else [*follows, '""'])

    def letters(start: str) -> dict[str, str]:
        longer = (each for each in starts if each[:-1] == start)
        return {char: names[each] for each in longer for char in _cases(each[-1])}

    marks, blanks = dict.fromkeys(_WRAPPERS, "marks"), dict.fromkeys(_BLANKS, "line")
    # A body that begins like a lone JSON object, with or without a fence, would be a call.
    state("body", {**marks, **letters("")}, refused="\n" + _BLANKS + ("{`~" if dialect == "json" else ""))
    state("line", {**blanks, **marks, **letters("")})
    state("marks", {"\n": "next", **dict.fromkeys(_BLANKS + _WRAPPERS, "marks"), **letters("")})
    # Brackets may: lists of lists begin so.
    marks, blanks = {**dict.fromkeys(_WRAPPERS, "marked"), "[": "marks"}, dict.fromkeys(_BLANKS, "next")
    state("next", {"\n": "next", **blanks, **marks, **letters("")})
    state("marked", {**dict.fromkeys(_BLANKS + _WRAPPERS, "marked"), **letters("")}, refused="\n")
    state("rest", {})
    state("after", dict.fromkeys(_BLANKS, "after"), refused=_NOT_AFTER_LABEL + _CLOSERS)
    closing = [f"closer-{number}" for number in range(1, _MAX_CLOSERS + 1)]
    ways = [{**dict.fromkeys(_BLANKS, "after"), **dict.fromkeys(_CLOSERS, name)} for name in closing]
    for name, further in zip(closing, ways[1:], strict=False):
        state(name, further, refused=_NOT_AFTER_LABEL)
    state(closing[-1], dict.fromkeys(_BLANKS, "after"), refused=_NOT_AFTER_LABEL + _CLOSERS)
    for start in starts:
        if start.rstrip() in words:
            state(names[start], {**ways[0], **letters(start)}, refused=_NOT_AFTER_LABEL)
        else:
            state(names[start], letters(start))
    for opener in openers:
        further = {each[-1]: names[each] for each in openers if each[:-1] == opener}
        ends = "".join(each[-1] for each in markup if each[:-1] == opener)
        state(names[opener], further, refused=ends)


def _cases(letter: str) -> str:
    """A lower case letter and its capital, where that is one letter."""
    return letter + letter.upper() if len(letter.upper()) == 1 and letter.upper() != letter else letter
