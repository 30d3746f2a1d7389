"""Words of a text as searches see them, in any script, and texts ranked by what they share with a query."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from turnflow.graph.text import storable

MAX_TERMS = 64
"""Words of a query that are looked for."""

MAX_QUERY = 8_000
"""Characters of a query that are looked at."""

MANY_TURNS = 100
"""Turns from which on a conversation is long, and only the words that tell turns apart are looked for."""

_TELLING, _AT_LEAST = 16, 4
"""As many words are looked for in a long conversation, and so few if all others are common."""

_COMMON_SHARE, _COMMON = 10, 128
"""A word is common that is in more than one of so many turns, or in as many turns."""

_RUN = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uac00-\ud7a3\U00020000-\U0003ffff"
)
"""Characters of scripts that are searched by pairs: Chinese, Japanese, Korean."""

_WORD = re.compile(rf"[{_RUN}]+|[^\W_{_RUN}]+")
_IS_RUN = re.compile(rf"[{_RUN}]")
_ACCENTS = re.compile("[\u0300-\u036f]+")

_SATURATION, _LENGTH = 1.2, 0.75
"""The constants of BM25."""


class Term(NamedTuple):
    """A word of a query."""

    word: str
    is_prefix: bool
    """Whether words that begin with it count: a single character of a script that is searched by pairs."""


def prepared(text: str) -> str:
    """The words of a text, separated by spaces: lower-case, without accents.

    A run of Chinese, Japanese or Korean becomes its pairs of characters and its last character, so that each
    part of it is found, from one character on.
    """
    return " ".join(_words(text))


def query_terms(query: str) -> list[Term]:
    """The words of a query, each once, at most `MAX_TERMS`."""
    terms: dict[Term, None] = {}
    for run in _runs(query[:MAX_QUERY]):
        if not _IS_RUN.match(run):
            terms[Term(run, is_prefix=False)] = None
        elif len(run) == 1:
            terms[Term(run, is_prefix=True)] = None
        else:
            terms.update(dict.fromkeys(Term(pair, is_prefix=False) for pair in _pairs(run)))
        if len(terms) >= MAX_TERMS:
            break
    return list(terms)[:MAX_TERMS]


def common_from(turns: int) -> int:
    """In how many of a conversation's turns a word is, for it to be common."""
    return min(turns // _COMMON_SHARE + 1, _COMMON)


def rarest(rare: Mapping[Term, int], count_common: Callable[[], Mapping[Term, int]]) -> list[Term]:
    """The words to look for in a long conversation, out of those of a query: the rarest of those that occur.

    Args:
        rare: In how many turns each word is that is not common.
        count_common: Says the same of the common ones. It is asked if there are few others.
    """
    found = _fewest(rare)[:_TELLING]
    if len(found) < _AT_LEAST:
        found += _fewest(count_common())[: _AT_LEAST - len(found)]
    return found


def _fewest(counts: Mapping[Term, int]) -> list[Term]:
    return sorted((term for term, count in counts.items() if count), key=lambda term: counts[term])


def rank(texts: Iterable[tuple[str, str]], query: str) -> dict[str, float]:
    """Scores of the texts that share words with a query, by BM25 over the texts given.

    Args:
        texts: A key and a text as `prepared` gives it, for each.
        query: The query as it was typed.
    """
    terms = query_terms(query)
    counts, total, number = _counted(texts, terms)
    mean = total / number if number else 1.0
    found = Counter(term for each, _ in counts.values() for term in each)
    scores: dict[str, float] = {}
    for key, (each, length) in counts.items():
        damping = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
        scores[key] = sum(
            math.log(1 + (number - found[term] + 0.5) / (found[term] + 0.5))
            * (count * (_SATURATION + 1) / (count + damping))
            for term, count in each.items()
        )
    return scores


def _counted(
    texts: Iterable[tuple[str, str]], terms: list[Term]
) -> tuple[dict[str, tuple[dict[Term, int], int]], int, int]:
    """Per text that has any: how often each term, and its length. Then all lengths, and how many texts."""
    counts: dict[str, tuple[dict[Term, int], int]] = {}
    total = number = 0
    for key, text in texts:
        words = text.split()
        total += len(words)
        number += 1
        bag = Counter(words)
        each = {term: count for term in terms if (count := _count(bag, term))}
        if each:
            counts[key] = (each, len(words))
    return counts, total, number


def _count(bag: Counter[str], term: Term) -> int:
    if not term.is_prefix:
        return bag[term.word]
    return sum(count for word, count in bag.items() if word.startswith(term.word))


def _words(text: str) -> Iterator[str]:
    for run in _runs(text):
        if _IS_RUN.match(run):
            yield from _pairs(run)
            yield run[-1]
        else:
            yield run


def _runs(text: str) -> list[str]:
    """Words, and runs of characters that are searched by pairs."""
    plain = unicodedata.normalize("NFKD", storable(text))
    plain = unicodedata.normalize("NFKC", _ACCENTS.sub("", plain).casefold())
    return _WORD.findall(plain)


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)]
