"""Tells whether a question was asked before, in nearly the same words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from turnflow.graph.loop_guard import digest

MAX_CHARS = 500
"""Characters of a text that are looked at closely; what stands behind them must be equal."""
MAX_EARLIER = 64
"""Earlier texts that are looked at, the last ones."""

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters that are written without gaps between words, as the inside of a character class."""


def near_duplicate(text: str, earlier: Sequence[str]) -> str | None:
    """The earlier text that `text` is nearly the same as, or None.

    Nearly the same are texts that say the same words, whatever their case, punctuation, politeness and
    spelling, in the same order or with a part moved to the front. A word more, a word less or another one
    makes another question, however long both are: it may be the one that matters, and one question too many
    is better than one that is never asked. Of long texts either all are given whole, or all `shortened`.
    """
    said = _said(text[:MAX_CHARS])
    for other in earlier[-MAX_EARLIER:]:
        if other == text:
            return other
        if other[MAX_CHARS:] == text[MAX_CHARS:] and _are_alike(said, _said(other[:MAX_CHARS])):
            return other
    return None


def shortened(text: str) -> str:
    """A text as it can be remembered: `near_duplicate` knows it again, given the later text shortened too."""
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + digest(text[MAX_CHARS:])


class _Said(NamedTuple):
    """What a question says, without how it says it.

    Attributes:
        kind: What it asks for (`what`, `how`, …), in no order.
        units: The words that matter; in Chinese the characters.
        plain: For each unit, whether it is an ordinary word, which may be misspelt; names may not.
        all_words: All words.
    """

    kind: frozenset[str]
    units: tuple[str, ...]
    plain: tuple[bool, ...]
    all_words: tuple[str, ...]


def _are_alike(one: _Said, other: _Said) -> bool:
    if not one.units or not other.units:
        return bool(one.all_words) and one.all_words == other.all_words
    if one.kind != other.kind:
        return False
    if _are_same_words(one, other) or _without_gaps(one.units) == _without_gaps(other.units):
        return True
    return _is_turned(one.units, other.units)


def _are_same_words(one: _Said, other: _Said) -> bool:
    if len(one.units) != len(other.units):
        return False
    pairs = zip(one.units, other.units, one.plain, other.plain, strict=True)
    return all(a == b or (c and d and _is_misspelt(a, b)) for a, b, c, d in pairs)


_MIN_MISSPELT = 7
_MIN_HEAD = 3


def _is_misspelt(one: str, other: str) -> bool:
    """Whether two long words differ by a letter that is left out inside, or by two that changed places."""
    short, long = sorted((one, other), key=len)
    head = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < _MIN_MISSPELT or not _MIN_HEAD <= head < len(short):
        return False
    if len(short) == len(long):
        return short[head:] == long[head + 1 : head + 2] + long[head] + long[head + 2 :]
    return short[head:] == long[head + 1 :]


_MIN_JOINED = 3


def _without_gaps(units: Sequence[str]) -> str:
    """The text without the gaps between its words: "time zone" is "timezone"."""
    text, last = "", ""
    for unit in units:
        joins = min(len(last), len(unit)) >= _MIN_JOINED and last.isalpha() and unit.isalpha()
        text, last = text + ("" if joins else " ") + unit, unit
    return text


_MIN_PART = 3
"""Of a part that moved: its characters, and one for each word. 蜜蜂 is not 蜂蜜."""


def _is_turned(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the texts differ in which of two parts comes first: "for staging, which port"."""
    if len(one) != len(other):
        return False
    row, sought = "\0".join(["", *one]), "\0".join(["", *other, ""])
    start = (row + row + "\0").find(sought)
    return start >= 0 and min(start, len(row) - start) >= _MIN_PART


@lru_cache(maxsize=256)
def _said(text: str) -> _Said:
    reading = _Reading(_tokens(text))
    for at in range(len(reading.folded)):
        reading.take(at)
    return _Said(frozenset(reading.kind), tuple(reading.units), tuple(reading.plain), tuple(reading.folded))


# Punctuation inside a word is a part of it (v1.2, a/b.txt); elsewhere it says nothing.
_LETTER = rf"[^\W{CJK}]"
_TOKEN = re.compile(rf"[{CJK}]+|(?<!\w)[-+−](?=\d)|{_LETTER}+(?:[.:/\\@&'’,-]{_LETTER}+)*[+#%]*|[^\w\s]")
_NEGATED = re.compile(r"n['’]t\b", re.IGNORECASE)
_CONTRACTED = re.compile(r"(?<=\w)['’](?:s|re|m|ll|ve|d)\b", re.IGNORECASE)


def _tokens(text: str) -> list[str]:
    text = unicodedata.normalize("NFKC", text)
    text = _CONTRACTED.sub("", _NEGATED.sub(" not", text))
    return [token for token in _TOKEN.findall(text) if len(token) > 1 or _counts(token)]


def _counts(char: str) -> bool:
    """Whether a character alone says something: letters, marks and signs (<, $, 🙂) do."""
    kind = unicodedata.category(char)
    return char in "-+−" or kind[0] in "LNM" or kind in {"Sm", "Sc", "So", "Co", "Cs", "Cn"}


def _folded(token: str) -> str:
    """The form in which a token is compared; hyphens between letters are left out ("e-mail")."""
    folded = token.casefold()
    joined = folded.replace("-", "")
    return joined if joined.isalpha() else folded


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_POLITE = _words("please kindly ok okay hi hello hey thanks thank sorry just so then also again")
_FILLERS = _POLITE | _words(
    "the a an of for in on at by as i me we us our your it its is are be being am do does doing done have "
    "has can ca could would wo will shall should may might must really actually exactly currently confirm "
    "let know whether there here now"
)
_NEGATIONS = _words("not no never without neither nor cannot")
_WHAT = _words("what which")
_PAST = _words("did was were had been")
_ASKING = _words("who whom whose why how when where")
_BINDERS = _words(
    "to into onto from before after over under above below with until till than between against via through "
    "if unless because when where per"
)
"""These belong to the next word: "from staging to production" is not "from production to staging"."""
_LIGHT = _words("want like prefer wish need choose pick select use")
"""These say nothing of their own in "which … do you want" and "do you want me to …"."""
_OF_A_WISH = _words("me us to that")
"""They follow a word of the kind above where it only leads to what is wished."""
_REQUESTS = _words("say tell specify provide clarify state give enter share")
"""At a text's start these ask what something is."""
_LEAD = _POLITE | _words("can could would will you i need to")
"""What may stand before a request at the start."""
_NO_DEED = _LIGHT | _REQUESTS | _PAST | _words("mean mind think or you")
"""What "you" may be followed by where it is not asked to do anything."""
_SMALL = _FILLERS | _PAST | _WHAT | _ASKING | {"you"}


_LENGTH_OF_A_STATE = 2
_SAID_LOUD = _words("or ok no")
"""Short words that are in capitals for weight, not as names."""


class _Reading:
    """Reads the words of a text one by one."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.folded = [_folded(token) for token in tokens]
        self.kind: set[str] = set()
        self.units: list[str] = []
        self.plain: list[bool] = []
        self._tokens = tokens
        self._is_loud = not any(token.islower() for token in tokens)
        self._binder = ""
        self._joins = False
        self._request = self._find_request()
        self._asks_what = self._request is not None or any(
            word in _WHAT or _CHINESE_WHAT.search(word) for word in self.folded
        )

    def take(self, at: int) -> None:
        """Read the word at a place."""
        word = self.folded[at]
        if _IS_CJK.match(word):
            self._take_chinese(word)
        elif self._is_name(at):
            self._add(at)
        elif word in _WHAT or at == self._request:
            self.kind.add("what")
        elif word in _PAST or (at == 0 and word in {"have", "has"}):
            self.kind.add("past")
        elif word in _NEGATIONS:
            self._add(at, "not")
        elif word == "or":
            self._joins = bool(self.units)
        elif word == "you":
            self._take_you(at)
        elif word in _ASKING or word in _BINDERS:
            self._take_link(at)
        elif self._matters(at):
            self._add(at)

    def _find_request(self) -> int | None:
        """Where the text says "tell me" or the like, not "tell me whether"."""
        first = next((n for n, word in enumerate(self.folded) if word not in _LEAD), None)
        if first is None or self.folded[first] not in _REQUESTS or {"if", "whether"} & set(self.folded):
            return None
        return first

    def _take_you(self, at: int) -> None:
        """Tell "will you restart it" from "do you want me to"."""
        following = next((word for word in self.folded[at + 1 :] if word not in _FILLERS), "")
        if following and following not in _NO_DEED:
            self.kind.add("you")

    def _take_link(self, at: int) -> None:
        word = self.folded[at]
        if word in _ASKING:
            self.kind.add(word)
        after_a_word = at > 0 and self._matters(at - 1)
        if word == "to" and not after_a_word:
            return  # "do you want me to", not "from here to there"
        if word == "if" and at > 0 and not after_a_word:
            return  # "let me know if", not "stop if it fails"
        if word in _BINDERS:
            self._binder = word

    def _take_chinese(self, run: str) -> None:
        self._binder, self._joins = "", False
        run = _EITHER_WAY.sub(r"\1", run)
        for kind, pattern in _CHINESE_KINDS:
            run, found = pattern.subn("", run)
            if found:
                self.kind.add(kind)
        run = _CHINESE_FILLERS.sub("", run)
        run = _CHINESE_LIGHT.sub("", run) if self._asks_what else run
        self.units += run
        self.plain += [False] * len(run)

    def _add(self, at: int, word: str = "") -> None:
        """Add a word that matters, with the one that binds it; "red or blue" is "blue or red"."""
        word = word or _word(self._tokens[at], self.folded[at])
        others = self.units[-1].split("|") if self._joins and self.units else []
        binder = self._binder or (others[-1].rpartition(" ")[0] if others else "")
        word = f"{binder} {word}" if binder else word
        if others:
            self.units[-1], self.plain[-1] = "|".join(sorted([*others, word])), False
        else:
            self.units.append(word)
            self.plain.append(self._tokens[at].islower() and _PLAIN.fullmatch(word) is not None)
        self._binder, self._joins = "", False

    def _is_name(self, at: int) -> bool:
        """Whether a small word is a name here: "US", "plan A"."""
        token = self._tokens[at]
        following = self.folded[at + 1] if at + 1 < len(self.folded) else ""
        if token.casefold() == "a":
            return not following.isalpha() or len(following) == 1 or following in {"or", "and"}
        is_short = len(token) == _LENGTH_OF_A_STATE and token.casefold() not in _SAID_LOUD
        return is_short and token.isupper() and not self._is_loud

    def _matters(self, at: int) -> bool:
        word = self.folded[at]
        if word in _LIGHT:
            following = self.folded[at + 1] if at + 1 < len(self.folded) else ""
            return not self._asks_what and following not in _OF_A_WISH
        return word not in _SMALL and word not in _BINDERS


_PLAIN = re.compile(r"[a-z]+")
_PLURAL = re.compile(r"(?<=[a-z]{3})(?<![sui])s$")
_BRITISH = re.compile(r"(?<=[a-z]{3})our(?=$|s$|ed$|ing$|ite$)")


def _word(token: str, word: str) -> str:
    """A word in the singular, unless it may be a name, and spelt the American way."""
    if not _PLAIN.fullmatch(word):
        return word
    return _BRITISH.sub("or", _PLURAL.sub("", word) if token.islower() else word)


_IS_CJK = re.compile(rf"[{CJK}]")
_EITHER_WAY = re.compile(r"(.)[不没]\1")
"""A不A, which asks whether A."""
_CHINESE_WHAT = re.compile("哪|什么|告诉|说明|提供|给出")
_CHINESE_KINDS = (
    ("why", re.compile("为什么|为何")),
    ("when", re.compile("什么时候|什么时间|何时|几点")),
    ("where", re.compile("哪里|哪儿|何处|什么地方")),
    ("who", re.compile("谁|哪位")),
    ("how", re.compile("怎么样?|怎样|如何")),
    ("many", re.compile("多少|几(?=[个种台条份次天])")),
    ("what", re.compile("哪一?[个些种项款台条份]?|什么|告诉|说明|提供|给出")),
)
_CHINESE_FILLERS = re.compile(
    "请问|请|麻烦|劳驾|一下|我们|你们|[你您]的?|我(?!的)|[吗呢吧啊呀的是要想]|应该|应当|可以|能否|^能|"
    "是否|需要|希望|还是|或者|现在|具体"
)
_CHINESE_LIGHT = re.compile("使用|采用|选用|选择|偏好|喜欢|用(?![户途于例])|选")
