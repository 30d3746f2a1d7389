"""Which parameter of a request the words of an error say no to."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from turnflow.nodes.call_llm.errors.refused_content import NOT_TAKEN

_MAX_NAMES = 100
_MAX_NAME = 64
_MAX_MENTIONS = 5
_BEFORE, _AFTER = 100, 140
_COMPLAINT = re.compile(
    NOT_TAKEN + r"|invalid|illegal|must (?:not )?be|should be|out of range|range of"
    r"|only .{0,40}(?:allowed|supported)|deprecated|cannot both|can't both|mutually exclusive"
    r"|unknown|unrecogni[sz]ed|unexpected|forbidden"
    r"|not a valid|leave it unset|参数非法|仅支持|只支持|failed to parse|not permitted"
    r"|one of .{0,30} not both",
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(
    r"expected one of|(?:supported|valid|allowed|available|permitted) (?:values|parameters|fields"
    r"|options|keys)"
    r"|did you mean|\binstead\b|known fields",
    re.IGNORECASE,
)
"""Behind it stand names of what is taken."""
_KIND = r"(?:param(?:eter)?|argument|field|propert(?:y|ie)|option|key)s?"
_MARKED_BEFORE = re.compile(
    rf"\b{_KIND}(?: supplied| (?:is |are )?not (?:supported|permitted|allowed)[^:]{{0,40}})?"
    rf"(?:\.|[\s:'\"`\[({{]{{1,4}})$",
    re.IGNORECASE,
)
_MARKED_AFTER = re.compile(rf"['\"`]?,? {_KIND}\b|: extra inputs", re.IGNORECASE)
"""Words right beside a name that say that it is one."""
_QUALIFIED = (
    rf"(?:[ :,]+(?:{_KIND}|request|body|inputs?|values?|types?|names?|supplied|provided|for|the|this|in|of"
    r"|legacy))"
)
_NOT = r"(?:not|(?:\w{2,6})?n['\u2019]t|no longer|never)"
_REFUSED_BEFORE = re.compile(
    rf"(?:(?:unsupported|unknown|unrecogni[sz]ed|unexpected|extra)|{_NOT} (?:\w+ )?(?:support|allow|accept"
    rf"|permit|recogni[sz]e)\w{{0,3}}|no endpoints found that support|failed to parse"
    rf"|extra inputs are not permitted){_QUALIFIED}{{0,4}}['\"`\[({{:,\s]*$",
    re.IGNORECASE,
)
_REFUSED_AFTER = re.compile(
    rf"['\"`\])}}]{{0,3}}:?(?: (?:{_KIND}|values?|type))?,?(?: (?:is|are|was|does|do|currently|has|been)\b)*"
    rf" ?(?:{_NOT} (?:\w+ ){{0,2}}?(?:support|allow|accept|permit|implement|enabled|recogni[sz]ed)"
    r"|unsupported|deprecated|incompatible"
    r"|(?:(?:and|or) ['\"`]?\w{1,40}['\"`]? )?cannot both|extra inputs are not permitted|不支持|暂不支持)",
    re.IGNORECASE,
)
"""Words right beside a name that say no to it."""
_WRONG_BEFORE = re.compile(rf"(?:invalid|illegal|wrong|bad){_QUALIFIED}{{0,4}}[:\s]*['\"`]$", re.IGNORECASE)
_WRONG_AFTER = re.compile(
    r"['\"`](?: (?:parameter|field|value))?:?"
    r" (?:must|should|has to|is (?:only|invalid|out)|out of range|expected)",
    re.IGNORECASE,
)
"""The same of a name in quotes, whose value is wrong."""
_BESIDE = 80
_ANOTHER = re.compile(
    r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected|invalid|illegal) "
    r"(?:(?:request )?(?:parameter|argument|field|key|property|option|value)(?:s|\(s\))?|type)"
    r"(?: supplied| for)?:? ['\"`](?P<name>[\w.]{1,64})['\"`]",
    re.IGNORECASE,
)
_PLAIN = frozenset({"temperature", "seed", "logprobs", "grammar"})
"""Names that are no words of an error's prose."""
_ALSO = {
    "stream_options": "include[ _]?usage",
    "response_format": r"json[ _-]?(?:schema|mode|object|output)|structured[ _-]outputs?",
    "reasoning_effort": r"reasoning[ ._-]effort",
    "max_tokens": r"max[ _]?new[ _]?tokens|max[ _]?output[ _]?tokens|num_predict",
    "max_completion_tokens": r"max[ _]?new[ _]?tokens|max[ _]?output[ _]?tokens|num_predict",
    "grammar": r"gbnf",
}
"""What providers call the same, as patterns."""


def named_parameter(text: str, names: Collection[str], *, strictly: bool = False) -> str:
    """The first parameter that the text complains of, or ''.

    Args:
        text: What the error says.
        names: Parameters that were sent.
        strictly: Whether the complaint has to stand right beside the name.
    """
    return _first(text, names, _is_refused_beside if strictly else _is_complaint)


def quoted_parameter(text: str, names: Collection[str]) -> str:
    """The first parameter that stands in quotes, right beside a complaint, or ''."""
    return _first(text, names, _is_quoted_beside)


def names_another(text: str, names: Collection[str]) -> bool:
    """Whether a parameter that stands in quotes right behind a complaint is none of these."""
    match = _ANOTHER.search(text)
    return match is not None and match["name"].partition(".")[0].lower() not in names


def same_parameter(place: str, names: Collection[str]) -> str:
    """The parameter among `names` that a provider calls `place`, or ''."""
    wanted = _plain(place)
    for name in sorted(names):
        if _plain(name) == wanted:
            return name
    for name in sorted(names):
        if name in _ALSO and re.fullmatch(_ALSO[name], place[:_MAX_NAME], re.IGNORECASE):
            return name
    return "reasoning_effort" if place == "reasoning" and "reasoning_effort" in names else ""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _first(text: str, names: Collection[str], counts: Callable[[str, str, re.Match[str]], bool]) -> str:
    """The name whose mention comes first, of those that count."""
    if alternatives := _ALTERNATIVES.search(text):
        text = text[: alternatives.start()] or text
    found = [
        (match.start(), name)
        for name in sorted(names)[:_MAX_NAMES]
        for match in _mentions(text, name)
        if counts(text, name, match)
    ]
    return min(found)[1] if found else ""


def _mentions(text: str, name: str) -> Iterator[re.Match[str]]:
    if not name or len(name) > _MAX_NAME:
        return
    spelled = "[ _-]?".join(re.escape(part) for part in name.split("_"))
    pattern = re.compile(
        rf"(?<!\w)(?:{spelled}{'|' + _ALSO[name] if name in _ALSO else ''})(?!\w)", re.IGNORECASE
    )
    yield from islice(pattern.finditer(text), _MAX_MENTIONS)


def _is_complaint(text: str, name: str, match: re.Match[str]) -> bool:
    """Whether the mention is one of a parameter, and a complaint stands around it."""
    around = text[max(0, match.start() - _BEFORE) : match.end() + _AFTER]
    return _is_parameter(text, name, match) and bool(_COMPLAINT.search(around))


def _is_refused_beside(text: str, name: str, match: re.Match[str]) -> bool:
    before, after = _beside(text, match)
    if not _is_parameter(text, name, match):
        return False
    if _REFUSED_BEFORE.search(before) or _REFUSED_AFTER.match(after):
        return True
    return _is_quoted(text, match) and bool(_WRONG_BEFORE.search(before) or _WRONG_AFTER.match(after))


def _is_quoted_beside(text: str, name: str, match: re.Match[str]) -> bool:
    return _is_quoted(text, match) and _is_refused_beside(text, name, match)


def _is_parameter(text: str, name: str, match: re.Match[str]) -> bool:
    """Whether a name that may be a word of prose is marked as a name."""
    if name in _PLAIN or "_" in name or _is_quoted(text, match):
        return True
    before, after = _beside(text, match)
    return bool(_MARKED_BEFORE.search(before) or _MARKED_AFTER.match(after))


def _beside(text: str, match: re.Match[str]) -> tuple[str, str]:
    return text[max(0, match.start() - _BESIDE) : match.start()], text[match.end() : match.end() + _BESIDE]


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    """Whether it stands in quotes or backticks."""
    before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
    return before in {"'", '"', "`"} and after in {"'", '"', "`", "."}
